package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProve_EachMutationChangesOnePlaceOfTheSource(t *testing.T) {
	for _, m := range mutations {
		source, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(m.file)))
		require.NoError(t, err)
		require.Equal(t, 1, bytes.Count(source, []byte(m.was)), m.Name)
	}
}

// A simulator that misses a weakened rule would miss a mistake as well. Each run tries a fifth of the mutations; make
// proof tries all.
func TestProve_CatchesMutations(t *testing.T) {
	t.Chdir("../../..")
	for i := rand.IntN(5); i < len(mutations); i += 5 {
		m := mutations[i]
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			c, err := m.try(m.seed())
			require.NoError(t, err, m.Rule)
			t.Logf("caught by seed %s: %s", c.Seed, c.What)
		})
	}
}
