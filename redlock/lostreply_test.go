package redlock_test

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// losing breaks the connections to some servers when the reply to a command with that word in it comes in: the server
// has carried it out, and nobody here knows. Each time that lose is set to true this happens once to each of them.
func (c *cluster) losing(word string, lose map[int]*atomic.Bool) pool.Option {
	return throughWires(func(address string, w *wire) {
		i := slices.IndexFunc(c.servers, func(s redistest.Server) bool { return s.Addr() == address })
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

// Trap 6: a lost reply taken for a "no", after which the key would stay, or for a "yes".
func TestALostReplyIsNoYesAndItsKeyDoesNotStay(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lose := map[int]*atomic.Bool{0: {}, 2: {}}
		seen := &recorder{}
		locker := lockerOver(t, c.nodes(c.losing("\r\nSET\r\n", lose)), redlock.WithObserver(seen))
		seen.connect(t, locker, 3)
		for range 3 {
			for _, armed := range lose {
				armed.Store(true)
			}
			_, err := locker.TryLock(t.Context(), "name")
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "one of three has said yes")
			require.NotErrorIs(t, err, redlock.ErrTaken)
			refusal := c.refused(err)
			for _, i := range []int{0, 2} {
				require.ErrorIs(t, refusal.Nodes[i].Err, pool.ErrBroken)
				require.False(t, lose[i].Load())
			}
			for _, v := range seen.votesOn("acquire", "name") {
				if v.Node != 1 {
					require.Contains(t, []pool.Answer{pool.Maybe, pool.Unsent}, v.Answer)
				}
			}
			seen.connect(t, locker, 3)
			c.eventuallyEmpty() // the releases go out again on the new connections
		}
	})
}

func TestALockIsWonDespiteALostReplyAndReleasedThere(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lose := map[int]*atomic.Bool{1: {}}
		seen := &recorder{}
		locker := lockerOver(t, c.nodes(c.losing("\r\nSET\r\n", lose)), redlock.WithObserver(seen))
		seen.connect(t, locker, 3)
		lose[1].Store(true)
		lock := take(t, locker, "name")
		c.eventuallyHeld("name", lock.Token())
		seen.waitForVotes(t, "acquire", "name", 3)
		require.Equal(t, pool.Maybe, seen.votesOn("acquire", "name")[1].Answer)
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestAReleaseWhoseReplyIsLostIsUnknownAndDoneAllTheSame(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lose := map[int]*atomic.Bool{0: {}, 1: {}}
		seen := &recorder{}
		locker := lockerOver(t, c.nodes(c.losing("\r\nEVAL", lose)), redlock.WithObserver(seen))
		lock := take(t, locker, "name")
		c.eventuallyHeld("name", lock.Token())
		for _, armed := range lose {
			armed.Store(true)
		}
		err := lock.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, pool.ErrBroken)
		_ = c.refused(err)
		c.eventuallyEmpty()
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
	})
}
