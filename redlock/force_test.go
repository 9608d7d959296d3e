package redlock_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// free removes a lock by force, as another process.
func (c *cluster) free(name string) {
	c.tb.Helper()
	require.NoError(c.tb, errOf(c.locker().ForceUnlock(c.tb.Context(), name)))
}

func TestForceUnlock_FreesALockWhoeverHoldsIt(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		log := &logBuffer{}
		locker := c.locker(redlock.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		lock := c.everywhere(take(t, c.locker(), "ours", redlock.Metadata("backup of db3")))
		removed := only(t, must(locker.ForceUnlock(t.Context(), "ours"))(t))
		require.Greater(t, removed.TTL, long/2)
		require.Equal(t, redlock.Holder{Token: lock.Token(), Metadata: "backup of db3", TTL: removed.TTL, Nodes: 5}, removed)
		eventually(t, func() bool { return log.String() != "" }, "the line")
		require.Contains(t, log.String(), "level=WARN")
		require.Contains(t, log.String(), "name=ours")
		require.Contains(t, log.String(), `metadata="backup of db3"`)
		require.NotContains(t, log.String(), string(lock.Token()[:40]))
		c.doAll("SET", "theirs", "any text")
		removed = only(t, must(locker.ForceUnlock(t.Context(), "theirs"))(t))
		require.Equal(t, redlock.Holder{Token: "any text", TTL: redlock.NoLimit, Nodes: 5}, removed)
		c.eventuallyEmpty()
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

func TestForceUnlock_FreesALockWithFencing(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(redlock.WithFencing()), "name")
		c.eventuallyFenced(lock)
		removed := only(t, must(c.locker().ForceUnlock(t.Context(), "name"))(t))
		require.Equal(t, redlock.Holder{Token: lock.Token(), Fence: lock.Fence(), TTL: removed.TTL, Nodes: 3}, removed)
		c.eventuallyFree("name")
		require.NotZero(t, c.counter(0, "name"), "the counter stays")
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

// The servers push nothing about such a lock, and nobody renews it.
func TestForceUnlock_EndsALockOfItsOwnLocker(t *testing.T) {
	t.Parallel()
	inTurn(t, map[string][]redlock.LockOption{
		"exclusive": nil, "shared": {redlock.Shared()}, "slot": {redlock.Slots(2)},
	}, func(t *testing.T, opts []redlock.LockOption) {
		onBoth(t, 3, func(t *testing.T, c *cluster) {
			locker := c.locker()
			lock, other := take(t, locker, "name", opts...), c.everywhere(take(t, locker, "other"))
			c.common("name")
			done := lock.Done()
			token := only(t, must(locker.ForceUnlock(t.Context(), "name"))(t)).Token
			require.Equal(t, lock.Token(), token)
			receive(t, done, "the loss")
			require.ErrorIs(t, lock.Err(), redlock.ErrGone)
			require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrGone)
			require.NoError(t, other.Err())
			unlock(t, other)
			c.eventuallyEmpty()
		})
	})
}

// The danger: what is handed off is no lock any longer.
func TestForceUnlock_LeavesTheHolderNothingToHandOff(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(handsOn)
		lock, waiters := lineUp(t, locker, 1)
		token := c.common("name")
		require.Equal(t, token, only(t, must(locker.ForceUnlock(t.Context(), "name"))(t)).Token)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrGone, "also before the loss was found")
		next := won(t, waiters[0])
		require.NotEqual(t, token, c.common("name"), "a lock of its own")
		unlock(t, next)
	})
}

func TestForceUnlock_DoesNotReportAsFreedWhatWasNotThere(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		log := &logBuffer{}
		locker := c.logsTo(log, slog.LevelWarn)
		require.Nil(t, must(locker.ForceUnlock(t.Context(), "nobody's"))(t))
		locker.Drain()
		require.Empty(t, log.String())
		c.do(1, "SET", "one", "token", "PX", long.Milliseconds())
		removed := must(locker.ForceUnlock(t.Context(), "one"))(t)
		require.Equal(t, []redlock.Holder{{Token: "token", Nodes: 1}}, removed, "one is no majority")
		c.eventuallyEmpty()
	})
}

// stall holds back what is sent to delete the key of a name, until the returned function is called. stalled counts that.
func stall(name string) (opt pool.Option, stalled *atomic.Int64, release func()) {
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	stalled = new(atomic.Int64)
	return throughWires(func(_ string, w *tapped) {
		w.wrote = func(p []byte) {
			if bytes.Contains(p, []byte(name)) && !bytes.Contains(p, []byte(scripts["observe"].Source)) {
				stalled.Add(1)
				<-gate
			}
		}
	}), stalled, release
}

// The danger: a deletion that arrives when it was given up long ago, and another holds the lock.
func TestForceUnlock_ThatArrivesLateDoesNotDeleteTheKeyOfALaterHolder(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		opt, stalled, release := stall("the-name")
		defer release()
		locker := lockerOver(t, c.nodes(opt, pool.WithTimeout(brief), pool.WithMaxOverdue(long)))
		first := c.everywhere(take(t, c.locker(), "the-name"))
		removed, err := locker.ForceUnlock(t.Context(), "the-name")
		for _, node := range c.refused(err, redlock.ErrNoQuorum).Nodes {
			require.Error(t, node.Err)
		}
		require.Nil(t, removed)
		eventually(t, func() bool { return stalled.Load() == 3 }, "all deletions are on their way")
		unlock(t, first)
		c.eventuallyEmpty()
		second := c.everywhere(take(t, c.locker(), "the-name"))

		release()
		eventually(t, func() bool { // what comes behind them on the same connections is answered
			state, err := locker.Inspect(t.Context(), "other")
			return err == nil && state.Nodes[0].Err == nil && state.Nodes[1].Err == nil && state.Nodes[2].Err == nil
		}, "they have arrived")
		require.Equal(t, 3, c.holding("the-name", second.Token()))
		unlock(t, second)
	})
}

