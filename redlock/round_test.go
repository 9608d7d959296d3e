package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

func TestExtend_ByLessThanIsLeftChangesNothing(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := c.everywhere(take(t, c.locker(), "name", redlock.TTL(10*time.Minute)))
		before := lock.ValidUntil()
		require.NoError(t, lock.Extend(t.Context(), time.Second))
		require.Equal(t, before, lock.ValidUntil())
		require.NoError(t, lock.Unlock(t.Context())) // behind the extends on every node
		c.eventuallyEmpty()

		lock = c.everywhere(take(t, c.locker(), "name", redlock.TTL(10*time.Minute)))
		require.NoError(t, lock.Extend(t.Context(), time.Second))
		require.NoError(t, lock.Extend(t.Context(), 2*time.Second))
		c.each(func(i int) { require.Greater(t, c.ttl(i, "name"), 5*time.Minute) })
	})
}

func TestExtend_NeedsAMajorityThatStillHoldsTheLock(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		lock := take(t, c.locker(redlock.WithObserver(seen)), "name", redlock.TTL(time.Minute))
		seen.waitForVotes(t, "acquire", "name", 5)
		c.do(0, "DEL", "name")
		c.do(1, "SET", "name", "theirs", "PX", long.Milliseconds())
		require.NoError(t, lock.Extend(t.Context(), 10*time.Minute), "three of five hold it")
		seen.waitForVotes(t, "extend", "name", 5)
		pass(brief / 10) // the observer is told first
		require.EqualValues(t, lock.Token(), c.value(0, "name"), "what had lost it is given it again")
		require.NoError(t, lock.Extend(t.Context(), 10*time.Minute), "and counts")
		seen.waitForVotes(t, "extend", "name", 10)

		c.do(0, "DEL", "name")
		c.do(2, "DEL", "name")
		before := lock.ValidUntil()
		refusal := c.refused(lock.Extend(t.Context(), 20*time.Minute), redlock.ErrGone)
		require.Equal(t, "extend", refusal.Op)
		require.ErrorIs(t, refusal.Nodes[0].Err, nodeerr.ErrRecreated, "given again is no yes: another may have had it meanwhile")
		require.ErrorIs(t, refusal.Nodes[2].Err, nodeerr.ErrRecreated)

		receive(t, lock.Done(), "the end of a lock that is lost")
		require.ErrorIs(t, lock.Err(), redlock.ErrGone)
		require.Equal(t, before, lock.ValidUntil())
		require.Zero(t, lock.Remaining())
		eventually(t, func() bool { return c.holding("name", "") == 4 }, "what is left of it is released")
		require.Equal(t, "theirs", c.value(1, "name"))

		require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrGone)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		require.ErrorIs(t, lock.Err(), redlock.ErrGone, "the first ending stays")
	})
}

// The danger: an extension that brings back a lock that had lapsed or was released.
func TestExtend_DoesNotBringBackALockThatIsGone(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lapsed := c.everywhere(take(t, c.locker(), "name", redlock.TTL(time.Minute)))
		c.doAll("DEL", "name")
		require.ErrorIs(t, lapsed.Extend(t.Context(), long), redlock.ErrGone)
		c.eventuallyEmpty()

		seen := &recorder{}
		released := take(t, c.locker(redlock.WithObserver(seen)), "name")
		unlock(t, released)
		require.ErrorIs(t, released.Extend(t.Context(), long), redlock.ErrReleased)
		require.Empty(t, seen.votesOn("extend", ""), "nothing is sent")
	})
}

