package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// trial is a call that does not wait. It returns what is to be unlocked.
type trial func(l *redlock.Locker, name string) (interface{ Unlock(context.Context) error }, error)

// storm has each of some Lockers begin a call at one instant, and releases what they have got. It returns how many have got it.
func storm(tb testing.TB, lockers []*redlock.Locker, call trial, name string) (won int) {
	tb.Helper()
	begin, all, mu := make(chan struct{}), sync.WaitGroup{}, sync.Mutex{}
	var got []interface{ Unlock(context.Context) error }
	for _, locker := range lockers {
		all.Go(func() {
			<-begin
			lock, err := call(locker, name)
			if err != nil {
				assert.ErrorIs(tb, err, redlock.ErrTaken)
				return
			}
			mu.Lock()
			got = append(got, lock)
			mu.Unlock()
		})
	}
	close(begin)
	all.Wait()
	for _, lock := range got {
		assert.NoError(tb, lock.Unlock(tb.Context()))
	}
	return len(got)
}

// during is a function that runs under a lock until it is told to end.
type during struct {
	end   chan struct{}
	ended <-chan error
}

// Unlock returns what the call of TryDo does.
func (d *during) Unlock(context.Context) error {
	close(d.end)
	return <-d.ended
}

// tryDo returns a call of TryDo once its function runs, or why it does not.
func tryDo(ctx context.Context, l *redlock.Locker, name string) (*during, error) {
	d, runs := &during{end: make(chan struct{})}, make(chan struct{})
	ended := beside(func() error {
		return l.TryDo(ctx, name, func(context.Context, *redlock.Lock) error {
			close(runs)
			<-d.end
			return nil
		})
	})
	d.ended = ended
	select {
	case <-runs:
		return d, nil
	case err := <-ended:
		return nil, err
	}
}

// If a split round is the last of a call, nobody gets the lock in up to two thirds of such storms.
func TestTryLock_OfCallersAtOneInstantOneGetsTheLock(t *testing.T) {
	t.Parallel()
	try := func(opts ...redlock.LockOption) trial {
		return func(l *redlock.Locker, name string) (interface{ Unlock(context.Context) error }, error) {
			return l.TryLock(t.Context(), name, opts...)
		}
	}
	do := func(l *redlock.Locker, name string) (interface{ Unlock(context.Context) error }, error) {
		return tryDo(t.Context(), l, name)
	}
	two := func(l *redlock.Locker, name string) (interface{ Unlock(context.Context) error }, error) {
		return l.TryLockAll(t.Context(), []string{name, name + "-too"})
	}
	for _, nodes := range []int{3, 5} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			c := onReal(t, nodes)
			kill(c.servers[nodes-1])
			var plain, fenced []*redlock.Locker
			for i := range 20 {
				plain, fenced = append(plain, c.locker()), append(fenced, c.locker(redlock.WithFencing()))
				for _, locker := range []*redlock.Locker{plain[i], fenced[i]} { // connects
					unlock(t, got(locker.TryLock(t.Context(), fmt.Sprint("own-", i)))(t))
				}
			}
			for what, row := range map[string]struct {
				lockers []*redlock.Locker
				call    trial
				most    int // how many may get it
			}{
				"five":               {plain[:5], try(), 1},
				"twenty":             {plain, try(), 1},
				"five-do":            {plain[:5], do, 1},
				"twenty-do":          {plain, do, 1},
				"twenty-fenced":      {fenced, try(), 1},
				"five-for-two-slots": {plain[:5], try(redlock.Slots(2)), 2},
				"five-for-two-names": {plain[:5], two, 1},
			} {
				for round := range 10 {
					won := storm(t, row.lockers, row.call, fmt.Sprint(what, "-", round))
					require.Positive(t, won, what)
					require.LessOrEqual(t, won, row.most, what)
				}
			}
		})
	}
}

// A name that others hold on a bare majority looks as if callers had split the nodes. One that they hold everywhere does not.
func TestTryLock_ANameThatIsHeldEverywhereCostsOneRound(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		locker := c.locker(redlock.WithObserver(seen))
		seen.connect(t, locker, 3)
		rounds := func(nodes int, name string) int {
			c.doFirst(nodes, "SET", name, "theirs", "PX", long.Milliseconds())
			before, tokens := len(eventsOf[event.Acquire](seen)), map[string]bool{}
			_, err := locker.TryLock(t.Context(), name, redlock.TokenSource(func() (string, error) {
				token := fmt.Sprint("token-", len(tokens))
				tokens[token] = true
				return token, nil
			}))
			_ = c.refused(err, redlock.ErrTaken)
			acquire := waitFor[event.Acquire](t, seen, before+1)[before]
			require.Len(t, tokens, acquire.Rounds, "each round has a token of its own")
			return acquire.Rounds
		}
		require.Equal(t, 1, rounds(3, "everywhere"))
		eventually(t, func() bool { return rounds(2, "majority") == 5 }, "whether the third node says yes in time is chance")
	})
}

// pausing is a clock on which a millisecond goes by with each reading, and on which no timer below a second ever runs out.
type pausing struct {
	clock.Clock
	read   atomic.Int64
	paused func() // is called with such a timer
}

func (p *pausing) Now() time.Time {
	return time.Unix(0, 0).Add(time.Duration(p.read.Add(1)) * time.Millisecond)
}

func (p *pausing) AfterFunc(d time.Duration, f func()) clock.Timer {
	if d < time.Second {
		go p.paused()
		d, f = time.Hour, func() {}
	}
	return p.Clock.AfterFunc(d, f)
}

func TestTryLock_EndsWhileItPausesBeforeARepeat(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for name, row := range map[string]struct {
			end func(cancel context.CancelFunc, locker *redlock.Locker)
			is  error
		}{
			"the context ends": {func(cancel context.CancelFunc, _ *redlock.Locker) { cancel() }, context.Canceled},
			"Close":            {func(_ context.CancelFunc, locker *redlock.Locker) { _ = locker.Close() }, redlock.ErrClosed},
		} {
			c.doFirst(2, "SET", name, "theirs", "PX", long.Milliseconds())
			eventually(t, func() bool { // whether the third node says yes in time is chance
				clock := &pausing{Clock: clock.System()}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				locker := c.locker(redlock.WithClock(clock))
				var paused atomic.Bool
				clock.paused = func() {
					paused.Store(true)
					row.end(cancel, locker)
				}
				err := errOf(locker.TryLock(ctx, name))
				if paused.Load() {
					require.ErrorIs(t, err, row.is, name)
				}
				return paused.Load()
			}, name)
		}
	})
}
