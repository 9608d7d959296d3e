package redlock_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/election"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// running is a function of Do that runs until it is let go.
type running struct {
	ctx  context.Context
	lock *redlock.Lock
	end  chan error // what the function returns
	done chan error // what Do has returned
}

// runBeside has a function run under a lock.
func runBeside(tb testing.TB, locker *redlock.Locker, name string) *running {
	tb.Helper()
	r := &running{end: make(chan error, 1), done: make(chan error, 1)}
	begun := make(chan struct{})
	go func() {
		r.done <- locker.Do(tb.Context(), name, func(ctx context.Context, lock *redlock.Lock) error {
			r.ctx, r.lock = ctx, lock
			close(begun)
			return <-r.end
		})
	}()
	receive(tb, begun, "the function")
	return r
}

// finish lets the function return, and returns what Do has.
func (r *running) finish(tb testing.TB, err error) error {
	tb.Helper()
	r.end <- err
	return receive(tb, r.done, "the end of Do")
}

// way is one to make a Locker.
type way = func(c *cluster, opts ...redlock.Option) *redlock.Locker

var ways = map[string]way{"nodes of Open": (*cluster).opened, "nodes of New": (*cluster).locker}

// The danger: the key of a function that has returned stays until its TTL is over, or is gone before it has returned.
func TestClose_LeavesTheLockToAFunctionOfDoUntilItHasReturned(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	inTurn(t, ways, func(t *testing.T, open way) {
		onBoth(t, 3, func(t *testing.T, c *cluster) {
			for _, want := range []error{nil, failed} {
				fake := clocktest.New()
				locker := open(c, redlock.WithClock(fake))
				r := runBeside(t, locker, "name")
				plain := take(t, locker, "plain", redlock.RenewFor(redlock.NoLimit))
				c.eventuallyHeld("name", r.lock.Token())
				require.NoError(t, locker.Close())
				require.NoError(t, locker.Close(), "twice")
				receive(t, r.ctx.Done(), "the end of the context")
				require.ErrorIs(t, context.Cause(r.ctx), redlock.ErrClosed)
				require.NoError(t, r.lock.Err())
				require.ErrorIs(t, locker.TryDo(t.Context(), "other", func(context.Context, *redlock.Lock) error { panic("closed") }), redlock.ErrClosed)

				until := plain.ValidUntil()
				for fake.Now().Before(until) { // longer than the TTL
					before := r.lock.ValidUntil()
					fake.Advance(long / 3)
					eventually(t, func() bool { return r.lock.ValidUntil().After(before) }, "a renewal")
					require.Equal(t, 3, c.holding("name", r.lock.Token()))
				}
				require.NoError(t, r.lock.Err())
				require.ErrorIs(t, plain.Err(), redlock.ErrExpired, "it is left alone")
				require.Equal(t, until, plain.ValidUntil())

				err := r.finish(t, want)
				require.Equal(t, want, err)
				c.eventuallyFree("name")
				require.Zero(t, redlock.ToRenew(locker))
				c.doAll("DEL", "plain")
			}
		})
	})
}

// The last one closes the nodes.
func TestClose_LeavesTheNodesToTheLastOfSeveralFunctions(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.opened()
	first, second := runBeside(t, locker, "name"), runBeside(t, locker, "other")
	require.NoError(t, locker.Close())
	for _, r := range []*running{first, second} {
		require.NoError(t, r.finish(t, nil))
		c.eventuallyFree(r.lock.Name())
	}
	c.each(func(i int) {
		eventually(t, func() bool { return c.info(i, "clients", "connected_clients") == "1" }, "no connection is left")
	})
}

func TestClose_OfTheNodesUnderAFunctionOfDoIsAnError(t *testing.T) {
	failed := errors.New("failed")
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for _, want := range []error{nil, failed} {
			for _, first := range []bool{false, true} {
				nodes := c.nodes()
				locker := lockerOver(t, nodes, redlock.WithClock(clocktest.New()))
				r := runBeside(t, locker, "name")
				c.eventuallyHeld("name", r.lock.Token())
				if first {
					require.NoError(t, locker.Close())
				}
				for _, node := range nodes {
					require.NoError(t, node.Close())
				}
				err := r.finish(t, want)
				requireIs(t, err, redlock.ErrNoQuorum, nodeerr.ErrClosed)
				require.NotErrorIs(t, err, redlock.ErrClosed, "the function has run")
				require.NotErrorIs(t, err, redlock.ErrNotHeld)
				if want != nil {
					require.ErrorIs(t, err, want)
				}
				_ = c.refused(err)
				require.Equal(t, 3, c.holding("name", r.lock.Token()), "nobody has released it")
				c.doAll("DEL", "name")
			}
		}
	})
}

