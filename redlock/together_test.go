package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// all returns locks that a call must have got. They are released when the test ends.
func all(locks *redlock.Locks, err error) func(tb testing.TB) *redlock.Locks {
	return func(tb testing.TB) *redlock.Locks {
		tb.Helper()
		require.NoError(tb, err)
		tb.Cleanup(func() {
			if !tb.Failed() && locks.Err() == nil {
				require.NoError(tb, locks.Unlock(context.Background()))
			}
		})
		return locks
	}
}

func TestTryLockAll_TakesAllNamesWithOneCommandForEachNode(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, seen := c.observed()
		locks := all(locker.TryLockAll(t.Context(), []string{"c", "a", "b"}, redlock.Metadata("import")))(t)
		require.Equal(t, []string{"a", "b", "c"}, locks.Names())
		for _, name := range locks.Names() {
			c.everywhere(locks.Get(name))
			require.Equal(t, locks.Get("a").Token(), locks.Get(name).Token())
			require.Contains(t, locks.Get(name).Token(), "import")
			require.Zero(t, locks.Get(name).Fence())
		}
		require.Nil(t, locks.Get("d"))
		require.NoError(t, locks.Err())
		require.Greater(t, locks.Remaining(), long/2)
		require.NoError(t, locks.Unlock(t.Context()))
		c.eventuallyEmpty()
		requireIs(t, locks.Err(), redlock.ErrReleased)
		require.Zero(t, locks.Remaining())
		receive(t, locks.Done(), "the end")
		requireIs(t, locks.Unlock(t.Context()), redlock.ErrReleased)

		for i, end := range sortedBy(waitFor[event.End](t, seen, 3), func(e event.End) string { return e.Name }) {
			require.Equal(t, locks.Names()[i], end.Name)
		}
		for i, acquired := range sortedBy(eventsOf[event.Acquire](seen), func(e event.Acquire) string { return e.Name }) {
			require.Equal(t, locks.Names()[i], acquired.Name)
			require.Equal(t, locks.Names(), acquired.Names)
			require.NoError(t, acquired.Err)
		}
	})
}

func TestTryLockAll_WithFencingEachNameHasItsOwnNumber(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(redlock.WithFencing())
		before := map[string]uint64{}
		for range 3 {
			unlock(t, take(t, locker, "b"))
			locks := all(locker.TryLockAll(t.Context(), []string{"a", "b"}))(t)
			for _, name := range locks.Names() {
				require.Greater(t, locks.Get(name).Fence(), before[name])
				before[name] = locks.Get(name).Fence()
			}
			require.NoError(t, locks.Unlock(t.Context()))
		}
	})
}

// A caller who believes that he has a lock that he has not, or leaves one behind: neither may be.
func TestTryLockAll_TakesNothingIfOneNameIsHeld(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing()}} {
			locker, other := c.locker(opts...), c.locker(opts...)
			c.eventuallyFree("b")
			lock := take(t, other, "b")
			// With fencing a server that answers after the others may keep a higher number.
			c.each(func(i int) { eventually(t, func() bool { return c.value(i, "b") != "" }, "b on server %d", i) })
			_, err := locker.TryLockAll(t.Context(), []string{"a", "b", "c"})
			requireIs(t, err, redlock.ErrTaken, nodeerr.ErrHeld, not{redlock.ErrNoQuorum})
			var refusal *redlock.QuorumError
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, "b", refusal.Name)
			require.Equal(t, []string{"b"}, refusal.Names)
			for _, name := range []string{"a", "c"} {
				for i := range c.servers {
					require.Empty(t, c.value(i, name))
				}
				unlock(t, take(t, locker, name))
			}
			unlock(t, lock)
			require.NoError(t, all(locker.TryLockAll(t.Context(), []string{"a", "b", "c"}))(t).Unlock(t.Context()))
		}
	})
}

