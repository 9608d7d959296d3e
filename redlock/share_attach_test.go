package redlock_test

import (
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
)

func TestAttach_TakesUpAReadLockByItsToken(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		first, other := read(t, c.locker(), "name", redlock.TTL(time.Minute)), read(t, c.locker(), "name")
		c.shared("name", 2)
		locker := c.locker(redlock.WithFencing()) // of numbers it has none
		attached := got(locker.Attach(t.Context(), "name", detach(t, first)))(t)
		require.Equal(t, redlock.KindShared, attached.Kind())
		require.Equal(t, first.Token(), attached.Token())
		require.Zero(t, attached.Fence())
		require.Greater(t, attached.Remaining(), 20*time.Second)
		require.LessOrEqual(t, attached.Remaining(), time.Minute, "what the reader has left, not the mark")
		require.NoError(t, attached.Extend(t.Context(), long))
		require.Greater(t, attached.Remaining(), long/2)
		unlock(t, attached)
		c.shared("name", 1)
		require.NoError(t, other.Extend(t.Context(), long), "another reader stays")
		requireIs(t, errOf(c.locker().TryLock(t.Context(), "name")), redlock.ErrTaken) // with fencing it may leave a counter
		unlock(t, other)
		c.eventuallyEmpty()
		require.ErrorIs(t, errOf(locker.Attach(t.Context(), "name", first.Token())), redlock.ErrNotHeld)
	})
}

func TestAttach_RenewsTheReadLockThatItTookUp(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock, fake := read(t, c.locker(), "name", redlock.TTL(10*time.Minute)), clocktest.New()
		c.shared("name", 1)
		token := detach(t, lock)
		attached := got(c.locker(redlock.WithClock(fake)).Attach(t.Context(), "name", token, redlock.RenewFor(redlock.NoLimit), redlock.TTL(30*time.Minute)))(t)
		fake.Advance(attached.Remaining() - 1)
		eventually(t, func() bool { return attached.Remaining() > 15*time.Minute }, "a renewal")
		c.each(func(i int) { eventually(t, func() bool { return c.ttl(i, "name") > 20*time.Minute }, "server %d", i) })
		c.doAll("ZREM", "{name}:sharers", token)
		fake.Advance(11 * time.Minute)
		eventually(t, func() bool { return attached.Err() != nil }, "a renewal finds the loss")
		require.ErrorIs(t, attached.Err(), redlock.ErrGone)
		c.doAll("DEL", "name", "{name}:sharers")
	})
}

func TestAttach_RefusesAReaderWhoIsNotIn(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		c.crowd("name", 300)
		attach := func(token redlock.Token) error { return errOf(locker.Attach(t.Context(), "name", token)) }
		for _, token := range []redlock.Token{"reader-0", "|shared", "another"} { // the mark is no token
			requireIs(t, attach(token), redlock.ErrNotHeld)
		}
		c.do(0, "ZREM", "{name}:sharers", "reader-300")
		require.NoError(t, attach("reader-300"), "on two of three")
		c.do(1, "ZADD", "{name}:sharers", "1", "reader-300")
		requireIs(t, attach("reader-300"), redlock.ErrNotHeld)

		c.do(0, "SET", "name", "reader-2") // the token of a writer that is the same as a reader's
		require.NoError(t, attach("reader-2"))
		c.do(1, "DEL", "name")
		requireIs(t, attach("reader-2"), redlock.ErrNoQuorum)
		c.doAll("DEL", "name", "{name}:sharers")
	})
}

func TestAttach_OfAReaderNeedsAMajorityOfAnswers(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.crowd("name", 2)
		locker := lockerOver(t, c.nodes())
		c.servers[0].Stop()
		lock := must(locker.Attach(t.Context(), "name", "reader-1"))(t)
		require.Equal(t, redlock.KindShared, lock.Kind())
		c.servers[1].Stop()
		requireIs(t, errOf(locker.Attach(t.Context(), "name", "reader-2")), redlock.ErrNoQuorum)
	})
}

// The danger: two replicas show the readers of their master, whom only one node has let in.
func TestReplica_TheReadersThatItShowsAreNoAnswer(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3, "--repl-diskless-sync-delay", "0")
	c.crowd("name", 1, 0)
	c.replicate(1, 2)
	c.shared("name", 1)
	locker := c.locker()
	requireIs(t, errOf(locker.Attach(t.Context(), "name", "reader-1")), redlock.ErrNoQuorum)
	s, err := locker.Inspect(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.Equal(t, redlock.VerdictUnknown, s.Verdict)
	require.Len(t, s.Nodes[0].Holders, 1)
	for _, n := range s.Nodes[1:] {
		requireReplica(t, n.Err)
		require.Empty(t, n.Holders)
	}
	require.ErrorIs(t, errOf(locker.ForceUnlock(t.Context(), "name")), redlock.ErrNoQuorum)
	c.mayLeave()
}