// Servers that do not answer at the end of a Locker with nodes of its own are not asked again.
func TestClose_OfALockerThatCannotReleaseIsAnErrorOfDo(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.opened(pool.WithTimeout(brief), redlock.WithClock(clocktest.New()))
	r := runBeside(t, locker, "name")
	c.eventuallyHeld("name", r.lock.Token())
	kill(c.servers[1:]...)
	require.NoError(t, locker.Close())
	requireIs(t, r.finish(t, nil), redlock.ErrNoQuorum, not{redlock.ErrClosed})
	restart(c.servers[1:]...)
}

// Whatever comes first, a function runs under the lock and it is released, or it does not run.
func TestClose_BesideDoRunsTheFunctionOrReturnsErrClosed(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for range 20 {
			locker := c.opened()
			const n = 4
			results := make(chan error, n)
			for range n {
				go func() {
					ran := false
					var err error
					for err == nil {
						ran = false
						err = locker.Do(context.Background(), "name", func(context.Context, *redlock.Lock) error {
							ran = true
							return nil
						})
					}
					if ran {
						err = errors.New("the function has run")
					}
					results <- err
				}()
			}
			unlock(t, waits(t, locker, "name"))
			require.NoError(t, locker.Close())
			for range n {
				require.ErrorIs(t, receive(t, results, "the end of Do"), redlock.ErrClosed)
			}
			c.eventuallyEmpty()
		}
	})
}

// A function may close the Locker that it runs in.
func TestClose_WithinAFunctionOfDo(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.opened()
		require.NoError(t, locker.Do(t.Context(), "name", func(ctx context.Context, lock *redlock.Lock) error {
			require.NoError(t, locker.Do(ctx, "name", func(inner context.Context, again *redlock.Lock) error {
				require.NoError(t, locker.Close())
				receive(t, inner.Done(), "the end of the context")
				require.ErrorIs(t, context.Cause(inner), redlock.ErrClosed)
				require.ErrorIs(t, again.Extend(ctx, 2*long), redlock.ErrClosed)
				return nil
			}, redlock.Reentrant()))
			receive(t, ctx.Done(), "the end of the context")
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrClosed)
			require.NoError(t, lock.Err(), "the outer function runs still")
			return nil
		}))
	})
}

// Nor for one that has waited until then for an extension by the function.
func TestClose_DoesNotWaitForTheRenewalOfAFunction(t *testing.T) {
	t.Parallel()
	for _, behind := range []bool{false, true} {
		c := onReal(t, 3)
		locker, fake, seen := timed(t, c.nodes(pool.WithTimeout(long)))
		r := runBeside(t, locker, "name")
		c.eventuallyHeld("name", r.lock.Token())
		freeze(c.processes[0], c.processes[1])
		extended := make(chan error, 1)
		if behind {
			go func() { extended <- r.lock.Extend(t.Context(), long) }()
			seen.waitForVotes(t, "extend", "name", 1)
		}
		fake.Advance(long / 3)
		seen.waitForVotes(t, "extend", "name", 1)
		eventually(t, func() bool { return redlock.ToRenew(locker) == 0 }, "the renewal has begun")
		before := r.lock.ValidUntil()
		require.NoError(t, locker.Close())
		if behind {
			require.ErrorIs(t, receive(t, extended, "the end of Extend"), redlock.ErrClosed)
		}
		thaw(c.processes[0], c.processes[1])
		turnUntil(t, fake, long/100, func() bool { return r.lock.ValidUntil().After(before) })
		require.NoError(t, r.finish(t, nil))
	}
}

// The release of a function that has returned goes out before the nodes are closed.
func TestClose_BesideTheReleaseOfAFunctionOfDo(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		for range 20 {
			locker := c.opened()
			r := runBeside(t, locker, "name")
			r.end <- nil
			require.NoError(t, locker.Close())
			require.NoError(t, receive(t, r.done, "the end of Do"))
			c.eventuallyEmpty()
		}
	})
}

