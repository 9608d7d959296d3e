package main

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/mutation"
)

// A simulator that misses a weakened rule would miss a mistake as well. Each run tries a tenth of the mutations; make
// proof tries all.
func TestProve_CatchesMutations(t *testing.T) {
	t.Chdir("../../../..")
	all := mutation.All()
	for i := rand.IntN(10); i < len(all); i += 10 {
		m := all[i]
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			c, err := try(m, seedOf(m))
			require.NoError(t, err, m.Rule)
			t.Logf("caught by seed %s: %s", c.Seed, c.What)
		})
	}
}
