package redlock_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// One server that is reached under two names is no majority of three.
func TestInspect_CountsAServerUnderTwoNamesOnce(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1)
	_, port, err := net.SplitHostPort(c.servers[0].Addr())
	require.NoError(t, err)
	nodes := open(t, []string{c.servers[0].URL(), "redis://localhost:" + port, "redis://127.0.0.1:1"})
	locker := lockerOver(t, nodes)
	c.do(0, "SET", "name", "token", "PX", long.Milliseconds())
	var state *redlock.LockState
	eventually(t, func() bool { // both are connected
		state, err = locker.Inspect(t.Context(), "name")
		return errors.Is(err, nodeerr.ErrSameServer)
	}, "the server is known")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.Equal(t, redlock.VerdictUnknown, state.Verdict)
	require.ErrorIs(t, errOf(locker.Attach(t.Context(), "name", "token")), nodeerr.ErrSameServer)
	removed, err := locker.ForceUnlock(t.Context(), "name")
	requireIs(t, err, redlock.ErrNoQuorum, nodeerr.ErrSameServer)
	require.Equal(t, redlock.VerdictUnknown, removed.Verdict)
}

// inspect asks who holds a name.
func inspect(tb testing.TB, locker *redlock.Locker, name string) *redlock.LockState {
	tb.Helper()
	s := must(locker.Inspect(tb.Context(), name))(tb)
	require.Equal(tb, name, s.Name)
	return s
}

func TestInspect_ShowsWhoHoldsTheLockForHowLong(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker := c.locker(redlock.WithKeyPrefix("lock:"))
		lock := take(t, locker, "name", redlock.Metadata("backup: of db3"), redlock.TTL(time.Minute))
		c.eventuallyHeld("lock:name", lock.Token())
		s := inspect(t, c.locker(redlock.WithKeyPrefix("lock:")), "name")
		require.Equal(t, redlock.VerdictHeld, s.Verdict)
		require.Equal(t, lock.Token(), s.Token)
		require.Equal(t, "backup: of db3", s.Metadata)
		require.Greater(t, s.TTL, 20*time.Second)
		require.LessOrEqual(t, s.TTL, time.Minute)
		require.Equal(t, 3, s.Need)
		require.Len(t, s.Nodes, 5)
		for i, node := range s.Nodes {
			require.Equal(t, c.servers[i].Addr(), node.Addr)
			require.NoError(t, node.Err)
			require.Equal(t, lock.Token(), node.Token)
			require.Equal(t, "backup: of db3", node.Metadata)
			require.Greater(t, node.TTL, 20*time.Second)
		}
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
		s = inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictNobody, s.Verdict)
		require.Zero(t, s.TTL)
		for _, node := range s.Nodes {
			require.Equal(t, redlock.NodeState{Addr: node.Addr}, node)
		}
	})
}

func TestInspect_CallsALockHeldThatAMajorityHolds(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for i, ttl := range []time.Duration{10 * time.Minute, 30 * time.Minute} {
			c.do(i, "SET", "name", "theirs", "PX", ttl.Milliseconds())
		}
		c.do(2, "SET", "name", "other", "PX", long.Milliseconds())
		s := inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictNobody, s.Verdict, "two are no majority")
		require.Zero(t, s.TTL)
		require.Equal(t, "theirs", s.Nodes[1].Token)
		require.Equal(t, "other", s.Nodes[2].Token)
		require.Empty(t, s.Nodes[3].Token)

		c.do(2, "SET", "name", "theirs", "PX", (20 * time.Minute).Milliseconds())
		c.do(3, "SET", "name", "theirs") // for ever
		s = inspect(t, locker, "name")
		require.Equal(t, "theirs", s.Token, "a foreign client's")
		require.Empty(t, s.Metadata)
		require.EqualValues(t, redlock.NoLimit, s.Nodes[3].TTL)
		require.LessOrEqual(t, s.TTL, 20*time.Minute, "for so long three hold it")
		require.Greater(t, s.TTL, 15*time.Minute)
		c.doAll("SET", "name", "theirs")
		require.EqualValues(t, redlock.NoLimit, inspect(t, locker, "name").TTL)
	})
}

func TestInspect_ReportsWhyANodeDoesNotAnswer(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := c.everywhere(take(t, locker, "name"))
		c.do(0, "DEL", "name")
		c.do(0, "RPUSH", "name", "data")
		c.servers[1].Stop()
		s := inspect(t, locker, "name")
		require.Equal(t, lock.Token(), s.Token)
		wrong := as[*nodeerr.ServerError](t, s.Nodes[0].Err)
		require.Equal(t, "WRONGTYPE", wrong.Code)
		require.Error(t, s.Nodes[1].Err)
		require.NoError(t, s.Nodes[2].Err)

		c.servers[2].Stop()
		s = inspect(t, locker, "name") // two hold it, and data of somebody's is an answer, too
		require.Equal(t, redlock.VerdictUnknown, s.Verdict, "one of those that are down may hold it")
		c.servers[4].Stop()
		s, err := locker.Inspect(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, redlock.VerdictUnknown, s.Verdict)
		require.ErrorContains(t, err, ": 2 of 5 nodes answered, 3 needed")
		require.Equal(t, "inspect", c.refused(err).Op)
		require.NotNil(t, s)
		require.Equal(t, lock.Token(), s.Nodes[3].Token, "what the others say is told")
		require.Equal(t, "list", strings.ToLower(c.do(0, "TYPE", "name").(string)))
		_ = lock.Unlock(t.Context())
	})
}

func TestInspect_SomebodysDataIsNotAMissingAnswer(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.do(0, "RPUSH", "name", "data")
		c.do(1, "SET", "name", strings.Repeat("x", 5000))
		s := inspect(t, c.locker(), "name")
		require.Equal(t, redlock.VerdictForeign, s.Verdict)
		for i := range 2 {
			require.ErrorIs(t, s.Nodes[i].Err, nodeerr.ErrForeign)
			require.Empty(t, s.Nodes[i].Token)
		}
		require.NoError(t, s.Nodes[2].Err)
		requireIs(t, errOf(c.locker().Attach(t.Context(), "name", "token")), redlock.ErrNotHeld, nodeerr.ErrForeign)
	})
}

// An empty value keeps everybody else from taking the lock, as any token does, and an unlock by force removes it.
func TestInspect_AnEmptyValueIsAToken(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		c.doFirst(2, "SET", "name", "", "PX", long.Milliseconds())
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
		s := inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictHeld, s.Verdict)
		require.Empty(t, s.Token)
		require.Greater(t, s.TTL, long/2)
		for i, held := range []bool{true, true, false} {
			require.Equal(t, held, s.Nodes[i].Held)
		}
		removed := must(locker.ForceUnlock(t.Context(), "name"))(t)
		require.Equal(t, redlock.VerdictHeld, removed.Verdict)
		require.Equal(t, redlock.VerdictNobody, inspect(t, locker, "name").Verdict)
		take(t, locker, "name")
	})
}

func TestInspect_OnAContextThatEndsReturnsItsError(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker()
	freeze(c.processes...)
	s, err := locker.Inspect(briefly(t), "name")
	requireIs(t, err, context.DeadlineExceeded, redlock.ErrNoQuorum)
	for _, node := range s.Nodes {
		require.ErrorIs(t, node.Err, nodeerr.ErrPending)
	}
	thaw(c.processes...)
}