func TestTryLockAll_RefusesWhatItCannotDo(t *testing.T) {
	c := onMini(t, 1)
	locker := c.locker()
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprint("name-", i)
	}
	for says, call := range map[string]func() (*redlock.Locks, error){
		"redlock: acquire: no names were given (1 to 64)": func() (*redlock.Locks, error) { return locker.TryLockAll(t.Context(), nil) },
		"65 names":     func() (*redlock.Locks, error) { return locker.LockAll(t.Context(), many) },
		`"a" is given`: func() (*redlock.Locks, error) { return locker.LockAll(t.Context(), []string{"a", "b", "a"}) },
		"is empty":     func() (*redlock.Locks, error) { return locker.LockAll(t.Context(), []string{"a", ""}) },
		"Reentrant":    func() (*redlock.Locks, error) { return locker.LockAll(t.Context(), []string{"a"}, redlock.Reentrant()) },
		"MaxWait": func() (*redlock.Locks, error) {
			return locker.TryLockAll(t.Context(), []string{"a"}, redlock.MaxWait(time.Second))
		},
	} {
		_, err := call()
		requireIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, says)
	}
	require.NoError(t, locker.Close())
	_, err := locker.LockAll(t.Context(), []string{"a"})
	requireIs(t, err, redlock.ErrClosed)
}

func TestLockAll_WhoHoldsOneOfTheNamesWouldWaitForHimself(t *testing.T) {
	c := onMini(t, 3)
	locker := c.locker()
	ctx := contextOf(t, take(t, locker, "b"))
	_, err := locker.LockAll(ctx, []string{"a", "b"})
	requireIs(t, err, redlock.ErrDeadlock)
	require.ErrorContains(t, err, `"b"`)
	take(t, locker, "c", redlock.Owner("me"))
	_, err = locker.LockAll(t.Context(), []string{"c", "d"}, redlock.Owner("me"))
	requireIs(t, err, redlock.ErrDeadlock)

	locks := all(locker.LockAll(t.Context(), []string{"e", "f"}))(t)
	ctx, cancel := locks.Context(t.Context())
	defer cancel()
	for _, name := range locks.Names() {
		_, err := locker.TryLock(ctx, name)
		requireIs(t, err, redlock.ErrDeadlock)
		require.NoError(t, got(locker.TryLock(ctx, name, redlock.Reentrant()))(t).Unlock(t.Context()))
	}
}

// What a dead process has left on single nodes keeps a round over all names from winning, but none of the names from being taken.
func TestTryLockAll_IsNotKeptOutByWhatIsInTheWayOfNoName(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.mayLeave().locker()
		c.do(0, "SET", "a", "ghost", "PX", "3600000")
		c.do(1, "SET", "b", "ghost", "PX", "3600000")
		locks := all(locker.TryLockAll(t.Context(), []string{"a", "b", "c"}))(t)
		require.NoError(t, locks.Unlock(t.Context()))

		c.do(1, "SET", "a", "ghost", "PX", "3600000") // now it is taken
		_, err := locker.TryLockAll(t.Context(), []string{"a", "b", "c"})
		requireIs(t, err, redlock.ErrTaken)
		unlock(t, take(t, locker, "b"), take(t, locker, "c"))
	})
}

func TestLockAll_NeedsAMajority(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	locker := c.opened()
	defer func() { require.NoError(t, locker.Close()) }()
	kill(c.processes[:2]...)
	require.NoError(t, all(locker.LockAll(t.Context(), []string{"a", "b"}))(t).Unlock(t.Context()))
	kill(c.processes[2])
	_, err := locker.TryLockAll(t.Context(), []string{"a", "b"})
	requireIs(t, err, redlock.ErrNoQuorum, not{redlock.ErrTaken})
	restart(c.processes[:3]...)
	require.NoError(t, all(locker.LockAll(t.Context(), []string{"a", "b"}))(t).Unlock(t.Context()))
}

