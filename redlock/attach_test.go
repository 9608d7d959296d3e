package redlock_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// attach takes up a lock in a Locker of its own, as another process would. The test releases one of the two.
func (c *cluster) attach(lock *redlock.Lock, opts ...redlock.LockOption) *redlock.Lock {
	c.tb.Helper()
	attached := must(c.locker().Attach(c.tb.Context(), lock.Name(), lock.Token(), opts...))(c.tb)
	return attached
}

func TestAttach_TakesUpALockByItsToken(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		lock := c.everywhere(take(t, c.locker(), "name", redlock.TTL(time.Minute)))
		attached := c.attach(lock)
		require.Equal(t, "name", attached.Name())
		require.Equal(t, lock.Token(), attached.Token())
		require.NoError(t, attached.Err())
		require.Greater(t, attached.Remaining(), 20*time.Second)
		require.LessOrEqual(t, attached.Remaining(), time.Minute, "what is left, and no more")

		require.NoError(t, attached.Extend(t.Context(), long))
		c.each(func(i int) { eventually(t, func() bool { return c.ttl(i, "name") > long/2 }, "server %d", i) })
		require.Less(t, lock.Remaining(), 2*time.Minute, "who held it before does not notice")
		unlock(t, attached)
		require.ErrorIs(t, attached.Err(), redlock.ErrReleased)
		c.eventuallyEmpty()
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

func TestAttach_RenewsTheLockThatItTookUp(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock, fake := c.everywhere(take(t, c.locker(), "name", redlock.TTL(10*time.Minute))), clocktest.New()
		attached := got(c.locker(redlock.WithClock(fake)).Attach(t.Context(), "name", lock.Token(), redlock.RenewFor(redlock.NoLimit), redlock.TTL(30*time.Minute)))(t)
		require.LessOrEqual(t, attached.Remaining(), 10*time.Minute)
		fake.Advance(attached.Remaining() - 1)
		eventually(t, func() bool { return attached.Remaining() > 15*time.Minute }, "a renewal")
		c.each(func(i int) { eventually(t, func() bool { return c.ttl(i, "name") > 20*time.Minute }, "server %d", i) })
		require.NoError(t, attached.Err())
		unlock(t, attached)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

func TestAttach_GivesTheLeastTTLOfAMajority(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	locker, fake, _ := c.timed(redlock.WithDrift(0, 0))
	for i, ttl := range []time.Duration{20 * time.Minute, 40 * time.Minute, time.Minute} {
		c.do(i, "SET", "name", "token", "PX", ttl.Milliseconds())
	}
	c.servers[2].Stop()
	lock := got(locker.Attach(t.Context(), "name", "token"))(t)
	require.LessOrEqual(t, lock.Remaining(), 20*time.Minute)
	require.Greater(t, lock.Remaining(), 15*time.Minute)
	fake.Advance(20 * time.Minute)
	require.ErrorIs(t, lock.Err(), redlock.ErrExpired)
}

func TestAttach_TakesUpALockWithoutATTL(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.doAll("SET", "name", "token")
		lock := got(c.locker().Attach(t.Context(), "name", "token"))(t)
		require.Greater(t, lock.Remaining(), 23*time.Hour, "the longest TTL")
		unlock(t, lock)
		c.eventuallyEmpty()
	})
}

func TestAttach_RefusesWhatIsNotHeld(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := c.everywhere(take(t, c.locker(), "name"))
		refused := func(name string, token redlock.Token) []redlock.NodeError {
			t.Helper()
			attached, err := locker.Attach(t.Context(), name, token)
			require.Nil(t, attached)
			refusal := c.refused(err, redlock.ErrNotHeld)
			require.Equal(t, "attach", refusal.Op)
			return refusal.Nodes
		}
		held := 0
		for _, node := range refused("name", "another token") {
			if node.Err == nodeerr.ErrHeld { //nolint:errorlint // the very error is meant
				held++
			}
		}
		require.GreaterOrEqual(t, held, 3)
		refused("name", lock.Token()[:8]) // no part of a token is a token
		refused("another name", lock.Token())
		c.doFirst(3, "DEL", "name")
		refused("name", lock.Token()) // a minority has it
		c.doAll("SET", "short", "token", "PX", 2)
		require.ErrorIs(t, errOf(locker.Attach(t.Context(), "short", "token")), redlock.ErrNotHeld)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
	})
}

