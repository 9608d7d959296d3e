// Package stack_test runs the whole library in memory: redlock, pool and redigo over
// connections that are buffers, to servers that speak Redis's protocol and are made to
// fail, all in the time of a synctest bubble.
//
// It shows what internal/dev/sim, which runs the decisions alone, cannot show: pipelining,
// deadlines, reconnects, late replies, Close, and the end of goroutines.
//
// A seed makes a plan, always the same one; a plan does not always run the same way. Time
// is virtual, but which of two goroutines goes first at one instant is the scheduler's
// choice. A seed that failed may need a few repetitions to fail again:
//
//	go test ./internal/dev/stack -run TestStack_NoPlanBreaksAPromise -seed 17 -count 20
package stack_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	oneSeed = flag.Uint64("seed", 0, "run this plan alone, and print what happened")
	seeds   = flag.Uint64("seeds", sample, "how many plans to run")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// In CI the plans are always the same, so that a change is refused for what it does.
func TestStack_NoPlanBreaksAPromise(t *testing.T) {
	alone := false
	flag.Visit(func(f *flag.Flag) { alone = alone || f.Name == "seed" })
	if alone {
		r := playSeed(t, *oneSeed)
		t.Log(r.report())
		require.Empty(t, r.violations)
		return
	}
	happened := map[string]int{}
	from := uint64(1)
	if os.Getenv("CI") != "true" {
		from = rand.Uint64N(1 << 40)
	}
	t.Logf("from seed %d", from)
	wanted := append(everyKind(), "won", "extended", "unlocked", "detached", "attached", "done", "tracked", "invalidated", "message", "killed")
	missing := func(what string) bool { return happened[what] == 0 }
	// What is rare may need some more plans.
	for seed := from; seed < from+*seeds || *seeds >= sample && seed < from+10**seeds && slices.ContainsFunc(wanted, missing); seed++ {
		r := playSeed(t, seed)
		if len(r.violations) > 0 {
			t.Fatalf("after %d plans: seed %d (-run %s -seed %d -count 20): %s", seed-from+1, seed, t.Name(), seed, r.report())
		}
		for what, n := range r.happened {
			happened[what] += n
		}
	}
	for what, n := range happened {
		t.Log(what, n)
	}
	if *seeds >= sample {
		for _, what := range wanted {
			require.Positive(t, happened[what], what)
		}
	}
}

func playSeed(t *testing.T, seed uint64) *run {
	defer func() {
		if what := recover(); what != nil {
			t.Logf("seed %d", seed)
			panic(what)
		}
	}()
	return play(t, newPlan(newSeeded(seed), 12))
}

// The acquire is on its way, and its release gets no further than half, when their connection is replaced. An attempt to connect that
// fails in between makes no difference.
func TestStack_AcquireThatArrivesAfterItsReleaseTakesNoEffect(t *testing.T) {
	stalled := fault{at: 10 * unit, kind: stall, lasts: 300 * unit}
	for i := range 20 {
		steps := []step{{kind: tryLock, ttl: long}, {kind: unlock}, {pause: 15 * unit, kind: tryLock, ttl: long}}
		p := &plan{nodes: 1, names: 1, room: 80, permits: true}
		p.faults = []fault{stalled, {at: 50 * unit, kind: refuse, lasts: 50 * unit}}[:1+i%2]
		p.clients = []clientPlan{{timeout: 20 * unit, dial: 50 * unit, maxOverdue: 30 * unit, workers: [][]step{steps}}}
		r := play(t, p)
		require.Empty(t, r.violations, "%s", r.report())
		require.Equal(t, 3, r.happened["won"], "%s", r.report())
	}
}