func TestLockAll_WaitsForTheNameInTheWay(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, other := c.locker(), c.locker()
		b, d := take(t, other, "b"), take(t, other, "d")
		got := make(chan *redlock.Locks, 1)
		go func() {
			locks, err := locker.LockAll(t.Context(), []string{"a", "b", "c", "d"})
			if err == nil {
				got <- locks
			}
		}()
		eventually(t, func() bool { return redlock.Waiting(locker, "b") == 1 }, "it waits for b")
		unlock(t, take(t, other, "a"), take(t, locker, "c")) // it holds nothing meanwhile
		unlock(t, b)
		eventually(t, func() bool { return redlock.Waiting(locker, "d") == 1 }, "it waits for d")
		require.Zero(t, redlock.Waiting(locker, "b"))
		unlock(t, d)
		require.NoError(t, receive(t, got, "the locks").Unlock(t.Context()))
	})
}

func TestLockAll_EndsItsWait(t *testing.T) {
	c := onMini(t, 3)
	locker := c.locker()
	lock := take(t, c.locker(), "b")
	check := func(err error) {
		t.Helper()
		requireIs(t, err, redlock.ErrTaken)
		var refusal *redlock.QuorumError
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, []string{"b"}, refusal.Names)
	}
	_, err := locker.LockAll(briefly(t), []string{"a", "b"})
	requireIs(t, err, context.DeadlineExceeded)
	check(err)
	_, err = locker.LockAll(t.Context(), []string{"a", "b"}, redlock.MaxWait(brief))
	requireIs(t, err, not{context.DeadlineExceeded})
	check(err)
	_, err = locker.LockAll(t.Context(), []string{"a", "b"}, redlock.MaxWait(0))
	check(err)
	unlock(t, take(t, locker, "a"))

	closed := make(chan error, 1)
	go func() {
		_, err := locker.LockAll(t.Context(), []string{"a", "b"})
		closed <- err
	}()
	eventually(t, func() bool { return redlock.Waiting(locker, "b") == 1 }, "it waits")
	require.NoError(t, locker.Close())
	requireIs(t, receive(t, closed, "the end of the wait"), redlock.ErrClosed)
	unlock(t, lock)
	c.doAll("RPUSH", "e", "somebody's data")
	_, err = c.locker().LockAll(t.Context(), []string{"a", "e"})
	requireIs(t, err, redlock.ErrForeign)
}

func TestLocks_EndWithTheFirstOfThem(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		locks := all(locker.LockAll(t.Context(), []string{"a", "b", "c"}, redlock.RenewFor(redlock.NoLimit)))(t)
		ctx, cancel := locks.Context(t.Context())
		defer cancel()
		require.NoError(t, locks.Extend(t.Context(), 2*long))
		require.Greater(t, locks.Remaining(), long)
		c.everywhere(locks.Get("b"))
		c.doAll("DEL", "b")
		requireIs(t, locks.Extend(t.Context(), 2*long), redlock.ErrGone)
		receive(t, locks.Done(), "the end")
		receive(t, ctx.Done(), "the end of the context")
		requireIs(t, locks.Err(), redlock.ErrGone)
		requireIs(t, context.Cause(ctx), redlock.ErrGone)
		require.ErrorContains(t, locks.Err(), `"b"`)
		require.NoError(t, locks.Get("a").Err(), "it is held until Unlock")
		requireIs(t, locks.Unlock(t.Context()), redlock.ErrGone)
		requireIs(t, locks.Get("a").Err(), redlock.ErrReleased)
		requireIs(t, locks.Err(), redlock.ErrGone)
	})
}