func TestAttach_ToALockWithoutValidityDoesNotReportThatTheNodesSaidYes(t *testing.T) {
	onBoth(t, 1, func(t *testing.T, c *cluster) {
		c.do(0, "SET", "name", "token", "PX", time.Minute.Milliseconds())
		_, err := c.locker(redlock.WithDrift(0, 2*time.Minute), redlock.TTL(long)).Attach(t.Context(), "name", "token")
		require.ErrorIs(t, err, redlock.ErrNotHeld)
		require.ErrorContains(t, err, "no validity is left")
		require.NotContains(t, err.Error(), "nodes said yes")
	})
}

func TestAttach_WithoutAMajorityOfAnswersTakesUpNothing(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock, locker := c.everywhere(take(t, c.locker(), "name")), c.locker()
		freeze(c.processes...)
		if c.processes != nil {
			requireIs(t, errOf(locker.Attach(briefly(t), "name", lock.Token())), context.DeadlineExceeded, redlock.ErrNoQuorum)
		}
		thaw(c.processes...)
		kill(c.servers[0], c.servers[1])
		_, err := locker.Attach(t.Context(), "name", lock.Token())
		_ = c.refused(err, redlock.ErrNoQuorum)
		_ = lock.Unlock(t.Context())
	})
}

// A process that goes on as the owner gets the messages of the processes that wait for the lock.
func TestAttach_AsTheOwnerHearsWhoWaits(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	held := detach(t, c.everywhere(take(t, c.locker(), "name")))
	owner := token.Owner(string(held))
	_ = must(c.locker().Attach(t.Context(), "name", held))(t) // not as the owner
	lock := got(c.locker(token.Self(owner)).Attach(t.Context(), "name", held))(t)
	for i := range c.servers {
		eventually(t, func() bool { return testredis.Subscribers(t, c.servers[i], form.OwnerChannel(owner)) == 1 },
			"the process listens on node %d", i)
	}
	unlock(t, lock)
}

func TestDetach_HandsTheLockOverByItsToken(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		first, fake, seen := c.timed()
		lock := take(t, first, "name", redlock.TTL(30*time.Minute), redlock.RenewFor(redlock.NoLimit))
		seen.renewed(t, fake, 0, 30*time.Minute)
		seen.waitForVotes(t, "extend", "name", 3) // else a node may carry it out behind the release
		token := detach(t, lock)
		require.Equal(t, lock.Token(), token)
		receive(t, lock.Done(), "the end of the first handle")
		require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrReleased)
		require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrReleased)
		require.ErrorIs(t, errOf(lock.Detach(t.Context())), redlock.ErrReleased)
		first.Drain()
		sent := len(seen.verdictsOn("extend")) + len(seen.verdictsOn("unlock"))

		same := got(c.locker().Attach(t.Context(), "name", token))(t)
		require.NoError(t, same.Extend(t.Context(), long))
		fake.Advance(30 * time.Minute) // the first one's lease would be over
		if c.processes != nil {
			c.settled()
		}
		require.NoError(t, same.Err())
		require.GreaterOrEqual(t, c.holding("name", token), 2)
		require.Equal(t, sent, len(seen.verdictsOn("extend"))+len(seen.verdictsOn("unlock")), "the first sends nothing more")
		unlock(t, same)
	})
}

func TestDetach_RefusesALockThatOtherHandlesHold(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		lock := take(t, locker, "name")
		ctx := contextOf(t, lock)
		inner := got(locker.TryLock(ctx, "name", redlock.Reentrant()))(t)
		require.ErrorIs(t, errOf(lock.Detach(t.Context())), redlock.ErrInvalid)
		require.NoError(t, lock.Err())
		unlock(t, inner)
		c.mayLeave()
		detach(t, lock)
	})
}

func TestDetach_AfterAFailedExtensionLeavesTheLockToTheNextHolder(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := c.observed()
	seen.connect(t, locker, 3)
	lock := c.everywhere(take(t, locker, "name", redlock.TTL(long)))
	freeze(c.processes[:2]...)
	ctx := within(t, 100*time.Millisecond)
	require.ErrorIs(t, lock.Extend(ctx, 2*long), redlock.ErrNoQuorum)
	token := detach(t, lock)
	thaw(c.processes[:2]...)
	var next *redlock.Lock
	eventually(t, func() (attached bool) {
		var err error
		next, err = c.locker().Attach(t.Context(), "name", token)
		return err == nil
	}, "the lock is taken up")
	require.NoError(t, next.Extend(t.Context(), 3*long))
	unlock(t, next)
}

