package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A simulator that misses a weakened rule would miss a mistake as well.
func TestEveryMutantIsCaught(t *testing.T) {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "proof.md"))
	require.NoError(t, err)
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			from := caught(t, page, m.Name)
			found, err := m.try(root, from)
			require.NoError(t, err)
			require.NotNil(t, found, "%s survives %d schedules from seed %d on: %s", m.Name, bound, from, m.Rule)
			t.Logf("caught by seed %d: %s", found.Seed, found.What)
			require.LessOrEqual(t, len(found.Story), 120, "the story is short")
		})
	}
}

// caught is the schedule that caught a mutant when the page was written: the first to be tried, as others may take minutes.
// A mutant that is not on the page is looked for from the first schedule on.
func caught(t *testing.T, page []byte, name string) uint64 {
	line := regexp.MustCompile(`\(#` + name + `\) \|[^|]*\| (\d+) \|`).FindSubmatch(page)
	if line == nil {
		return 1
	}
	seed, err := strconv.ParseUint(string(line[1]), 10, 64)
	require.NoError(t, err)
	return seed
}