func TestLockAll_HasATokenOfItsOwnInEachRound(t *testing.T) {
	c := onMini(t, 3)
	var made atomic.Int32
	source := func() (string, error) { return fmt.Sprintf("token-%d", made.Add(1)), nil }
	locker := c.locker(redlock.TokenSource(source))
	lock := c.everywhere(take(t, c.locker(), "b")) // a round is repeated if it is held on a bare majority
	_, err := locker.TryLockAll(t.Context(), []string{"a", "b"})
	requireIs(t, err, redlock.ErrTaken)
	unlock(t, lock)
	locks := all(locker.TryLockAll(t.Context(), []string{"a", "b"}))(t)
	require.EqualValues(t, "token-2", locks.Get("a").Token())
	require.EqualValues(t, "token-2", locks.Get("b").Token())
	require.EqualValues(t, 2, made.Load())

	broken := errors.New("broken")
	_, err = c.locker().LockAll(t.Context(), []string{"c", "d"}, redlock.TokenSource(func() (string, error) { return "", broken }))
	requireIs(t, err, broken)
}

func TestDoAll_RunsWhileAllLocksAreHeld(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		boom := errors.New("boom")
		err := locker.DoAll(t.Context(), []string{"b", "a"}, func(ctx context.Context, locks *redlock.Locks) error {
			require.Equal(t, []string{"a", "b"}, locks.Names())
			require.NoError(t, locks.Err())
			return boom
		})
		require.Equal(t, boom, err) //nolint:testifylint // the very value
		err = locker.DoAll(t.Context(), []string{"b", "a"}, func(ctx context.Context, locks *redlock.Locks) error {
			c.everywhere(locks.Get("a"))
			c.doAll("DEL", "a")
			requireIs(t, locks.Extend(t.Context(), 2*long), redlock.ErrGone)
			<-ctx.Done()
			return nil
		})
		requireIs(t, err, redlock.ErrGone, not{redlock.ErrNotRun})
		require.ErrorContains(t, err, `"a"`)
		require.NotContains(t, err.Error(), `"b"`)
		lock := take(t, c.locker(), "a")
		err = locker.DoAll(t.Context(), []string{"a", "b"}, nil)
		requireIs(t, err, redlock.ErrNotRun, redlock.ErrInvalid)
		err = locker.DoAll(t.Context(), []string{"a", "b"}, func(context.Context, *redlock.Locks) error { return nil }, redlock.MaxWait(0))
		requireIs(t, err, redlock.ErrNotRun, redlock.ErrTaken)
		unlock(t, lock)
	})
}

func TestDoAll_CloseWaitsForItsFunctionLikeThatOfDo(t *testing.T) {
	c := onMini(t, 3)
	locker := c.locker()
	err := locker.DoAll(t.Context(), []string{"a", "b"}, func(ctx context.Context, locks *redlock.Locks) error {
		require.NoError(t, locker.Close())
		receive(t, ctx.Done(), "the end of the context")
		requireIs(t, context.Cause(ctx), redlock.ErrClosed)
		require.NoError(t, locks.Err())
		return nil
	})
	require.NoError(t, err)
	c.eventuallyEmpty()
	err = locker.DoAll(t.Context(), []string{"a", "b"}, func(context.Context, *redlock.Locks) error { return nil })
	requireIs(t, err, redlock.ErrNotRun, redlock.ErrClosed)
}

// Callers that take some of the names, in any order and each beside others, in several processes: nobody is beside another, and all get
// on, also those whose names others take in turn without a pause.
func TestLockAll_AllGetOn(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		names := []string{"a", "b", "c", "d", "e"}
		var in [5]atomic.Int32
		enter := func(some ...string) {
			for _, name := range some {
				i := slices.Index(names, name)
				assert.EqualValues(t, 1, in[i].Add(1), name)
				defer in[i].Add(-1)
			}
			for range 100 {
				runtime.Gosched()
			}
		}
		done := make(chan struct{})
		var alone, together sync.WaitGroup
		for range 2 {
			locker := c.locker(redlock.WithFencing())
			for _, name := range names {
				alone.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
						}
						lock, err := locker.Lock(t.Context(), name)
						if err != nil {
							return
						}
						enter(name)
						_ = lock.Unlock(t.Context())
					}
				})
			}
			for range 2 {
				together.Go(func() {
					for range 5 {
						some := slices.Clone(names)
						rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
						some = some[:2+rand.IntN(3)]
						locks, err := locker.LockAll(t.Context(), some, redlock.TTL(5*time.Second), redlock.RenewFor(redlock.NoLimit))
						if !assertNoError(t, err) {
							return
						}
						enter(some...)
						_ = locks.Unlock(t.Context())
					}
				})
			}
		}
		together.Wait()
		close(done)
		alone.Wait()
	})
}