func TestForceUnlock_EndsTheReaders(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(redlock.WithFencing())
		c.crowd("name", 40)
		lock := read(t, c.locker(), "name", redlock.Metadata("report"), redlock.TTL(24*long))
		c.shared("name", 41)
		c.do(1, "ZREM", "{name}:sharers", "reader-2")
		c.do(2, "ZREM", "{name}:sharers", "reader-2")
		removed := must(locker.ForceUnlock(t.Context(), "name"))(t)
		require.Len(t, removed, 41)
		require.Equal(t, redlock.Holder{Token: "reader-2", Nodes: 1}, removed[0], "in front, as a minority has no TTL")
		for _, h := range removed[1:] {
			require.Equal(t, 3, h.Nodes)
			require.Positive(t, h.TTL)
		}
		last := removed[40]
		require.Equal(t, redlock.Holder{Token: lock.Token(), Metadata: "report", TTL: last.TTL, Nodes: 3}, last)
		c.eventuallyEmpty()
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

func TestForceUnlock_OfReadersWithANodeDown(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		c.crowd("name", 3)
		c.servers[0].Stop()
		removed := must(locker.ForceUnlock(t.Context(), "name"))(t)
		require.Len(t, removed, 3)
		for _, h := range removed {
			require.Equal(t, 2, h.Nodes)
			require.Positive(t, h.TTL)
		}
		c.servers[1].Stop()
		removed, err := locker.ForceUnlock(t.Context(), "name")
		for i, node := range c.refused(err, redlock.ErrNoQuorum).Nodes {
			require.Equal(t, i < 2, node.Err != nil)
		}
		require.Nil(t, removed)
	})
}

// stalledForce has the lock of a name that readers share removed by force, and returns when the removals are on their way. They are sent when
// release is called.
func (c *cluster) stalledForce(name string) (removed chan []redlock.Holder, release func()) {
	c.tb.Helper()
	var stalled atomic.Int64
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	c.tb.Cleanup(release)
	locker := lockerOver(c.tb, c.nodes(throughWires(func(_ string, w *tapped) {
		w.wrote = func(p []byte) {
			if strings.Contains(string(p), scripts["share_release"].Source) {
				stalled.Add(1)
				<-gate
			}
		}
	})))
	removed = make(chan []redlock.Holder, 1)
	go func() {
		holders, err := locker.ForceUnlock(c.tb.Context(), name)
		assert.NoError(c.tb, err)
		removed <- holders
	}()
	eventually(c.tb, func() bool { return stalled.Load() == int64(len(c.servers)) }, "they are on their way")
	return removed, release
}

// The danger: who came while those that were seen were ended loses the lock with them.
func TestForceUnlock_LeavesTheReadersWhoComeMeanwhile(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		gone, left := read(t, c.locker(), "name"), read(t, c.locker(), "name")
		c.shared("name", 2)
		ended, release := c.stalledForce("name")
		unlock(t, left)
		_, err := c.locker().TryLock(t.Context(), "name", redlock.Shared())
		_ = c.refused(err, redlock.ErrTaken, nodeerr.ErrWanted)
		c.doAll("DEL", "{name}:wanted") // as if the nodes had not been told
		later := read(t, c.locker(), "name")
		c.shared("name", 2)
		release()
		removed := receive(t, ended, "the end of ForceUnlock")
		require.Equal(t, gone.Token(), only(t, removed).Token)
		c.shared("name", 1)
		require.ErrorIs(t, gone.Unlock(t.Context()), redlock.ErrNotHeld)
		require.NoError(t, later.Extend(t.Context(), long))
		unlock(t, later)
	})
}

func TestForceUnlock_LeavesAWriterWhoCameBehindTheReaders(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.crowd("name", 2)
		ended, release := c.stalledForce("name")
		c.doAll("DEL", "name", "{name}:sharers")
		c.doAll("SET", "name", "writer", "PX", long.Milliseconds())
		release()
		require.Nil(t, receive(t, ended, "the end of ForceUnlock"))
		c.eventuallyHeld("name", "writer")
	})
}
