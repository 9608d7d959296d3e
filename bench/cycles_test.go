package bench_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// BenchmarkB_Cycles is 64 callers, each with a name of its own: how many locks they take and give back together
// (cycles/s). ns/op is the cycle of one of them.
func BenchmarkB_Cycles(b *testing.B) {
	each(b, slices.Insert(slices.Clone(ofFive), 2, subject.Named("quorumlock-fenced")...), 5, cycles)
	each(b, ofOne, 1, cycles)
}

func cycles(b *testing.B, s subject.Subject, servers []*testredis.Process) {
	connected(b, s, servers).measure(b)
}

// connected returns the callers of B when each has made some cycles.
func connected(b *testing.B, s subject.Subject, servers []*testredis.Process) crowd {
	c := gather(open(b, s, servers, manyCallers, ampleTimeout), manyCallers)
	require.NoError(b, c.cycles(10))
	return c
}

// crowd is callers with a name each.
type crowd []subject.Caller

func gather(c subject.Client, n int) crowd {
	all := make(crowd, n)
	for i := range all {
		all[i] = c.Caller(fmt.Sprintf("bench-%d", i))
	}
	return all
}

// cycles makes n cycles with each caller, all at the same time. It returns an error if all cycles of a caller fail: some may, as
// redsync with WithFailFast may find its last release late on a majority of the nodes.
func (c crowd) cycles(n int) error {
	failures := make([]error, len(c))
	var running sync.WaitGroup
	for i, caller := range c {
		running.Go(func() {
			own := tally{}
			for range n {
				own.add(cycle(caller))
			}
			if own.cycles == 0 {
				failures[i] = own.failure
			}
		})
	}
	running.Wait()
	return errors.Join(failures...)
}

// start makes cycles with all callers until stop is called, which returns what they made.
func (c crowd) start() (stop func() tally) {
	var (
		running sync.WaitGroup
		over    atomic.Bool
		each    = make([]tally, len(c))
	)
	for i, caller := range c {
		running.Go(func() {
			own := tally{}
			for !over.Load() {
				own.add(cycle(caller))
			}
			each[i] = own
		})
	}
	return sync.OnceValue(func() tally {
		over.Store(true)
		running.Wait()
		sum := tally{}
		for _, t := range each {
			sum = sum.plus(t)
		}
		return sum
	})
}

// measure makes cycles with all callers for the time of the benchmark, and reports them.
func (c crowd) measure(b *testing.B) tally {
	begin := time.Now()
	stop := c[1:].start()
	defer stop()
	own := tally{}
	for b.Loop() {
		own.add(cycle(c[0]))
	}
	all := own.plus(stop())
	all.took = time.Since(begin) // b.Elapsed lacks the last cycles of the others, which each may wait for the rest
	b.ReportMetric(float64(all.cycles)/all.took.Seconds(), "cycles/s")
	all.report(b)
	return all
}

// tally counts cycles.
type tally struct {
	cycles, failed int
	failure        error // of the first that failed
	took           time.Duration
}

func (t *tally) add(err error) {
	if err == nil {
		t.cycles++
		return
	}
	t.failed++
	if t.failure == nil {
		t.failure = err
	}
}

// report says which share of the cycles failed, from 0 to 1. Where all did, the benchmark fails.
func (t tally) report(b *testing.B) {
	if t.cycles == 0 {
		b.Fatal(t.failure)
	}
	b.ReportMetric(float64(t.failed)/float64(t.cycles+t.failed), "failed/op")
}

func (t tally) plus(u tally) tally {
	if t.failure == nil {
		t.failure = u.failure
	}
	t.cycles += u.cycles
	t.failed += u.failed
	return t
}