// Data of other programs is in the way of nobody if it is on too few nodes of each name, on however many of all names.
func TestTryLockAll_IsNotKeptOutByDataThatIsInTheWayOfNoName(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		c.do(0, "RPUSH", "a", "somebody's data")
		c.do(1, "RPUSH", "b", "somebody's data")
		for _, take := range []func(context.Context, []string, ...redlock.LockOption) (*redlock.Locks, error){locker.TryLockAll, locker.LockAll} {
			require.NoError(t, all(take(t.Context(), []string{"a", "b"}))(t).Unlock(t.Context()))
		}
	})
}

// A call that waits for the holder of one name would learn only behind him that nobody can take another.
func TestLockAll_DoesNotWaitForAHolderIfDataIsInTheWayOfAnotherName(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := take(t, c.locker(), "a")
		c.doAll("RPUSH", "b", "somebody's data")
		_, err := locker.LockAll(t.Context(), []string{"a", "b"})
		refusal := c.refused(err, redlock.ErrForeign)
		require.Equal(t, "b", refusal.Name)
		require.Equal(t, []string{"a", "b"}, refusal.Names)
		unlock(t, lock)
	})
}

func TestLockAll_NamesNobodysLockWhenServersAreAway(t *testing.T) {
	c := onMini(t, 3)
	locker := c.locker()
	unlock(t, take(t, locker, "a"))
	c.eventuallyEmpty()
	kill(c.servers...)
	_, err := locker.LockAll(briefly(t), []string{"a", "b"})
	require.Nil(t, c.refused(err, redlock.ErrNoQuorum, context.DeadlineExceeded, not{redlock.ErrTaken}).Names)
	restart(c.servers...)
}

// The danger: a refusal that an Observer has, and reads meanwhile, is changed.
func TestTryLockAll_LeavesTheErrorsOfEventsAlone(t *testing.T) {
	c := onMini(t, 3)
	locker, seen := c.observed()
	c.do(0, "SET", "a", "ghost", "PX", "3600000")
	kill(c.servers[1])
	_, err := locker.TryLockAll(t.Context(), []string{"a", "b"}) // tries a alone, too
	require.Equal(t, []string{"a"}, c.refused(err, redlock.ErrTaken).Names)
	locker.Drain()
	for _, round := range eventsOf[protocol.Round](seen) {
		require.Nil(t, as[*redlock.QuorumError](t, round.Err).Names)
	}
}

// The danger: nobody has the locks that are held meanwhile, and they are renewed for ever.
func TestLockAll_PanicOfTheTokenSourceReleasesWhatIsHeld(t *testing.T) {
	c := onReal(t, 3)
	locker, fake, _ := c.timed()
	lock := take(t, c.locker(), "b")
	var made atomic.Int32
	panics := atomic.Bool{}
	source := func() (string, error) {
		if panics.Load() {
			panic("of the source")
		}
		return fmt.Sprint("token-", made.Add(1)), nil
	}
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = locker.LockAll(t.Context(), []string{"a", "b", "c"}, redlock.TokenSource(source))
	}()
	b := c.inOrder(locker, fake, lock)
	panics.Store(true)
	unlock(t, b) // it takes b, and then c
	turnUntil(t, fake, time.Second, func() bool { return len(panicked) > 0 })
	require.Equal(t, "of the source", <-panicked)
	c.eventuallyEmpty()
	require.Zero(t, redlock.ToRenew(locker))
}

