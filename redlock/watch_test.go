package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// renewedOnce returns a lock on real servers that was renewed once, so that its key is tracked. By the fake no further renewal
// is due.
func renewedOnce(t *testing.T, c *cluster, opts ...redlock.Option) (lock *redlock.Lock, fake *clocktest.Fake) {
	t.Helper()
	fake, seen := clocktest.New(), &recorder{}
	locker := c.locker(append(opts, redlock.WithClock(fake), redlock.WithObserver(seen))...)
	lock = take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.AutoExtend())
	seen.waitForVotes(t, "acquire", "name", len(c.servers))
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	seen.waitForVotes(t, "extend", "name", len(c.servers))
	c.eventuallyTracked()
	return lock, fake
}

// The danger: a holder that works on beside the next for a third of the TTL.
func TestAutoExtend_ALockThatIsDeletedIsLostAtOnce(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]redlock.Option{nil, {redlock.WithFencing()}} {
		for how, lose := range map[string]func(*cluster){
			"by hand":       func(c *cluster) { c.doAll("DEL", "name") },
			"on a majority": func(c *cluster) { c.do(0, "DEL", "name"); c.do(2, "UNLINK", "name"); c.do(4, "DEL", "name") },
			"by an operator": func(c *cluster) {
				require.NoError(t, errOf(c.locker().ForceUnlock(context.Background(), "name")))
			},
			"with all keys":     func(c *cluster) { c.doAll("FLUSHALL") },
			"with its database": func(c *cluster) { c.doAll("FLUSHDB", "ASYNC") },
			"by an overwrite":   func(c *cluster) { c.doAll("SET", "name", "another's", "PX", 100_000) },
			"by data":           func(c *cluster) { c.doAll("DEL", "name"); c.doAll("RPUSH", "name", "data") },
			"by a new name": func(c *cluster) {
				c.mayLeave()
				c.do(0, "RENAME", "name", "x")
				c.do(1, "RENAME", "name", "x")
				c.do(2, "RENAME", "name", "x")
			},
			"by its expiry": func(c *cluster) { c.doAll("PEXPIRE", "name", 1) },
			"by eviction": func(c *cluster) {
				c.doAll("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
				c.doAll("CONFIG", "SET", "maxmemory", 1)
			},
		} {
			t.Run(fmt.Sprintf("%s, %d options", how, len(opts)), func(t *testing.T) {
				t.Parallel()
				c := onReal(t, 5)
				lock, _ := renewedOnce(t, c, opts...)
				ctx := contextOf(t, lock)
				lose(c)
				receive(t, ctx.Done(), "the end of the context, while the clock stands still")
				require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
				err := lock.Unlock(t.Context())
				require.True(t, errors.Is(err, redlock.ErrNotHeld) || errors.Is(err, nodeerr.ErrForeign), err)
			})
		}
	}
}

func TestAutoExtend_ALockThatAMajorityHoldsIsNotLost(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	lock, fake := renewedOnce(t, c)
	observed := func() int { return c.calls("eval") } // extensions go by their hashes
	for range 3 {
		for name, change := range map[string]func(){
			"on a minority it is deleted": func() { c.do(0, "DEL", "name"); c.do(1, "DEL", "name") },
			"it is made longer":           func() { c.doAll("PEXPIRE", "name", 10_000_000) },
			"it is made to stay":          func() { c.doAll("PERSIST", "name") },
			"it is set again":             func() { c.doAll("SET", "name", lock.Token(), "XX", "KEEPTTL") },
			"two nodes forget all":        func() { c.do(3, "FLUSHALL"); c.do(4, "FLUSHALL") },
		} {
			before := observed()
			change()
			eventually(t, func() bool { return observed() >= before+2 }, "what is pushed is looked into: %s", name)
			c.settled()
			require.NoError(t, lock.Err(), name)
			lock.Remaining()
			require.NoError(t, lock.Extend(t.Context(), 31*time.Minute), "which gives it back to those that lost it")
			c.eventuallyHeld("name", lock.Token())
			c.settled()
			require.NoError(t, lock.Extend(t.Context(), 31*time.Minute), "from which on they count")
		}
	}
	fake.Advance(time.Second)
	require.NoError(t, lock.Unlock(t.Context()))
	c.eventuallyEmpty()
}

// The server tells the connection that comes across an expired key least of all that it is gone.
func TestAutoExtend_ALockThatTheProcessItselfTakesAwayIsLost(t *testing.T) {
	t.Parallel()
	c := onReal(t, 5)
	c.doAll("CONFIG", "SET", "hz", 1) // expired keys stay for long, unless a command comes across them
	nodes := c.nodes()
	locker, fake, seen := timed(t, nodes)
	other := lockerOver(t, nodes)
	for i := range 20 {
		name := fmt.Sprint("name", i)
		lock := take(t, locker, name, redlock.TTL(30*time.Minute), redlock.AutoExtend())
		seen.waitForVotes(t, "acquire", name, len(c.servers))
		nextAt(t, fake, renewalIn(0, 30*time.Minute))
		seen.waitForVotes(t, "extend", name, len(c.servers))
		c.doAll("PEXPIRE", name, 20)
		var next *redlock.Lock
		eventually(t, func() (taken bool) {
			var err error
			next, err = other.TryLock(t.Context(), name)
			return err == nil
		}, "the lock is taken by another")
		receive(t, lock.Done(), "the loss")
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
		require.NoError(t, next.Unlock(t.Context()))
		_ = lock.Unlock(t.Context())
	}
}