// The danger: a program that exits while a function runs, so that its lock stays until its TTL is over.
func TestShutdown_WaitsForTheFunctionsOfDo(t *testing.T) {
	t.Parallel()
	inTurn(t, ways, func(t *testing.T, open way) {
		onBoth(t, 3, func(t *testing.T, c *cluster) {
			locker := open(c)
			first, second := runBeside(t, locker, "name"), runBeside(t, locker, "other")
			waiting := lockBeside(t.Context(), locker, "name")
			over, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("SIGTERM again"))
			require.EqualError(t, locker.Shutdown(over), "redlock: shutdown: context canceled (SIGTERM again)")
			require.ErrorIs(t, receive(t, waiting, "the end of Lock").err, redlock.ErrClosed)

			done := beside(func() error { return locker.Shutdown(t.Context()) })
			for _, r := range []*running{first, second} {
				receive(t, r.ctx.Done(), "the end of the context")
				require.ErrorIs(t, context.Cause(r.ctx), redlock.ErrClosed)
				require.NoError(t, r.lock.Err())
				require.Empty(t, done, "a function runs still")
				require.NoError(t, r.finish(t, nil))
			}
			require.NoError(t, receive(t, done, "the end of Shutdown"))
			c.eventuallyEmpty()
			require.NoError(t, locker.Shutdown(t.Context()), "twice")
			require.NoError(t, locker.Close())
		})
	})
}

// The danger: a function that shuts down waits for itself for ever.
func TestShutdown_WithinAFunctionOfDoIsRefusedAndClosesTheLocker(t *testing.T) {
	t.Parallel()
	type call func(l *redlock.Locker, shutdown func(context.Context) error) error
	for name, do := range map[string]call{
		"Do": func(l *redlock.Locker, shutdown func(context.Context) error) error {
			return l.Do(t.Context(), "name", func(ctx context.Context, _ *redlock.Lock) error { return shutdown(ctx) })
		},
		"TryDo": func(l *redlock.Locker, shutdown func(context.Context) error) error {
			return l.TryDo(t.Context(), "name", func(ctx context.Context, _ *redlock.Lock) error { return shutdown(ctx) })
		},
		"DoAll": func(l *redlock.Locker, shutdown func(context.Context) error) error {
			return l.DoAll(t.Context(), []string{"a", "b"}, func(ctx context.Context, _ *redlock.Locks) error { return shutdown(ctx) })
		},
		"Do, shared": func(l *redlock.Locker, shutdown func(context.Context) error) error {
			return l.Do(t.Context(), "name", func(ctx context.Context, _ *redlock.Lock) error { return shutdown(ctx) }, redlock.Shared())
		},
		"Do, with slots": func(l *redlock.Locker, shutdown func(context.Context) error) error {
			return l.Do(t.Context(), "name", func(ctx context.Context, _ *redlock.Lock) error { return shutdown(ctx) }, redlock.Slots(2))
		},
		"a leader": func(l *redlock.Locker, shutdown func(context.Context) error) error {
			return election.New(l, "name").Run(t.Context(), func(ctx context.Context, _ *redlock.Lock) error { return shutdown(ctx) })
		},
		"within that of another": func(l *redlock.Locker, shutdown func(context.Context) error) error {
			return l.Do(t.Context(), "outer", func(ctx context.Context, _ *redlock.Lock) error {
				return l.Do(ctx, "inner", func(ctx context.Context, _ *redlock.Lock) error { return shutdown(ctx) })
			})
		},
	} {
		for of, child := range map[string]func(context.Context) context.Context{
			"":                       func(ctx context.Context) context.Context { return ctx },
			", not cancelled":        context.WithoutCancel,
			", with a value of ours": func(ctx context.Context) context.Context { return context.WithValue(context.WithoutCancel(ctx), t, t) },
		} {
			t.Run(name+of, func(t *testing.T) {
				t.Parallel()
				inTurn(t, ways, func(t *testing.T, open way) {
					c := onReal(t, 3)
					locker := open(c)
					done := beside(func() error {
						return do(locker, func(ctx context.Context) error { return locker.Shutdown(child(ctx)) })
					})
					err := receive(t, done, "the end of the function")
					requireIs(t, err, redlock.ErrDeadlock, not{redlock.ErrNotRun})
					require.EqualError(t, err, "redlock: shutdown: a function of Do that waits for it would wait for itself")
					require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrClosed)
					require.NoError(t, locker.Shutdown(t.Context()))
					c.eventuallyEmpty()
				})
			})
		}
	}
}

