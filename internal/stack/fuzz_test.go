package stack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	corpus = "testdata/fuzz/FuzzPlan"
	kept   = 12 // entries of the corpus
	// fuzzed is the size of the plans that are fuzzed: small ones run fast, and are easier to read.
	fuzzed = 6
)

// The bytes are the rolls that a plan is made with.
func FuzzPlan(f *testing.F) {
	f.Fuzz(func(t *testing.T, rolls []byte) {
		if r := play(t, newPlan(&tape{rolls}, fuzzed)); len(r.violations) > 0 {
			t.Fatal(r.report())
		}
	})
}

// recorder notes the rolls of other dice.
type recorder struct {
	dice
	rolls []byte
}

func (r *recorder) roll(n int) int {
	v := r.dice.roll(n)
	r.rolls = append(r.rolls, byte(v))
	return v
}

func TestDice_RecordedRollsMakeTheSamePlan(t *testing.T) {
	for seed := range uint64(100) {
		r := &recorder{dice: newSeeded(seed)}
		p := newPlan(r, fuzzed)
		require.Equal(t, p, newPlan(newSeeded(seed), fuzzed))
		require.Equal(t, p, newPlan(&tape{r.rolls}, fuzzed))
	}
}

// With -update the corpus is made anew, as it has to be when the way changes in which rolls
// make a plan.
func TestCorpus_HasEveryKindOfCallAndFault(t *testing.T) {
	if *update {
		writeCorpus(t)
	}
	files, err := filepath.Glob(corpus + "/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	has := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, quoted, _ := strings.Cut(string(text), "[]byte(")
		rolls, err := strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(quoted), ")"))
		require.NoError(t, err)
		newPlan(&tape{[]byte(rolls)}, fuzzed).kinds(has)
	}
	require.Subset(t, has, everyKind(), "-update makes a corpus that has them")
}

// kinds notes what a plan has.
func (p *plan) kinds(has map[string]bool) {
	for _, c := range p.clients {
		for _, steps := range c.workers {
			for _, s := range steps {
				has[s.kind.String()] = true
			}
		}
	}
	for _, f := range p.faults {
		has[f.kind.String()] = true
	}
}

func everyKind() map[string]bool {
	all := map[string]bool{}
	for _, name := range stepNames {
		all[name] = true
	}
	for _, name := range faultNames {
		all[name] = true
	}
	return all
}

// writeCorpus keeps the plans that have the most which those before have not.
func writeCorpus(t *testing.T) {
	require.NoError(t, os.MkdirAll(corpus, 0o755))
	has := map[string]bool{}
	for i := range kept {
		var best []byte
		most := -1
		for seed := range uint64(2000) {
			r := &recorder{dice: newSeeded(uint64(i)<<32 + seed)}
			own := map[string]bool{}
			newPlan(r, fuzzed).kinds(own)
			news := len(own)
			for kind := range own {
				if !has[kind] {
					news += 100
				}
			}
			if news > most {
				most, best = news, r.rolls
			}
		}
		newPlan(&tape{best}, fuzzed).kinds(has)
		text := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", best)
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/plan-%02d", corpus, i), []byte(text), 0o644))
	}
}
