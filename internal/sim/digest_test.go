package sim_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/sim"
)

func TestDigest_TwoRunsAgree(t *testing.T) {
	require.Equal(t, sim.Digest(1, 50), sim.Digest(1, 50))
	require.NotEqual(t, sim.Digest(1, 50), sim.Digest(2, 50))
	require.NotEqual(t, sim.Digest(1, 50), sim.Digest(1, 49))
}

func TestRecord_IsTheTraceAndWhatNamesAskFor(t *testing.T) {
	kinds := map[string]bool{}
	for seed := range uint64(200) {
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
	require.Len(t, kinds, 16, "what names ask for")
}

// Another file is about these, so that they can be changed by themselves.
func TestRecord_HasNoStringsThatAreForTheWireOnly(t *testing.T) {
	wire := []string{"|readers", "|permits", "|wanted", "}:fence", "}:sharers", "}:wanted", "}:slots", "EVAL"}
	for _, script := range form.Scripts {
		wire = append(wire, script.Hash)
	}
	for seed := range uint64(100) {
		record := strings.Join(sim.Record(sim.NewPlan(seed)), "\n")
		for _, s := range wire {
			require.False(t, strings.Contains(record, s), "seed %d: %s", seed, s)
		}
	}
}
