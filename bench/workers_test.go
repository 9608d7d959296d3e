package bench_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// openLockers returns n Lockers that are connected, each over connections of its own: to the others it is another
// process. They end with the benchmark.
func openLockers(b *testing.B, addrs []string, n int, opts ...redlock.Option) []*redlock.Locker {
	b.Helper()
	urls := make([]string, len(addrs))
	for i, addr := range addrs {
		urls[i] = "redis://" + addr
	}
	opts = append(opts, pool.WithTimeout(ampleTimeout))
	lockers := make([]*redlock.Locker, n)
	for i := range lockers {
		locker, err := redlock.Open(urls, opts...)
		require.NoError(b, err)
		b.Cleanup(func() { assert.NoError(b, locker.Close()) })
		lock, err := locker.Lock(ctx, fmt.Sprint("connected-", i))
		require.NoError(b, err)
		require.NoError(b, lock.Unlock(ctx))
		lockers[i] = locker
	}
	return lockers
}

// holdForGood holds the lock of a name until the benchmark ends, and renews it.
func holdForGood(b *testing.B, locker *redlock.Locker, name string) {
	b.Helper()
	lock, err := locker.Lock(ctx, name, redlock.RenewFor(redlock.NoLimit))
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, lock.Unlock(ctx)) })
}

// unlocker is what a worker gives back.
type unlocker interface {
	Unlock(ctx context.Context) error
}

// worker wants something again and again.
type worker struct {
	take  func() (unlocker, error)
	gives bool          // whether it may give up, by MaxWait
	hold  time.Duration // for how long it wants to have that
	pause time.Duration // after each turn

	turns   int       // before the end
	waits   latencies // these too that the end found under way
	held    time.Duration
	failure error
}

// locking is a worker that wants the lock of a name.
func locking(locker *redlock.Locker, name string, hold time.Duration, opts ...redlock.LockOption) *worker {
	return &worker{hold: hold, take: func() (unlocker, error) { return locker.Lock(ctx, name, opts...) }}
}

// work lets workers work for the time of the benchmark.
func work(b *testing.B, workers ...*worker) {
	stop := start(workers...)
	pass(b, contendedTime)
	stop(b)
}

// start lets workers work until stop is called, which returns when each has ended its turn.
func start(workers ...*worker) (stop func(b *testing.B)) {
	var running sync.WaitGroup
	over := make(chan struct{})
	for _, w := range workers {
		running.Go(func() {
			for again := true; again; again = w.failure == nil && !isOver(over) {
				w.failure = w.turn(over)
			}
		})
	}
	return func(b *testing.B) {
		close(over)
		running.Wait()
		for _, w := range workers {
			require.NoError(b, w.failure)
		}
	}
}

func (w *worker) turn(over <-chan struct{}) error {
	begin := time.Now()
	has, err := w.take()
	if w.gives && (errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum)) {
		return nil // the latter in the middle of a round
	} else if err != nil {
		return err
	}
	got := time.Now()
	w.waits = append(w.waits, got.Sub(begin))
	if !isOver(over) {
		w.turns++
	}
	<-time.After(w.hold)
	w.held += time.Since(got)
	if err := has.Unlock(ctx); err != nil {
		return err
	}
	<-time.After(w.pause)
	return nil
}

func isOver[T any](over <-chan T) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

// group is workers that do the same.
type group []*worker

// repeat makes a group of n workers.
func repeat(n int, make func(i int) *worker) (g group) {
	for i := range n {
		g = append(g, make(i))
	}
	return g
}

func (g group) turns() (n int) {
	for _, w := range g {
		n += w.turns
	}
	return n
}

func (g group) waits() (all latencies) {
	for _, w := range g {
		all = append(all, w.waits...)
	}
	return all
}

// meanHold is longer than the workers want on a busy machine.
func (g group) meanHold() time.Duration {
	var held time.Duration
	for _, w := range g {
		held += w.held
	}
	return held / time.Duration(max(len(g.waits()), 1))
}

// perSecond reports the turns of the group in the benchmark's time.
func (g group) perSecond(b *testing.B, unit string) {
	b.ReportMetric(float64(g.turns())/b.Elapsed().Seconds(), unit)
}

// reportIn reports a percentile of some waits, in units of a hold.
func (l latencies) reportIn(b *testing.B, percent int, hold time.Duration) {
	b.ReportMetric(l.percentile(percent)*float64(time.Microsecond)/float64(hold), fmt.Sprintf("p%d-holds", percent))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// given is something that a worker takes.
type given struct{ back error }

func (g given) Unlock(context.Context) error { return g.back }

func TestAWorkerCountsTheTurnsThatItHasHad(t *testing.T) {
	unknown := errors.New("unknown")
	over := make(chan struct{})
	close(over)
	for name, c := range map[string]struct {
		gives        bool
		take, back   error
		over         <-chan struct{}
		turns, waits int
		failure      error
	}{
		"a turn":                  {turns: 1, waits: 1},
		"after the end":           {over: over, waits: 1},
		"given up":                {gives: true, take: redlock.ErrTaken},
		"given up in a round":     {gives: true, take: redlock.ErrNoQuorum},
		"given up without leave":  {take: redlock.ErrTaken, failure: redlock.ErrTaken},
		"not taken":               {gives: true, take: unknown, failure: unknown},
		"lost before its release": {back: unknown, turns: 1, waits: 1, failure: unknown},
	} {
		w := &worker{gives: c.gives, take: func() (unlocker, error) { return given{c.back}, c.take }}
		require.ErrorIs(t, w.turn(c.over), c.failure, name)
		assert.Equal(t, c.turns, group{w}.turns(), name)
		assert.Len(t, group{w}.waits(), c.waits, name)
	}
}