// heldAll is what a call of LockAll on another goroutine returns.
type heldAll struct {
	locks *redlock.Locks
	err   error
}

func lockAllBeside(ctx context.Context, locker *redlock.Locker, names []string, opts ...redlock.LockOption) <-chan heldAll {
	result := make(chan heldAll, 1)
	go func() {
		locks, err := locker.LockAll(ctx, names, opts...)
		result <- heldAll{locks, err}
	}()
	return result
}

// The danger: who waits behind a LockAll which does not get on pays for that with a pause, each time.
func TestLock_HasItsTurnAtOnceBehindALockAllThatWaitsForAnotherName(t *testing.T) {
	c := onReal(t, 3)
	locker, other := c.locker(noPolls), c.locker()
	a := c.everywhere(take(t, other, "a")) // on a node without it, LockAll would take both for a moment
	together := lockAllBeside(t.Context(), locker, []string{"a", "b"})
	eventually(t, func() bool { return redlock.Waiting(locker, "a") == 1 && redlock.Sees(locker, "a") }, "LockAll waits")
	alone := queue(t, t.Context(), locker, "a")
	b := c.everywhere(take(t, other, "b"))
	unlock(t, a)
	unlock(t, won(t, alone))
	eventually(t, func() bool { return redlock.Sees(locker, "b") }, "LockAll waits for b") // otherwise it pauses, as after a split vote
	unlock(t, b)
	got := receive(t, together, "the locks")
	require.NoError(t, all(got.locks, got.err)(t).Unlock(t.Context()))
}

func TestLockAll_LogsItsWait(t *testing.T) {
	c, log, fake := onReal(t, 3), &logBuffer{}, clocktest.New()
	locker := c.logsTo(log, slog.LevelInfo, redlock.WithClock(fake), redlock.TTL(long))
	b := take(t, c.locker(), "b")
	together := lockAllBeside(t.Context(), locker, []string{"a", "b"})
	eventually(t, func() bool { return redlock.Waiting(locker, "b") == 1 }, "it waits")
	begun := fake.Now()
	turnUntil(t, fake, time.Second, func() bool { return len(waitsOf(t, log, "waits for a lock", 0)) > 0 })
	require.Less(t, fake.Now().Sub(begun), time.Minute, "it holds nothing yet")
	line := waitsOf(t, log, "waits for a lock", 1)[0]
	require.Equal(t, "b", line["name"])
	unlock(t, b)
	turnUntil(t, fake, time.Second, func() bool { return len(together) > 0 })
	got := <-together
	require.NoError(t, all(got.locks, got.err)(t).Unlock(t.Context()))
}

// inOrder has the call of LockAll that waits for b go on in order, by the loss of four turns. Then it holds a, and waits for b, whose lock
// inOrder returns. Each name has changed hands once in a minute, so no lock may have a TTL that short.
func (c *cluster) inOrder(locker *redlock.Locker, fake *clocktest.Fake, b *redlock.Lock) *redlock.Lock {
	t, other := c.tb, c.locker(redlock.TTL(24*time.Hour))
	waits := func(name string) {
		t.Helper()
		turnUntil(t, fake, time.Millisecond, func() bool { return redlock.Waiting(locker, name) == 1 }) // after a pause perhaps
	}
	waits("b")
	for range 2 {
		fake.Advance(time.Minute)
		c.eventuallyHeld("a", "") // the round that it lost has given it back
		a := c.everywhere(take(t, other, "a"))
		require.NoError(t, b.Unlock(t.Context()))
		waits("a")
		fake.Advance(time.Minute)
		c.eventuallyHeld("b", "")
		b = c.everywhere(take(t, other, "b"))
		require.NoError(t, a.Unlock(t.Context()))
		waits("b")
	}
	turnUntil(t, fake, time.Millisecond, func() bool { return c.value(0, "a") != "" }) // it holds a
	return b
}

