package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A simulator that misses a weakened rule would miss a mistake as well.
func TestProve_CatchesEveryMutation(t *testing.T) {
	t.Chdir("../../..")
	for _, m := range mutations {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			c, err := m.try(m.seed())
			require.NoError(t, err, m.Rule)
			t.Logf("caught by seed %s: %s", c.Seed, c.What)
		})
	}
}
