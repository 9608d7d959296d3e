package stack_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// fuzzed is the size of the plans that are fuzzed: small ones run fast, and are easier to read.
const fuzzed = 6

// The bytes are the rolls that a plan is made with. It begins with plans that have every kind of call and fault among them.
func FuzzPlan(f *testing.F) {
	has, all := map[string]bool{}, everyKind()
	for seed := byte(0); len(has) < len(all); seed++ {
		rolls, known := make([]byte, 1<<10), len(has)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(rolls)
		if newPlan(&tape{rolls}, fuzzed).kinds(has); len(has) > known {
			f.Add(rolls)
		}
	}
	f.Fuzz(func(t *testing.T, rolls []byte) {
		if r := play(t, newPlan(&tape{rolls}, fuzzed)); len(r.violations) > 0 {
			t.Fatal(r.report())
		}
	})
}

func TestDice_SameSeedMakesTheSamePlan(t *testing.T) {
	for seed := range uint64(100) {
		require.Equal(t, newPlan(newSeeded(seed), fuzzed), newPlan(newSeeded(seed), fuzzed))
	}
}

// kinds notes what a plan has.
func (p *plan) kinds(has map[string]bool) {
	for _, c := range p.clients {
		for _, s := range slices.Concat(c.workers...) {
			has[s.kind.String()] = true
		}
	}
	for _, f := range p.faults {
		has[f.kind.String()] = true
	}
}

// everyKind lists the kinds of calls and faults.
func everyKind() []string { return slices.Concat(stepNames[:], faultNames[:]) }