func TestShutdown_WaitsWithAContextThatIsOfNoFunctionWhichRuns(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, other := c.locker(), c.locker()
	lock := take(t, locker, "held")
	ctx, cancel := lock.Context(t.Context())
	defer cancel()
	require.NoError(t, other.Do(ctx, "other", func(within context.Context, _ *redlock.Lock) error {
		returned := context.Context(nil)
		require.NoError(t, locker.Do(ctx, "before", func(ctx context.Context, _ *redlock.Lock) error {
			returned = context.WithoutCancel(ctx)
			return nil
		}))
		r := runBeside(t, locker, "name")
		done := beside(func() error { return locker.Shutdown(within) })
		again := beside(func() error { return locker.Shutdown(returned) })
		receive(t, r.ctx.Done(), "the end of the context")
		require.Empty(t, done, "a function runs still")
		require.Empty(t, again, "a function runs still")
		require.NoError(t, r.finish(t, nil))
		require.NoError(t, receive(t, again, "the end of Shutdown"))
		return receive(t, done, "the end of Shutdown")
	}))
	unlock(t, lock)
}

// whenLogged is a log handler that calls a function for each line.
type whenLogged func()

func (whenLogged) Enabled(context.Context, slog.Level) bool { return true }
func (h whenLogged) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h whenLogged) WithGroup(string) slog.Handler          { return h }
func (h whenLogged) Handle(context.Context, slog.Record) error {
	h()
	return nil
}

// An Observer, a log handler and whoever watches may close a Locker, and so may a function of Do.
func TestClose_MayBeCalledFromCodeOfTheProgram(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*redlock.Locker) error{
		"Close":    (*redlock.Locker).Close,
		"Shutdown": func(l *redlock.Locker) error { return l.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTurn(t, ways, func(t *testing.T, open way) {
				c := onReal(t, 3)
				var closing atomic.Pointer[redlock.Locker]
				ended := make(chan error, 1)
				observed := open(c, redlock.WithObserver(event.ObserverFunc(func(event.Event) {
					if l := closing.Swap(nil); l != nil {
						ended <- end(l)
					}
				})), redlock.TTL(time.Second))
				closing.Store(observed)
				_, _ = observed.TryLock(t.Context(), "observed") // granted, if it is faster than the end: its key expires
				require.NoError(t, receive(t, ended, "the end in an Observer"))

				logged := open(c, redlock.WithLogger(slog.New(whenLogged(func() {
					if l := closing.Swap(nil); l != nil {
						ended <- end(l)
					}
				}))))
				lock := take(t, logged, "logged")
				closing.Store(logged)
				c.doAll("DEL", "logged")
				_ = lock.Unlock(t.Context()) // its loss is logged
				require.NoError(t, receive(t, ended, "the end in a log handler"))

				watched := open(c)
				go func() {
					for _, err := range watched.Watch(t.Context(), "watched") {
						ended <- errors.Join(err, end(watched))
						break
					}
				}()
				require.NoError(t, receive(t, ended, "the end while somebody watches"))
				if name == "Close" {
					done := beside(func() error {
						l := open(c)
						return l.Do(t.Context(), "do", func(context.Context, *redlock.Lock) error { return l.Close() })
					})
					require.NoError(t, receive(t, done, "the end in a function"))
				}
			})
		})
	}
}

func TestClose_RefusesEveryLaterCallButUnlock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		nodes := c.nodes()
		locker := lockerOver(t, nodes, redlock.WithObserver(seen))
		lock := take(t, locker, "name")
		seen.waitForVotes(t, "acquire", "", 3)
		other := lockerOver(t, nodes)
		require.ErrorIs(t, errOf(other.TryLock(t.Context(), "name")), redlock.ErrTaken, "Lockers may share nodes")
		require.NoError(t, locker.Close())
		require.NoError(t, locker.Close(), "closing twice is fine")

		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "other")), redlock.ErrClosed)
		require.ErrorIs(t, errOf(locker.Lock(t.Context(), "other")), redlock.ErrClosed)
		require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrClosed)
		require.Len(t, seen.votesOn("acquire", ""), 3, "nothing is sent")
		require.Empty(t, seen.votesOn("extend", ""))

		require.NoError(t, lock.Err(), "a lock that is held stays held")
		require.Positive(t, lock.Remaining())
		unlock(t, lock)
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		c.eventuallyEmpty()

		require.NoError(t, take(t, other, "name").Unlock(t.Context()), "the nodes are still open")
	})
}

