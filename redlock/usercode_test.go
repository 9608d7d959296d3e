package redlock_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
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