// The danger: a deletion that waits for its connection, is sent when that is back, and finds a later lock of a client that
// uses the same value each time.
func TestForceUnlock_IsNotSentAnyMoreWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1)
	c.do(0, "SET", "name", "1")
	n := (*node.Node)(c.nodes(pool.WithTimeout(brief))[0])
	answers := make(replies, 2)
	require.NoError(t, n.Send(time.Now(), form.Exclusive{}.Observe("name"), answers, wire.Tag{}))
	require.Equal(t, quorum.Yes, receive(t, answers, "the observation").Answer)
	c.processes[0].Freeze()
	require.NoError(t, n.Send(time.Now(), form.Exclusive{}.Observe("name"), answers, wire.Tag{})) // which is overdue then
	require.Error(t, receive(t, answers, "the end of an observation").Err)
	deletion := new(wire.Command)
	form.Exclusive{}.Remove(deletion, "name", form.Observation{Value: "1"})
	require.ErrorIs(t, n.Send(time.Now(), deletion, answers, wire.Tag{}), nodeerr.ErrSuspended)
	c.processes[0].Thaw()
	require.Equal(t, "1", c.value(0, "name"))
}

// replies receives what a node answers.
type replies chan wire.Reply

func (r replies) Reply(_ wire.Tag, reply *wire.Reply) { r <- *reply }

// The danger: somebody's data under the name.
func TestForceUnlock_LeavesSomebodysDataAlone(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		c.doAll("RPUSH", "name", "data")
		c.do(2, "DEL", "name")
		c.do(2, "SET", "name", strings.Repeat("x", 5000))
		removed, err := locker.ForceUnlock(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrForeign)
		require.NotErrorIs(t, err, redlock.ErrNoQuorum, "all have answered")
		refusal := c.refused(err)
		require.ErrorIs(t, refusal.Reason, redlock.ErrForeign)
		require.ErrorContains(t, refusal.Nodes[0].Err, "WRONGTYPE")
		require.ErrorContains(t, refusal.Nodes[2].Err, "more than 1024 bytes")
		require.ErrorContains(t, err, c.servers[1].Addr()+": WRONGTYPE", "which node holds what")
		require.Nil(t, removed)
		for i := range 3 {
			require.ErrorIs(t, refusal.Nodes[i].Err, nodeerr.ErrForeign)
			require.EqualValues(t, 1, c.do(i, "EXISTS", "name"))
		}

		c.do(0, "DEL", "name")
		c.do(1, "DEL", "name")
		c.do(1, "SET", "name", "token")
		removed, err = locker.ForceUnlock(t.Context(), "name")
		require.NoError(t, err, "a majority is free now")
		require.Equal(t, []redlock.Holder{{Token: "token", Nodes: 1}}, removed)
		require.EqualValues(t, 1, c.do(2, "EXISTS", "name"))
	})
}

// Such a node is free of what was seen there, and is not a second one that has data.
func TestForceUnlock_CountsOnceANodeThatGetsSomebodysDataMeanwhile(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.do(0, "SET", "the-name", "token")
		c.servers[1].Stop()
		c.servers[2].Stop()
		opt, stalled, release := stall("the-name")
		defer release()
		locker := lockerOver(t, c.nodes(opt, pool.WithTimeout(long)))
		ended := make(chan error, 1)
		go func() { ended <- errOf(locker.ForceUnlock(t.Context(), "the-name")) }()
		eventually(t, func() bool { return stalled.Load() == 1 }, "the deletion is on its way")
		c.do(0, "DEL", "the-name")
		c.do(0, "RPUSH", "the-name", "data")
		release()
		requireIs(t, receive(t, ended, "the end of ForceUnlock"), redlock.ErrNoQuorum, not{redlock.ErrForeign})
		require.EqualValues(t, 1, c.do(0, "EXISTS", "the-name"))
	})
}

func TestForceUnlock_WithoutAMajorityIsUnknown(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.servers[0].Stop()
		c.do(1, "SET", "name", "token")
		c.free("name")
		c.do(2, "SET", "name", "token")
		c.servers[1].Stop()
		removed, err := c.locker().ForceUnlock(t.Context(), "name")
		refusal := c.refused(err, redlock.ErrNoQuorum)
		require.Equal(t, "force unlock", refusal.Op)
		require.Equal(t, []redlock.Holder{{Token: "token", Nodes: 1}}, removed, "what was removed all the same")
		require.Error(t, refusal.Nodes[1].Err)
		require.NoError(t, refusal.Nodes[2].Err)
		require.Empty(t, c.value(2, "name"))
	})
}

func TestForceUnlock_OnAContextThatEndsDoesNotGoOnWaiting(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker()
	c.doAll("SET", "name", "token", "PX", long.Milliseconds())
	inspect(t, locker, "name")
	freeze(c.processes...)
	ctx := briefly(t)
	removed, err := locker.ForceUnlock(ctx, "name")
	for _, node := range c.refused(err, ctx.Err(), redlock.ErrNoQuorum).Nodes {
		require.ErrorIs(t, node.Err, nodeerr.ErrUnanswered)
	}
	require.Nil(t, removed)
	thaw(c.processes...)
	require.NoError(t, locker.Close())
	require.ErrorIs(t, errOf(locker.ForceUnlock(t.Context(), "name")), redlock.ErrClosed)
	require.Equal(t, 3, c.holding("name", "token"), "nothing is deleted that was not looked at in time")
}
