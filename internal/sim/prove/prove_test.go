package main

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// seeds are the schedules that have caught each mutation before. They are tried first, as others may take minutes.
//
//go:embed testdata/seeds.txt
var seeds string

// A simulator that misses a weakened rule would miss a mistake as well.
func TestProve_CatchesEveryMutation(t *testing.T) {
	t.Chdir("../../..")
	for _, m := range mutations {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			c, err := m.try(seedOf(m.Name))
			require.NoError(t, err, m.Rule)
			t.Logf("caught by seed %s: %s", c.Seed, c.What)
		})
	}
}

// seedOf returns the seed that has caught a mutation before, or 1.
func seedOf(name string) (seed uint64) {
	for line := range strings.Lines(seeds) {
		if n, _ := fmt.Sscanf(line, name+" %d", &seed); n == 1 {
			return seed
		}
	}
	return 1
}