// The danger: an extension that is under way while the lock is released. Nor may its clean-up take away what Unlock is about to
// find: Unlock would speak of an overlap that never was.
func TestExtend_BesideUnlockDoesNotLeaveTheKey(t *testing.T) {
	onBoth(t, 4, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for range 100 {
			lock := take(t, locker, "name", redlock.TTL(time.Minute))
			var both sync.WaitGroup
			var extended, unlocked error
			both.Go(func() { extended = lock.Extend(t.Context(), long) })
			both.Go(func() { unlocked = lock.Unlock(t.Context()) })
			both.Wait()
			require.NoError(t, unlocked)
			if extended != nil {
				require.ErrorIs(t, extended, redlock.ErrReleased)
			}
			require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
			require.Zero(t, lock.Remaining())
			c.eventuallyEmpty()
		}
	})
}

// What a failed extension makes longer on a minority is released with the lock.
func TestExtend_ThatFailsIsReleasedWithTheLock(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Minute
	c := onReal(t, 5)
	locker, seen := observed(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(long)))
	lock := seen.takeOnAll(t, locker, 5, redlock.TTL(ttl))
	before := lock.ValidUntil()
	freeze(c.processes[2:]...)

	for range 2 {
		err := lock.Extend(t.Context(), long)
		for i, node := range c.refused(err, redlock.ErrNoQuorum).Nodes {
			if i >= 2 {
				require.Error(t, node.Err)
			} else if node.Err != nil {
				require.ErrorIs(t, node.Err, nodeerr.ErrUnneeded)
			}
		}
		require.Equal(t, before, lock.ValidUntil(), "the old deadline stands")
		require.NoError(t, lock.Err(), "it is still held")
		for i := range 2 {
			eventually(t, func() bool { return c.ttl(i, lock.Name()) > ttl }, "server %d keeps it for longer", i)
		}
	}

	thaw(c.processes[2:]...)
	unlock(t, lock)
}

func TestExtend_ThatFailedMayBeTriedAgainOnceTheNodesAreBack(t *testing.T) {
	t.Parallel()
	inTurn(t, map[string]time.Duration{"on the same connections": long, "on new connections": time.Millisecond}, func(t *testing.T, overdue time.Duration) {
		c := onReal(t, 5)
		locker, seen := observed(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(overdue)))
		lock := seen.takeOnAll(t, locker, 5)
		freeze(c.processes[2:]...)
		require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrNoQuorum)
		seen.waitForVotes(t, "extend", lock.Name(), 5)
		thaw(c.processes[2:]...)
		eventually(t, func() bool { return lock.Extend(t.Context(), 2*long) == nil }, "the nodes are back")
		require.Greater(t, lock.Remaining(), long)
		unlock(t, lock)
	})
}

func TestExtend_ThatItsContextEndsLeavesTheOldDeadline(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Minute
	c := onReal(t, 3)
	locker, seen := c.observed()
	lock := c.everywhere(take(t, locker, "name", redlock.TTL(ttl)))
	before := lock.ValidUntil()
	freeze(c.processes[0], c.processes[1])

	ctx, cancel := context.WithCancelCause(t.Context())
	ended := beside(func() error { return lock.Extend(ctx, long) })
	seen.waitForVotes(t, "extend", "", 1)
	tired := errors.New("tired")
	cancel(tired)
	err := receive(t, ended, "the end of Extend")
	requireIs(t, err, context.Canceled, tired, redlock.ErrNoQuorum)
	require.ErrorIs(t, c.refused(err).Nodes[0].Err, nodeerr.ErrUnanswered)
	require.NoError(t, lock.Err())
	require.Equal(t, before, lock.ValidUntil())
	thaw(c.processes[0], c.processes[1])
	require.NoError(t, lock.Extend(t.Context(), long), "and it can be extended again")
	unlock(t, lock)
}

func TestExtend_OnAContextThatHasEndedSendsNothing(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		lock := take(t, c.locker(redlock.WithObserver(seen)), "name")
		for range 20 {
			require.ErrorIs(t, lock.Extend(over(t), long), context.Canceled)
		}
		require.Empty(t, seen.votesOn("extend", ""))
		require.NoError(t, lock.Err())
	})
}

