package redlock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestALockIsItsTokenUnderItsNameOnEveryNode(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			onBoth(t, n, func(t *testing.T, c *cluster) {
				lock := take(t, c.locker(), "name")
				require.Equal(t, "name", lock.Name())
				require.GreaterOrEqual(t, len(lock.Token()), 20)
				require.NoError(t, lock.Err())
				c.eventuallyHeld("name", lock.Token())

				require.NoError(t, lock.Unlock(t.Context()))
				require.ErrorIs(t, lock.Err(), redlock.ErrReleased)
				c.eventuallyEmpty()
			})
		})
	}
}

func TestALockThatIsHeldIsTakenForEveryoneElse(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker, other := c.locker(), c.locker()
		lock := take(t, locker, "name")
		c.eventuallyHeld("name", lock.Token())

		for _, contender := range []*redlock.Locker{locker, other} {
			_, err := contender.TryLock(t.Context(), "name")
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NotErrorIs(t, err, redlock.ErrNoQuorum)
			refusal := c.refused(err)
			require.Equal(t, "acquire", refusal.Op)
			require.Equal(t, "name", refusal.Name)
			held := 0
			for _, node := range refusal.Nodes {
				require.Error(t, node.Err, "nobody said yes")
				if !errors.Is(node.Err, redlock.ErrPending) {
					require.ErrorIs(t, node.Err, pool.ErrHeld)
					held++
				}
			}
			require.GreaterOrEqual(t, held, 3)
		}
		require.Equal(t, 5, c.holding("name", lock.Token()), "the clean-up of the losers has left it alone")

		otherLock := take(t, other, "another name")
		require.NoError(t, otherLock.Unlock(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

func TestALockIsFreeForEveryoneAtOnceAfterItsRelease(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5} {
		t.Run(fmt.Sprintf("N=%d", n), func(t *testing.T) {
			onBoth(t, n, func(t *testing.T, c *cluster) {
				lockers := []*redlock.Locker{c.locker(), c.locker()}
				for i := range 50 {
					lock := take(t, lockers[i/2%2], "name") // each Locker twice in a row
					require.NoError(t, lock.Unlock(t.Context()))
				}
				c.eventuallyEmpty()
			})
		})
	}
}

func TestALockThatHasExpiredIsFreeForOthers(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		first := take(t, c.locker(), "name", redlock.TTL(100*time.Millisecond))
		receive(t, first.Done(), "the deadline")
		require.ErrorIs(t, first.Err(), redlock.ErrExpired)

		second, err := c.locker().Lock(t.Context(), "name")
		require.NoError(t, err)
		held := c.holding("name", second.Token()) // the first may still be on one of them
		require.GreaterOrEqual(t, held, 2)

		require.ErrorIs(t, first.Unlock(t.Context()), redlock.ErrNotHeld)
		require.ErrorIs(t, first.Err(), redlock.ErrExpired, "the first ending stays")
		require.GreaterOrEqual(t, c.holding("name", second.Token()), held)
		require.NoError(t, second.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestTheTTLOfACallGoesToTheNodes(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(redlock.WithTTL(10 * time.Minute))
		standard := take(t, locker, "standard")
		shorter := take(t, locker, "shorter", redlock.TTL(time.Minute), redlock.TTL(5*time.Minute))
		c.eventuallyHeld("standard", standard.Token())
		c.eventuallyHeld("shorter", shorter.Token())
		for i := range c.servers {
			require.Greater(t, c.ttl(i, "standard"), 5*time.Minute)
			require.LessOrEqual(t, c.ttl(i, "standard"), 10*time.Minute)
			require.Greater(t, c.ttl(i, "shorter"), time.Minute, "the last option counts")
			require.LessOrEqual(t, c.ttl(i, "shorter"), 5*time.Minute)
		}
		require.Greater(t, standard.Remaining(), 5*time.Minute)
		require.LessOrEqual(t, shorter.Remaining(), 5*time.Minute)
	})
}

func TestThePrefixIsPartOfTheKeyAndNotOfTheName(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(redlock.WithKeyPrefix("app:")), "name")
		c.eventuallyHeld("app:name", lock.Token())
		require.Equal(t, "name", lock.Name())
		require.Equal(t, 3, c.holding("name", ""))

		_, err := c.locker().TryLock(t.Context(), "app:name")
		require.ErrorIs(t, err, redlock.ErrTaken, "the key is all that counts")
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestAKeyOfAnotherClientIsRespectedAndLeftAlone(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for i := range 3 {
			c.do(i, "SET", "name", "theirs", "PX", long.Milliseconds())
		}
		_, err := locker.TryLock(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.Equal(t, 3, c.holding("name", "theirs"))
		eventually(t, func() bool { return c.holding("name", "") == 2 }, "what was taken is given back")

		c.do(0, "DEL", "name")
		lock := take(t, locker, "name") // two of five do not stand in the way
		require.NoError(t, lock.Unlock(t.Context()))
		require.Equal(t, 2, c.holding("name", "theirs"))
		eventually(t, func() bool { return c.holding("name", "") == 3 }, "released where it was held")
	})
}

func TestAKeyWithoutAnyTTLStaysTaken(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.doAll("SET", "name", "forever")
		locker := c.locker()
		for range 3 {
			_, err := locker.TryLock(t.Context(), "name")
			require.ErrorIs(t, err, redlock.ErrTaken)
		}
		require.Equal(t, 3, c.holding("name", "forever"))
		for i := range c.servers {
			require.Negative(t, c.ttl(i, "name"), "it got a TTL")
		}
	})
}

// Trap 26: data of another type under the name is a reason of its own, and is not deleted.
func TestDataOfAnotherTypeIsNamedAndNeverDeleted(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		c.doAll("RPUSH", "name", "a", "b")
		_, err := c.locker().TryLock(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrTaken)
		named := 0
		for _, node := range c.refused(err).Nodes {
			if errors.Is(node.Err, redlock.ErrPending) {
				continue
			}
			var refusal *pool.ServerError
			require.ErrorAs(t, node.Err, &refusal)
			require.Equal(t, "WRONGTYPE", refusal.Code)
			named++
		}
		require.GreaterOrEqual(t, named, 3)
		require.ErrorContains(t, err, "WRONGTYPE")

		for i := range c.servers {
			list, err := redis.Strings(c.do(i, "LRANGE", "name", 0, -1), nil)
			require.NoError(t, err)
			require.Equal(t, []string{"a", "b"}, list)
			require.Negative(t, c.ttl(i, "name"))
		}
	})
}

func TestDataOfAnotherTypeThatReplacedALockIsNeverDeleted(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		lock := take(t, c.locker(), "name")
		c.eventuallyHeld("name", lock.Token())
		c.doAll("DEL", "name")
		c.doAll("RPUSH", "name", "a")

		for _, err := range []error{lock.Extend(t.Context(), long), lock.Unlock(t.Context())} {
			require.ErrorContains(t, err, "WRONGTYPE")
			_ = c.refused(err)
		}
		for i := range c.servers {
			require.EqualValues(t, 1, c.do(i, "LLEN", "name"))
			require.Negative(t, c.ttl(i, "name"))
		}
	})
}