// The danger: a node sets the key behind the Unlock of the next process, and keeps it for its TTL.
func TestDetach_WaitsForTheNodesThatHaveNotAnsweredTheAcquire(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(l *redlock.Locker) (*redlock.Lock, error){
		"Lock": func(l *redlock.Locker) (*redlock.Lock, error) { return l.TryLock(t.Context(), "name") },
		"Shared": func(l *redlock.Locker) (*redlock.Lock, error) {
			return l.TryLock(t.Context(), "name", redlock.Shared())
		},
		"LockAll": func(l *redlock.Locker) (*redlock.Lock, error) {
			locks, err := l.TryLockAll(t.Context(), []string{"name", "other"})
			if err != nil {
				return nil, err
			}
			require.NoError(t, locks.Get("other").Unlock(t.Context()))
			return locks.Get("name"), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := onReal(t, 3)
			locker := lockerOver(t, c.nodes(pool.WithTimeout(time.Minute)))
			unlock(t, c.everywhere(got(locker.TryLock(t.Context(), "name"))(t))) // all nodes are connected then
			c.eventuallyEmpty()
			freeze(c.processes[2])
			lock := got(take(locker))(t)
			detached := beside(func() error { return errOf(lock.Detach(t.Context())) })
			select {
			case err := <-detached:
				t.Errorf("it returned though a node may set the key later: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			thaw(c.processes[2])
			require.NoError(t, receive(t, detached, "the end of Detach"))
			require.EqualValues(t, 1, c.do(2, "EXISTS", "name"))
			unlock(t, c.attach(lock))
		})
	}
}

// A node that is down may take the dial timeout: the lock could be over by then.
func TestDetach_DoesNotWaitForANodeThatOnlyConnects(t *testing.T) {
	t.Parallel()
	c := onReal(t, 2)
	away := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	down := open(t, []string{"redis://127.0.0.1:1"}, pool.WithDialer(away), pool.WithDialTimeout(time.Hour), pool.WithTimeout(time.Second))
	nodes := append(open(t, testredis.URLs(c.servers), pool.WithTimeout(time.Second)), down...)
	locker := lockerOver(t, nodes)
	for name, take := range map[string]func() (*redlock.Lock, error){
		"an exclusive lock": func() (*redlock.Lock, error) { return locker.TryLock(t.Context(), "name", redlock.TTL(long)) },
		"a shared lock": func() (*redlock.Lock, error) {
			return locker.TryLock(t.Context(), "other", redlock.TTL(long), redlock.Shared())
		},
	} {
		lock := got(take())(t)
		detached := beside(func() error { return errOf(lock.Detach(t.Context())) })
		require.NoError(t, receive(t, detached, "the end of Detach: "+name))
		unlock(t, c.attach(lock))
	}
}

func TestDetach_ReleasesWhatANodeGrantsWhenTheLockIsOver(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := lockerOver(t, c.nodes(pool.WithTimeout(100*time.Millisecond), pool.WithMaxOverdue(time.Hour)))
	unlock(t, c.everywhere(take(t, locker, "name")))
	c.eventuallyEmpty()
	freeze(c.processes[2])
	lock := take(t, locker, "name", redlock.TTL(long))
	token := detach(t, lock)
	next := c.opened()
	unlock(t, got(next.Attach(t.Context(), "name", token))(t))
	require.NoError(t, next.Close(), "with its release to the node that does not answer")
	thaw(c.processes[2]) // it sets the key now; that this goes away is checked at the end
}

// By the fake clock no TTL ends and nobody polls: only the release wakes the waiter.
func TestDetach_LeavesTheCallsThatWaitHereToTheReleaseElsewhere(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(tb testing.TB, locker *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock{
		"Lock": waits, "TryLock": take,
	} {
		for where, elsewhere := range map[string]bool{"another Locker": true, "the same Locker": false} {
			t.Run(name+", released by "+where, func(t *testing.T) {
				t.Parallel()
				c := onReal(t, 3)
				locker := c.locker(redlock.WithClock(clocktest.New()), noPolls)
				other := locker
				if elsewhere {
					other = c.locker()
				}
				lock := take(t, locker, "name")
				before := inLine(t, locker)
				c.settled()
				token := detach(t, lock)
				after := inLine(t, locker)
				same := got(other.Attach(t.Context(), "name", token))(t)
				c.eventuallyTracked()
				c.settled()
				require.Empty(t, before, "it is held")
				unlock(t, same)
				unlock(t, won(t, before))
				unlock(t, won(t, after))
			})
		}
	}
}

// Whoever comes when the lock has been released elsewhere finds it free, whatever the Locker that detached had been granted.
func TestDetach_LeavesNothingToThoseWhoComeLater(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(redlock.WithClock(clocktest.New()))
		lock := c.everywhere(waits(t, locker, "name"))
		token := detach(t, lock)
		unlock(t, got(c.locker().Attach(t.Context(), "name", token))(t))
		c.eventuallyEmpty()
		won(t, lockBeside(t.Context(), locker, "name"))
	})
}