// losing breaks the connections to some servers when the reply to a command with that word in it comes in: the server
// has carried it out, and nobody here knows. Each time that lose is set to true this happens once to each of them.
func (c *cluster) losing(word string, lose map[int]*atomic.Bool) pool.Option {
	return throughWires(func(address string, w *tapped) {
		i := slices.IndexFunc(c.servers, func(s testredis.Server) bool { return s.Addr() == address })
		armed := lose[i]
		if armed == nil {
			return
		}
		var asked atomic.Bool
		w.wrote = func(p []byte) {
			if bytes.Contains(p, []byte(word)) && armed.CompareAndSwap(true, false) {
				asked.Store(true)
			}
		}
		w.gotten = func([]byte) bool { return !asked.Load() }
	})
}

// The danger: a lost reply taken for a "no", after which the key would stay, or for a "yes".
func TestTryLock_ALostReplyIsNoYesAndItsKeyDoesNotStay(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lose := map[int]*atomic.Bool{0: {}, 2: {}}
		locker, seen := observed(t, c.nodes(c.losing("\r\nNX\r\n", lose)))
		seen.connect(t, locker, 3)
		for range 3 {
			for _, armed := range lose {
				armed.Store(true)
			}
			_, err := locker.TryLock(t.Context(), "name")
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "one of three has said yes")
			refusal := c.refused(err, not{redlock.ErrTaken})
			for _, i := range []int{0, 2} {
				require.ErrorIs(t, refusal.Nodes[i].Err, nodeerr.ErrBroken)
				require.False(t, lose[i].Load())
			}
			for _, v := range seen.votesOn("acquire", "name") {
				if v.Node != 1 {
					require.Contains(t, []protocol.Answer{protocol.AnswerUnknown, protocol.AnswerUnsent}, v.Answer)
				}
			}
			seen.connect(t, locker, 3)
			c.eventuallyEmpty() // the releases go out again on the new connections
		}
	})
}

func TestTryLock_WinsDespiteALostReplyAndReleasesThere(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lose := map[int]*atomic.Bool{1: {}}
		locker, seen := observed(t, c.nodes(c.losing("\r\nNX\r\n", lose)))
		seen.connect(t, locker, 3)
		lose[1].Store(true)
		lock := c.everywhere(take(t, locker, "name"))
		seen.waitForVotes(t, "acquire", "name", 3)
		require.Equal(t, protocol.AnswerUnknown, seen.votesOn("acquire", "name")[1].Answer)
		unlock(t, lock)
		c.eventuallyEmpty()
	})
}

func TestUnlock_WhoseReplyIsLostIsUnknownAndDoneAllTheSame(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lose := map[int]*atomic.Bool{0: {}, 1: {}}
		locker, _ := observed(t, c.nodes(c.losing("\r\nEVAL", lose)))
		lock := c.everywhere(take(t, locker, "name"))
		for _, armed := range lose {
			armed.Store(true)
		}
		_ = c.refused(lock.Unlock(t.Context()), redlock.ErrNoQuorum, nodeerr.ErrBroken)
		c.eventuallyEmpty()
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
	})
}

// A failed extension is not taken back, and what it left longer goes with the lock.
func TestExtend_ThatFailedLeavesNothingBehindWhenTheLockEnds(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := c.observed()
	lock := seen.takeOnAll(t, locker, 3, redlock.TTL(2*time.Second))
	for i := range 2 {
		c.servers[i].Stop()
	}
	until := lock.ValidUntil()
	require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrNoQuorum)
	require.Equal(t, until, lock.ValidUntil())
	eventually(t, func() bool { return c.ttl(2, lock.Name()) > 2*time.Second }, "server 2 keeps it longer than before")
	require.NoError(t, lock.Err())
	receive(t, lock.Done(), "the end of the lock")
	require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
	eventually(t, func() bool { return c.ttl(2, lock.Name()) <= 0 }, "server 2 has let go of it")
}

