package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestTryLock_ReportsATokenSourceThatFailsAndSendsNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("no entropy")
	for want, source := range map[string]func() (string, error){
		`redlock: acquire "name": TokenSource: no entropy`:     func() (string, error) { return "token", broken },
		`redlock: acquire "name": TokenSource: an empty token`: func() (string, error) { return "", nil },
	} {
		locker := lockerOver(t, untouched(t), redlock.TokenSource(source))
		require.EqualError(t, errOf(locker.TryLock(t.Context(), "name")), want)
		_, err := locker.Lock(t.Context(), "name")
		require.EqualError(t, err, want)
		require.Equal(t, strings.Contains(want, "entropy"), errors.Is(err, broken))
	}
}

// The danger: one token for several rounds.
func TestToken_IsNotUsedForTwoRounds(t *testing.T) {
	onBothSilent(t, 3, func(t *testing.T, c *cluster) {
		holder := take(t, c.locker(), "name")
		source := &tokens{}
		locker, seen := c.waiting(c.nodes(), redlock.TokenSource(source.next))
		waiter := lockBeside(t.Context(), locker, "name")
		seen.waitForRefusals(t, 5)
		require.NoError(t, holder.Unlock(t.Context()))
		lock := receive(t, waiter, "the lock").lock
		require.NotNil(t, lock)

		eventually(t, func() bool { // the Observer is behind
			all := seen.verdictsOn("acquire")
			return all[len(all)-1].Err == nil
		}, "the last verdict")
		rounds := len(seen.verdictsOn("acquire"))
		given := source.all()
		require.Len(t, given, rounds, "one token for each round")
		require.Equal(t, given[rounds-1], lock.Token())
		for i, token := range given {
			require.NotContains(t, given[:i], token)
		}
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

func TestToken_IsRandomText(t *testing.T) {
	t.Parallel()
	c := onMini(t, 1)
	seen, owners := map[string]bool{}, map[string]bool{}
	for range 2 {
		locker := c.locker()
		for range 100 {
			lock := take(t, locker, "name")
			require.Regexp(t, `^[A-Z2-7]{8}\.[A-Za-z0-9_-]{28}$`, lock.Token(), "8 letters of the Locker, and 21 bytes of its own in base64")
			owner, random, _ := strings.Cut(lock.Token(), ".")
			require.False(t, seen[random])
			seen[random], owners[owner] = true, true
			require.NoError(t, lock.Unlock(t.Context()))
		}
	}
	require.Len(t, owners, 2)
}

// The danger: the release of round i that comes late, on the connection after the one that broke, when round i+1 holds the
// lock on that node already.
func TestToken_TheLateReleaseOfOneRoundDoesNotDeleteTheKeyOfTheNext(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := observed(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(time.Millisecond)))
	seen.connect(t, locker, 3)
	for round := range 3 {
		name := fmt.Sprintf("round %d", round)
		freeze(c.processes[:2]...)
		_, err := locker.TryLock(t.Context(), name) // its releases are pending from here on
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		thaw(c.processes[:2]...)
		lock := waits(t, locker, name)
		seen.connect(t, locker, 3)
		c.each(func(i int) {
			require.Contains(t, []string{lock.Token(), ""}, c.value(i, name), "server %d has the key of the round before", i)
		})
		require.GreaterOrEqual(t, c.holding(name, lock.Token()), 2)
		require.NoError(t, lock.Unlock(t.Context()))
		c.eventuallyEmpty()
	}
}

// The danger: tokens that are compared by prefix.
func TestToken_IsComparedWhole(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		const ours = "token"
		locker := c.locker(redlock.TokenSource(func() (string, error) { return ours, nil }))
		for _, theirs := range []string{"toke", "token2", "tokem", "TOKEN", " token", "token\x00", "t*", ""} {
			lock := take(t, locker, "name")
			c.eventuallyHeld("name", ours)
			c.doAll("SET", "name", theirs, "PX", long.Milliseconds())

			other := take(t, locker, "extended")
			c.eventuallyHeld("extended", ours)
			c.doAll("SET", "extended", theirs, "PX", long.Milliseconds())
			require.ErrorIs(t, other.Extend(context.Background(), 10*long), redlock.ErrLost, "%q", theirs)
			require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld, "%q", theirs)

			for _, key := range []string{"name", "extended"} {
				for i := range c.servers {
					require.EqualValues(t, 1, c.do(i, "EXISTS", key))
					require.LessOrEqual(t, c.ttl(i, key), long)
				}
				require.Equal(t, 3, c.holding(key, theirs), "%q", theirs)
			}
			c.doAll("FLUSHALL")
		}
	})
}

// The loser's release must not take the lock from the winner, whatever the order of their messages.
func TestToken_ALosersReleaseDoesNotDeleteTheWinnersKey(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		winner, loser := c.locker(), c.locker()
		for range 20 {
			lock := take(t, winner, "name")
			require.ErrorIs(t, errOf(loser.TryLock(t.Context(), "name")), redlock.ErrTaken)
			require.NoError(t, lock.Extend(t.Context(), 2*long), "a majority holds it still")
			require.NoError(t, lock.Unlock(t.Context()))
			c.eventuallyEmpty()
		}
	})
}

// A program may recover from a panic of its source, as net/http does. Others that wait for the name must go on.
func TestTokenSource_ThatPanicsLeavesTheQueue(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} { // whether it panics for the first round
		c := onReal(t, 3)
		holder := take(t, c.locker(), "name")
		locker, seen := c.waiting(c.nodes())
		called, panicked := 0, make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_, _ = locker.Lock(t.Context(), "name", redlock.TokenSource(func() (string, error) {
				if called++; first || called > 1 {
					panic("no entropy")
				}
				return "document-1", nil
			}))
		}()
		require.Equal(t, "no entropy", receive(t, panicked, "the panic"))
		locker.Drain()
		acquired := eventsOf[event.Acquire](seen)
		require.Len(t, acquired, 1)
		require.ErrorContains(t, acquired[0].Err, `redlock: acquire "name": TokenSource: it has not returned`)
		require.NoError(t, holder.Unlock(t.Context()))
		require.NoError(t, won(t, lockBeside(t.Context(), locker, "name")).Unlock(t.Context()))
	}
}
