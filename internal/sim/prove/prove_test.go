package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A simulator that misses a weakened rule would miss a mistake as well.
func TestEveryMutantIsCaught(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			found, err := m.try(root, bound)
			require.NoError(t, err)
			require.NotNil(t, found, "%s survives %d schedules: %s", m.Name, bound, m.Rule)
			t.Logf("caught by schedule %d: %s", found.Tried, found.What)
			require.LessOrEqual(t, len(found.Story), 120, "the story is short")
		})
	}
}