// A server that has lost its scripts is sent the extension again, behind the release that came after it.
func TestExtend_ThatIsSentAgainMakesNoKeyOfALockThatWasReleased(t *testing.T) {
	t.Parallel()
	c, seen := onReal(t, 3), &recorder{}
	var plants, releases atomic.Int64
	nodes := c.nodes(throughWires(func(_ string, w *tapped) {
		w.wrote = func(p []byte) {
			plants.Add(int64(bytes.Count(p, []byte(scripts["extend"].Hash))))
			releases.Add(int64(bytes.Count(p, []byte(scripts["release"].Hash))))
		}
	}))
	locker := lockerOver(t, nodes, redlock.WithObserver(seen))
	seen.connect(t, locker, 3) // the release is known to all
	lock := c.everywhere(take(t, locker, "name"))
	require.NoError(t, lock.Extend(t.Context(), 2*long)) // and so is the extension
	seen.waitForVotes(t, "extend", "name", 3)
	plants.Store(0)
	releases.Store(0)
	c.doAll("SCRIPT", "FLUSH")
	// The release is known again, so that it does not come later as well.
	c.doAll("SCRIPT", "LOAD", scripts["release"].Source)
	freeze(c.processes...)
	ends := make(chan error, 2)
	go func() { ends <- lock.Extend(t.Context(), 3*long) }()
	eventually(t, func() bool { return plants.Load() == 3 }, "the extension is on its way")
	go func() { ends <- lock.Unlock(t.Context()) }()
	eventually(t, func() bool { return releases.Load() == 3 }, "and the release behind it")
	thaw(c.processes...)
	for range 2 {
		_ = receive(t, ends, "the end")
	}
	seen.waitForVotes(t, "extend", "name", 6)
	require.Equal(t, 3, c.holding("name", ""))
}

// split makes the first rounds of two contenders for four servers end in a draw: each gets the servers that are its own
// before the other asks them, and learns that it did not get the others when both have asked everywhere.
type split struct{ taken, asked sync.WaitGroup }

func newSplit() *split {
	s := &split{}
	s.taken.Add(4)
	s.asked.Add(4)
	return s
}

// contender is the option for the contender that has two of the servers for its own.
func (s *split) contender(c *cluster, own ...int) pool.Option {
	return throughWires(func(address string, w *tapped) {
		isOwn := slices.ContainsFunc(own, func(i int) bool { return c.servers[i].Addr() == address })
		var asked atomic.Bool
		var answered sync.Once
		w.wrote = func(p []byte) {
			if bytes.Contains(p, []byte("\r\nNX\r\n")) && asked.CompareAndSwap(false, true) && !isOwn {
				s.taken.Wait()
			}
		}
		w.gotten = func([]byte) bool {
			if asked.Load() {
				answered.Do(func() {
					if isOwn {
						s.taken.Done()
						return
					}
					s.asked.Done()
					s.asked.Wait()
				})
			}
			return true
		}
	})
}

// The danger: a split vote that never resolves. Both contenders get two of four nodes in their first round.
func TestLock_ASplitVoteDoesNotLastForEver(t *testing.T) {
	onBoth(t, 4, func(t *testing.T, c *cluster) {
		draw := newSplit()
		var both sync.WaitGroup
		for _, contender := range []pool.Option{draw.contender(c, 0, 1), draw.contender(c, 2, 3)} {
			locker, seen := c.waiting(c.nodes(contender), redlock.WithBackoff(5*time.Millisecond, 50*time.Millisecond))
			both.Go(func() {
				lock, err := locker.Lock(t.Context(), "name")
				if !assert.NoError(t, err) {
					return
				}
				locker.Drain()
				if first := seen.verdictsOn("acquire")[0]; !errors.Is(first.Err, redlock.ErrTaken) {
					t.Errorf("the vote was not split: %v", first.Err)
				}
				assert.NoError(t, lock.Unlock(t.Context()))
			})
		}
		both.Wait()
	})
}
