package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/sim"
	"github.com/quorumlock/quorumlock/internal/form"
)

var (
	all    = flag.Bool("all", false, "compare all of traces.txt, and not only its first lines")
	update = flag.Bool("update", false, "write traces.txt")
)

const (
	block  = 100 // seeds that have one digest
	blocks = 20  // in the file
	few    = 2   // that are compared as a rule: a second, or some ten with the race detector
)

const header = `# What happens in the schedules of so many seeds, as a digest (sim.Digest) of each hundred, on amd64.
# A commit that moves code leaves this file as it is. One that changes a rule writes it: make trace WRITE=1.
`

func TestDigest_IsThatOfTheFile(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("simulated clocks use floating-point numbers, which other processors may round in other ways")
	}
	path := filepath.Join("testdata", "traces.txt")
	if *update {
		text := header
		for i := range blocks {
			text += line(i) + "\n"
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	text, found := strings.CutPrefix(string(file), header)
	require.True(t, found, "it begins with what it is")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	require.Len(t, lines, blocks)
	if !*all {
		lines = lines[:few]
	}
	for i, before := range lines {
		if now := line(i); now != before {
			t.Errorf("was %s\nis  %s\nThe first difference to BINARY, which is prove as built from the commit before:\ngo run ./internal/dev/sim/prove -diff BINARY -from %d -seeds %d",
				before, now, first(i), block)
		}
	}
}

// line is that of the file about a block.
func line(i int) string {
	return fmt.Sprintf("%d-%d %s", first(i), first(i+1)-1, sim.Digest(first(i), block))
}

// first is the first seed of a block.
func first(i int) uint64 { return uint64(1 + i*block) }

func TestDigest_TwoRunsAgree(t *testing.T) {
	require.Equal(t, sim.Digest(1, 20), sim.Digest(1, 20))
	require.NotEqual(t, sim.Digest(1, 20), sim.Digest(2, 20))
	require.NotEqual(t, sim.Digest(1, 20), sim.Digest(1, 19))
}

func TestRecord_IsTheTraceAndWhatNamesAskFor(t *testing.T) {
	kinds := map[string]bool{}
	for seed := uint64(560); seed < 600; seed++ { // names ask for everything in these, which is rare
		p := sim.NewPlan(seed)
		var happened, asked []string
		for _, line := range sim.Record(p) {
			if _, what, is := strings.Cut(line, " asks: "); is {
				asked = append(asked, what)
			} else {
				happened = append(happened, line)
			}
		}
		require.Equal(t, sim.Meant(p, sim.Trace(p)), happened, "seed %d", seed)
		for _, what := range asked {
			if _, errand, sends := strings.Cut(what, ": "); sends && strings.HasPrefix(what, "send ") {
				what = errand
			}
			kind, _, _ := strings.Cut(what, " ")
			kinds[kind] = true
		}
	}
	t.Log(slices.Sorted(maps.Keys(kinds)))
	require.Len(t, kinds, 17, "what names ask for")
}

// Another file is about these, so that they can be changed by themselves.
func TestRecord_HasNoStringsThatAreForTheWireOnly(t *testing.T) {
	wire := []string{"|shared", "|slots", "|wanted", "}:fence", "}:sharers", "}:wanted", "}:slots", "EVAL"}
	for _, script := range form.Scripts {
		wire = append(wire, script.Hash)
	}
	for seed := range uint64(30) {
		record := strings.Join(sim.Record(sim.NewPlan(seed)), "\n")
		for _, s := range wire {
			require.False(t, strings.Contains(record, s), "seed %d: %s", seed, s)
		}
	}
}
