package main

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/mutation"
)

// A simulator that misses a weakened rule would miss a mistake as well. Each run tries a twentieth of the mutations; make
// proof tries all.
func TestProve_CatchesMutations(t *testing.T) {
	t.Chdir("../../../..")
	all := mutation.All()
	for i := rand.IntN(20); i < len(all); i += 20 {
		m := all[i]
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			c, err := try(m, seedOf(m))
			require.NoError(t, err, m.Rule)
			t.Logf("caught by seed %s: %s", c.Seed, c.What)
		})
	}
}

// The page is the template with the results of the last prove -write, which the list has.
func TestProve_ThePageIsThatOfTheListAndTheTemplate(t *testing.T) {
	t.Chdir("../../../..")
	list, err := os.ReadFile(listPath)
	require.NoError(t, err)
	p, err := parseList(string(list))
	require.NoError(t, err)
	require.Equal(t, string(list), string(p.list()))
	want, err := p.page()
	require.NoError(t, err)
	text, err := os.ReadFile(pagePath)
	require.NoError(t, err)
	require.Equal(t, string(want), string(text), "go run ./internal/dev/sim/prove -page writes it")
	require.Len(t, p.Telling(), 10)
}