// When no renewal is to come any more, the pushes are all that is left.
func TestAutoExtend_ALockThatMaxHoldEndsIsWatchedUntilThen(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := c.timed(redlock.WithDrift(0, 0))
	lock := take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.AutoExtend(), redlock.MaxHold(35*time.Minute))
	for i := range 2 {
		nextAt(t, fake, renewalIn(i, 30*time.Minute))
		seen.waitForVotes(t, "extend", "name", 3*(i+1))
	}
	require.Less(t, lock.Remaining(), 30*time.Minute, "it is renewed no more")
	c.doAll("DEL", "name")
	receive(t, lock.Done(), "the loss")
	require.ErrorIs(t, lock.Err(), redlock.ErrLost)
}

// A lock that its holder has extended by more than a renewal would is not renewed for long.
func TestAutoExtend_ALockThatItsHolderHasExtendedIsWatched(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := c.timed()
	take(t, locker, "first", redlock.TTL(30*time.Minute), redlock.AutoExtend()) // from here on the nodes track
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	seen.waitForVotes(t, "extend", "first", 3)
	lock := take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.AutoExtend())
	seen.waitForVotes(t, "acquire", "name", 3)
	require.NoError(t, lock.Extend(t.Context(), 2*time.Hour))
	before := c.calls("eval")
	fake.Advance(renewalIn(0, 30*time.Minute))
	eventually(t, func() bool { return c.calls("eval") >= before+3 }, "its key is observed")
	c.settled()
	c.doAll("DEL", "name")
	receive(t, lock.Done(), "the loss")
	require.ErrorIs(t, lock.Err(), redlock.ErrLost)
}

// The steady state: a renewal is one command and its preface, nothing is pushed, and nothing observed.
func TestAutoExtend_ObservesNothingThatTheHolderItselfChanges(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := c.timed()
	take(t, locker, "name", redlock.TTL(30*time.Minute), redlock.AutoExtend())
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	c.settled()
	before := c.calls("eval", "client|caching")
	for i := range 20 {
		nextAt(t, fake, renewalIn(i+1, 30*time.Minute))
		seen.waitForVotes(t, "extend", "name", 3*(i+2))
	}
	require.LessOrEqual(t, c.calls("eval", "client|caching"), before+3*20+3, "extensions go by their hashes")
}

// The danger: each observation has another key pushed, without end.
func TestAutoExtend_AServerThatTracksFewKeysIsLeftInPeace(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	c.doAll("CONFIG", "SET", "tracking-table-max-keys", 1)
	locker, fake, seen := c.timed()
	var locks []*redlock.Lock
	for i := range 20 {
		locks = append(locks, take(t, locker, fmt.Sprint(i), redlock.TTL(30*time.Minute), redlock.AutoExtend()))
	}
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	eventually(t, func() bool { return seen.renewals() == len(locks) }, "all are renewed")
	require.LessOrEqual(t, c.settled(), 3*len(locks)*8)
	for _, lock := range locks {
		require.NoError(t, lock.Err())
	}
}

// After a flush all keys of a node are observed, a bounded number at a time.
func TestAutoExtend_AllLocksThatAreFlushedAreLost(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, fake, seen := timed(t, c.nodes(pool.WithTimeout(long)))
	const many = 1500
	var locks []*redlock.Lock
	for i := range many {
		locks = append(locks, take(t, locker, fmt.Sprint(i), redlock.TTL(30*time.Minute), redlock.AutoExtend()))
	}
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	eventually(t, func() bool { return seen.renewals() == many }, "all are renewed")
	c.doAll("FLUSHALL")
	for _, lock := range locks {
		receive(t, lock.Done(), "its loss")
		require.ErrorIs(t, lock.Err(), redlock.ErrLost)
	}
}

// The danger: a goroutine for each push, of which a neighbour has the server send as many as it likes.
func TestAutoExtend_ManyFlushesStartNoGoroutineEach(t *testing.T) {
	c := onReal(t, 1)
	locker, fake, seen := timed(t, c.nodes(pool.WithTimeout(long)))
	const many = 500
	for i := range many {
		take(t, locker, fmt.Sprint(i), redlock.TTL(30*time.Minute), redlock.AutoExtend())
	}
	nextAt(t, fake, renewalIn(0, 30*time.Minute))
	eventually(t, func() bool { return seen.renewals() == many }, "all are renewed")
	c.settled()
	before, most := runtime.NumGoroutine(), 0
	for range 100 {
		c.do(0, "EVAL", "redis.call('SELECT', 9) for i = 1, 200 do redis.call('FLUSHDB') end", 0)
		most = max(most, runtime.NumGoroutine())
	}
	require.Less(t, most, before+100)
}

// What the late votes of an extension that was given up show, and have left behind, is cleaned up all the same.
func TestExtend_ALockThatLateVotesShowToBeLostLeavesNoKey(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := lockerOver(t, c.nodes(pool.WithTimeout(long), pool.WithMaxOverdue(long)))
	lock := c.everywhere(take(t, locker, "name", redlock.TTL(long)))
	c.do(0, "DEL", "name")
	for i := range 2 {
		c.do(i+1, "SET", "name", "another's", "PX", long.Milliseconds())
	}
	freeze(c.processes...)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, lock.Extend(ctx, long), redlock.ErrNoQuorum)
	thaw(c.processes...)
	receive(t, lock.Done(), "the loss")
	require.ErrorIs(t, lock.Err(), redlock.ErrLost)
	eventually(t, func() bool { return c.holding("name", lock.Token()) == 0 }, "what was given again is released")
}