// The danger: a lock that nobody uses keeps out others for as long as the holder of another one works.
func TestLockAll_HoldsNothingForLongWhileAHolderStays(t *testing.T) {
	c := onReal(t, 3)
	locker, fake, _ := c.timed()
	b := take(t, c.locker(), "b", redlock.TTL(24*time.Hour))
	together := lockAllBeside(t.Context(), locker, []string{"a", "b"})
	b = c.inOrder(locker, fake, b)
	begun := fake.Now()
	turnUntil(t, fake, 10*time.Millisecond, func() bool { return fake.Now().Sub(begun) >= 6*time.Second })
	eventually(t, func() bool { return c.value(0, "a") == "" }, "it has given a back")
	require.Equal(t, 1, redlock.Waiting(locker, "b"), "it has kept its place")
	unlock(t, take(t, c.locker(), "a"))
	unlock(t, b)
	turnUntil(t, fake, time.Second, func() bool { return len(together) > 0 })
	got := <-together
	require.NoError(t, all(got.locks, got.err)(t).Unlock(t.Context()))
}

// The time that a call takes for the others is none that it may hold the first for.
func TestLockAll_RenewForCountsFromWhenAllAreHeld(t *testing.T) {
	c := onReal(t, 3)
	const ttl = 20 * time.Second // it holds a for 5 s at most
	locker, fake, _ := c.timed()
	b := take(t, c.locker(), "b", redlock.TTL(24*time.Hour))
	together := lockAllBeside(t.Context(), locker, []string{"a", "b"}, redlock.TTL(ttl), redlock.RenewFor(2*ttl))
	b = c.inOrder(locker, fake, b)
	fake.Advance(4500 * time.Millisecond)
	unlock(t, b)
	turnUntil(t, fake, 10*time.Millisecond, func() bool { return len(together) > 0 })
	got := <-together
	locks := all(got.locks, got.err)(t)
	for range 18 { // so long that the last renewals are of less than a TTL
		fake.Advance(2 * time.Second)
		eventually(t, func() bool { return locks.Remaining() > 3*time.Second }, "all are renewed")
	}
}

// ErrReleased is no loss, and one by name comes first.
func TestLocks_ReleaseOfOneDoesNotHideTheLossOfAnother(t *testing.T) {
	c := onMini(t, 3)
	locks := all(c.locker().TryLockAll(t.Context(), []string{"a", "b"}))(t)
	c.everywhere(locks.Get("b"))
	unlock(t, locks.Get("a"))
	c.doAll("DEL", "b")
	requireIs(t, locks.Unlock(t.Context()), redlock.ErrNotHeld, not{redlock.ErrReleased})
}

func sortedBy[E any](events []E, name func(E) string) []E {
	slices.SortFunc(events, func(a, b E) int { return strings.Compare(name(a), name(b)) })
	return events
}

func assertNoError(t *testing.T, err error) bool {
	if err != nil {
		t.Error(strings.TrimSpace(err.Error()))
	}
	return err == nil
}

// Others have the lock, also if the last round was stopped before it found out.
func TestLockAll_ReportsWhatItKnowsIfItIsStoppedWithinARound(t *testing.T) {
	c := onMini(t, 3)
	lock := take(t, c.locker(), "b")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rounds := 0
	source := func() (string, error) {
		if rounds++; rounds == 2 {
			cancel()
		}
		return fmt.Sprint("token-", rounds), nil
	}
	_, err := c.locker().LockAll(ctx, []string{"a", "b", "c"}, redlock.TokenSource(source)) // it polls
	requireIs(t, err, context.Canceled, redlock.ErrTaken)
	var refusal *redlock.QuorumError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, []string{"b"}, refusal.Names)
	unlock(t, lock)
}