func TestClose_EndsTheCallsThatWait(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker, seen := c.waiting(c.nodes())
		pausing, seenPausing := c.waiting(c.nodes(), redlock.WithBackoff(long, long))
		take(t, c.locker(), "name")
		holder := waits(t, locker, "another")
		waiters := []<-chan held{lockBeside(t.Context(), locker, "name"), lockBeside(t.Context(), pausing, "name")}
		seen.waitForRefusals(t, 2) // with the round that was won
		seenPausing.waitForRefusals(t, 1)
		for range 20 {
			waiters = append(waiters, queue(t, t.Context(), locker, "name"), queue(t, t.Context(), locker, "another"))
		}
		require.NoError(t, locker.Close())
		require.NoError(t, pausing.Close())
		for _, waiter := range waiters {
			require.ErrorIs(t, receive(t, waiter, "the end of Lock").err, redlock.ErrClosed)
		}
		require.NoError(t, holder.Err())
	})
}

func TestClose_DoesNotWaitForNodesThatHang(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := observed(t, c.nodes(pool.WithTimeout(long)))
	lock := c.everywhere(take(t, locker, "held"))
	freeze(c.processes[0], c.processes[1])
	waiter := lockBeside(t.Context(), locker, "name")
	extended := beside(func() error { return lock.Extend(t.Context(), 2*long) })
	seen.waitForVotes(t, "acquire", "", 4)
	seen.waitForVotes(t, "extend", "", 1)

	closed := beside(func() error { return locker.Close() })
	require.NoError(t, receive(t, closed, "the end of Close"))
	require.ErrorIs(t, receive(t, waiter, "the end of Lock").err, redlock.ErrClosed)
	require.ErrorIs(t, receive(t, extended, "the end of Extend"), redlock.ErrClosed)

	thaw(c.processes[0], c.processes[1])
	require.NoError(t, lock.Err())
	unlock(t, lock)
}

func TestClose_CallsBesideItEndInALockOrErrClosed(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		nodes := c.nodes()
		for range 20 {
			locker := must(redlock.New(nodes, redlock.TTL(long), redlock.WithBackoff(time.Millisecond, time.Millisecond)))(t)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for {
						lock, err := locker.Lock(t.Context(), "name")
						if err != nil {
							if !errors.Is(err, redlock.ErrClosed) {
								t.Error(err)
							}
							return
						}
						assert.NoError(t, lock.Unlock(t.Context()))
					}
				})
			}
			unlock(t, waits(t, locker, "name"))
			require.NoError(t, locker.Close())
			all.Wait()
			c.eventuallyEmpty()
		}
	})
}

func TestTryLock_OnClosedNodesEndsAtOnce(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		nodes := c.mayLeave().nodes(pool.WithTimeout(long))
		locker := lockerOver(t, nodes)
		lock := c.everywhere(take(t, locker, "name"))
		for _, node := range nodes {
			require.NoError(t, node.Close())
		}
		_, err := locker.TryLock(t.Context(), "other")
		for _, node := range c.refused(err, redlock.ErrNoQuorum).Nodes {
			require.ErrorIs(t, node.Err, nodeerr.ErrClosed)
		}
		require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrNoQuorum)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNoQuorum)
		require.Equal(t, 3, c.holding("name", lock.Token()))
	})
}

func TestOpen_RefusesWhatPoolOpenAndNewRefuse(t *testing.T) {
	t.Parallel()
	require.Error(t, errOf(redlock.Open(nil)))
	require.Error(t, errOf(redlock.Open([]string{"redis://a", "redis://a"})))
	require.ErrorContains(t, errOf(redlock.Open([]string{"redis://a"}, pool.WithTimeout(-1))), "WithTimeout")
	require.ErrorContains(t, errOf(redlock.Open([]string{"redis://a"}, redlock.TTL(-1))), "TTL -1ns")
}

func TestClose_EndsTheExtensionsThatWaitForTheirTurn(t *testing.T) {
	c := onReal(t, 3)
	locker, seen := c.observed()
	lock := seen.takeOnAll(t, locker, 3)
	for _, p := range c.processes {
		p.Freeze()
		t.Cleanup(p.Thaw) // before the nodes are closed
	}
	var extends sync.WaitGroup
	for range 5 {
		extends.Go(func() { require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrClosed) })
	}
	eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*Lock).Extend(") == 5
	}, "all extends are under way")
	require.NoError(t, locker.Close())
	extends.Wait()
	require.LessOrEqual(t, len(seen.verdictsOn("extend")), 1, "the others asked nobody")
}
