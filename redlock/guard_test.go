package redlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// A lock sits on a bare majority of five; one of the three is killed and comes back empty, and with the two that never had the
// lock it makes a majority. That is the second holder whom the guard is against.
func TestRestartGuard_ANodeThatWasKilledGivesNoSecondHolder(t *testing.T) {
	t.Parallel()
	inTurn(t, map[string]bool{"with the guard": true, "without": false}, func(t *testing.T, guarded bool) {
		ttl := time.Minute
		c := onReal(t, 5)
		var opts []pool.Option
		if guarded {
			ttl = 3 * time.Second
			c.inUse(time.Hour)
			opts = append(opts, pool.WithRestartGuard(ttl))
		}
		kill(c.processes[3:]...)
		first := lockerOver(t, c.nodes(opts...), redlock.TTL(ttl))
		lock := take(t, first, "name")
		for _, p := range c.processes[2:] {
			p.Stop() // SIGKILL, where it still runs
			p.Start()
		}
		requireSecondHolder(t, lock, lockerOver(t, c.nodes(opts...), redlock.TTL(ttl)), !guarded)
	})
}

// requireSecondHolder has another program take a lock that the nodes have forgotten: at once, or, with a guard, when the first has expired.
func requireSecondHolder(t *testing.T, first *redlock.Lock, program *redlock.Locker, atOnce bool) {
	t.Helper()
	second, err := program.TryLock(t.Context(), first.Name())
	if atOnce {
		require.NoError(t, err, "the test finds what the guard is against")
		require.NoError(t, first.Err(), "two holders")
		require.NotEqual(t, first.Token(), second.Token())
		_, _ = first.Unlock(t.Context()), second.Unlock(t.Context())
		return
	}
	for err != nil && first.Err() == nil { // for as long as the first holds it
		requireIs(t, err, redlock.ErrNoQuorum, nodeerr.ErrQuarantined)
		pass(5 * time.Millisecond) // a program that does nothing else fills the queue of a node that is connecting
		second, err = program.TryLock(t.Context(), first.Name())
	}
	require.ErrorIs(t, first.Err(), redlock.ErrExpired, "otherwise there are two holders")
	if err != nil { // in the end they vote again
		second, err = program.Lock(t.Context(), first.Name())
	}
	require.NoError(t, err)
	unlock(t, second)
}

func TestRestartGuard_DoesNotKeepTheHolderFromItsLock(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	guard := pool.WithRestartGuard(time.Hour)
	fresh := c.nodes(guard)
	_, err := lockerOver(t, fresh, redlock.TTL(time.Minute)).TryLock(t.Context(), "name")
	for _, node := range c.refused(err, redlock.ErrNoQuorum).Nodes {
		if errors.Is(node.Err, nodeerr.ErrUnneeded) {
			continue // two are enough
		}
		left := (*nodeerr.QuarantineError)(nil)
		require.ErrorAs(t, node.Err, &left)
		require.Greater(t, left.Left, 59*time.Minute)
		require.LessOrEqual(t, left.Left, 61*time.Minute)
	}

	lock := take(t, c.locker(), "name", redlock.TTL(time.Minute)) // by one without a guard
	c.eventuallyHeld("name", lock.Token())
	attached := got(lockerOver(t, fresh, redlock.TTL(time.Minute)).Attach(t.Context(), "name", lock.Token()))(t)
	c.do(0, "DEL", "name")
	require.NoError(t, attached.Extend(t.Context(), 30*time.Minute))
	c.eventuallyHeld("name", lock.Token()) // the one that had lost it, too
	unlock(t, attached)
	require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
}

func TestRestartGuard_RefusesALongerTTLAtOnce(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	nodes := c.nodes(pool.WithRestartGuard(5*time.Second), pool.WithDurable(func(i int) bool { return i > 0 }))
	require.ErrorContains(t, errOf(redlock.New(nodes)), "TTL 10s: must be at most 5s (pool.WithRestartGuard of node "+nodes[0].Addr()+")")
	_, err := redlock.New(nodes, redlock.TTL(5*time.Second), redlock.WithMaxTTL(time.Hour))
	require.NoError(t, err)
	locker := lockerOver(t, nodes, redlock.TTL(5*time.Second))
	for _, call := range []func() error{
		func() error { _, err := locker.TryLock(t.Context(), "name", redlock.TTL(6*time.Second)); return err },
		func() error { _, err := locker.Lock(t.Context(), "name", redlock.TTL(6*time.Second)); return err },
	} {
		require.ErrorContains(t, call(), "TTL 6s: must be at most 5s")
	}
	lock := got(locker.TryLock(t.Context(), "name"))(t) // two are durable
	require.ErrorContains(t, lock.Extend(t.Context(), 6*time.Second), "TTL 6s: must be at most 5s")
	require.NoError(t, lock.Extend(t.Context(), 5*time.Second))
	unlock(t, lock)
	require.NoError(t, errOf(redlock.New(nodes[1:], redlock.TTL(time.Hour))))
}

// While a majority is in quarantine whoever waits goes on trying, ever more seldom.
func TestRestartGuard_WaitersSitItOutWithoutABusyLoop(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	const guard = 2 * time.Second
	locker := lockerOver(t, c.nodes(pool.WithRestartGuard(guard)), redlock.TTL(guard), redlock.WithObserver(seen))
	unlock(t, waits(t, locker, "name"))
	locker.Drain()
	refused := 0
	for _, v := range seen.verdictsOn("acquire") {
		if v.Err != nil {
			require.True(t, errors.Is(v.Err, redlock.ErrNoQuorum), "%v", v.Err)
			refused++
		}
	}
	require.Positive(t, refused)
	require.Less(t, refused, 200)
}
