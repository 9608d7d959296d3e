package redlock_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// A log handler and a context are code of the program, which may ask a lock how it stands. The danger: they are asked under the mutex
// of that lock.

// handler is a log handler that asks something first.
type handler struct {
	slog.Handler
	ask func()
}

func (h handler) Enabled(context.Context, slog.Level) bool {
	h.ask()
	return true
}

func TestTryLock_LogHandlerMayAskALockOfTheName(t *testing.T) {
	c := onMini(t, 3)
	var held atomic.Pointer[redlock.Lock]
	ask := func() {
		if l := held.Load(); l != nil {
			_ = l.Err()
		}
	}
	locker := c.locker(redlock.WithLogger(slog.New(handler{slog.DiscardHandler, ask})))
	for range 2 {
		lock := must(locker.TryLock(t.Context(), "name"))(t)
		held.Store(lock)
		unlock(t, lock)
	}
}

// whileHeld is a context that lives as long as a lock is held.
type whileHeld struct {
	context.Context
	lock *redlock.Lock
}

func (c whileHeld) Done() <-chan struct{} { return c.lock.Done() }
func (c whileHeld) Err() error            { return c.lock.Err() }

func TestTryLock_ContextMayAskALockOfTheName(t *testing.T) {
	c := onMini(t, 3)
	locker := c.locker()
	lock := must(locker.TryLock(t.Context(), "name"))(t)
	require.ErrorIs(t, errOf(locker.TryLock(whileHeld{t.Context(), lock}, "name")), redlock.ErrTaken)
	unlock(t, lock)
}

// asked is a context that calls a function whenever something is asked of it.
type asked struct {
	context.Context
	ask func()
}

func (c asked) Done() <-chan struct{} {
	c.ask()
	return c.Context.Done()
}

// The danger: the mutex of the outages is held while the context is asked, and taken under that of a name.
func TestLock_ContextMayAskALockWhileAnOutageIsWaitedFor(t *testing.T) {
	c := onMini(t, 3)
	locker := c.locker()
	times := 0
	ctx := asked{t.Context(), func() {
		times++
		require.True(t, redlock.OutagesFree(locker))
	}}
	lock := must(locker.Lock(ctx, "name", redlock.MaxOutage(time.Hour)))(t)
	unlock(t, lock)
	require.NotZero(t, times)
}

// panics returns a log handler that panics, once, when it is asked by a function, on whichever goroutine.
func panics(function string) slog.Handler {
	var once atomic.Bool
	return handler{slog.DiscardHandler, func() {
		if calledBy(function) && !once.Swap(true) {
			panic("of the handler")
		}
	}}
}

// The danger: what waits has its turn, and nobody is there to take it.
func TestLock_PanicOfTheLogHandlerLeavesNobodyInTheQueue(t *testing.T) {
	c := onMini(t, 3)
	locker := c.locker(redlock.WithLogger(slog.New(panics("(*waiter).noteWait("))))
	holder := take(t, c.locker(), "name")
	require.PanicsWithValue(t, "of the handler", func() { _, _ = locker.Lock(t.Context(), "name") })
	require.Zero(t, redlock.Waiting(locker, "name"))
	unlock(t, holder)
	lock := must(locker.Lock(t.Context(), "name"))(t)
	unlock(t, lock)
}

// The first round of a call that nobody is before ends at once if no node takes the command.
func TestLock_PanicOfTheLogHandlerInTheFirstRoundLeavesNobodyInTheQueue(t *testing.T) {
	c := onMini(t, 3)
	nodes := c.nodes()
	locker := lockerOver(t, nodes, redlock.WithLogger(slog.New(panics("(*Locker).first("))))
	for _, n := range nodes {
		require.NoError(t, n.Close())
	}
	require.PanicsWithValue(t, "of the handler", func() { _, _ = locker.Lock(t.Context(), "name") })
	_, err := locker.Lock(t.Context(), "name", redlock.MaxWait(time.Minute))
	require.ErrorIs(t, err, nodeerr.ErrClosed, "and not that a call before it is under way")
}

// callbacks are what a Locker calls of a program, each with a task for it.
var callbacks = map[string]func(task func()) []redlock.Option{
	"an observer": func(task func()) []redlock.Option {
		return []redlock.Option{redlock.WithObserver(event.ObserverFunc(func(event.Event) { task() }))}
	},
	"Enabled of a log handler": func(task func()) []redlock.Option {
		return []redlock.Option{redlock.WithLogger(slog.New(handler{slog.DiscardHandler, task}))}
	},
	"Handle of a log handler": func(task func()) []redlock.Option {
		return []redlock.Option{redlock.WithLogger(slog.New(handling{handler{slog.DiscardHandler, func() {}}, task}))}
	},
	"a source of tokens": func(task func()) []redlock.Option {
		return []redlock.Option{redlock.TokenSource(func() (string, error) {
			task()
			return rand.Text(), nil
		})}
	},
	"a dialer": func(task func()) []redlock.Option {
		return []redlock.Option{pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			task()
			return new(net.Dialer).DialContext(ctx, network, address)
		})}
	},
}

// handling is a log handler that does something with each line.
type handling struct {
	handler
	do func()
}

func (h handling) Handle(context.Context, slog.Record) error {
	h.do()
	return nil
}

// The danger: one of them is called under the mutex of a name, and waits for it for ever. (The clock is, see WithClock.)
func TestCallbacks_MayCallTheLockerAboutTheSameName(t *testing.T) {
	t.Parallel()
	inParallel(t, callbacks, func(t *testing.T, options func(task func()) []redlock.Option) {
		var locker atomic.Pointer[redlock.Locker]
		var held atomic.Pointer[redlock.Lock]
		var busy, called atomic.Bool
		var times atomic.Int32
		task := func() {
			l := locker.Load()
			if l == nil || times.Load() == 100 || busy.Swap(true) { // what it does calls back too
				return
			}
			times.Add(1)
			defer busy.Store(false)
			if lock := held.Load(); lock != nil {
				_, _ = lock.Err(), lock.Remaining()
				_ = lock.Extend(context.Background(), long)
				_ = lock.Unlock(context.Background())
				called.Store(true)
			}
			if lock, err := l.Lock(context.Background(), "name", redlock.MaxWait(time.Millisecond)); err == nil {
				_ = lock.Unlock(context.Background())
			}
		}
		c := onReal(t, 3).mayLeave() // what is under way at the end
		l := c.opened(options(task)...)
		locker.Store(l)
		all := beside(func() error {
			for i := range 20 {
				lock, err := l.Lock(context.Background(), "name", redlock.RenewFor(redlock.NoLimit), redlock.MaxWait(time.Second))
				if errors.Is(err, redlock.ErrNoQuorum) { // a dialer has taken its time
					continue
				} else if err != nil {
					return err
				}
				held.Store(lock)
				if i%5 == 0 {
					c.do(0, "CLIENT", "KILL", "SKIPME", "yes") // so that it is dialled again
				}
				waiting := beside(func() error {
					lock, err := l.Lock(context.Background(), "name", redlock.MaxWait(10*time.Millisecond))
					if err == nil {
						err = lock.Unlock(context.Background())
					}
					return err
				})
				_ = lock.Extend(context.Background(), long)
				_ = lock.Unlock(context.Background())
				if err := <-waiting; err != nil { // the task may have the lock
					t.Log(err)
				}
			}
			return l.Close()
		})
		require.NoError(t, receive(t, all, "what the program calls"))
		require.True(t, called.Load())
		require.Eventually(t, func() bool { return !busy.Load() }, 30*time.Second, time.Millisecond)
	})
}
