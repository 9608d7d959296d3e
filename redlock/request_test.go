package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestTryLock_SendsTheTTLOfTheCall(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(redlock.TTL(10 * time.Minute))
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

// untouched returns nodes of addresses at which nothing listens, and fails the test if anything is sent to them.
func untouched(t *testing.T) []*pool.Node {
	var dials atomic.Int64
	urls := []string{"redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"}
	nodes := open(t, urls, pool.WithDialer(func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("not to be dialled")
	}))
	t.Cleanup(func() {
		for _, node := range nodes {
			require.NoError(t, node.Close())
		}
		require.Zero(t, dials.Load(), "something was sent")
	})
	return nodes
}

func TestTryLock_RefusesANameOutOfRangeBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	locker := lockerOver(t, untouched(t))
	for name, want := range map[string]string{
		"":                       "the name is empty",
		strings.Repeat("n", 513): `"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"... has 513 bytes: at most 512`,
		strings.Repeat("é", 257): "has 514 bytes: at most 512",
		"a\nb":                   `"a\nb" has the control character '\n' at byte 1`,
		"\x00":                   `'\x00' at byte 0`,
		"tab\t":                  `'\t' at byte 3`,
		"\x7f":                   `'\x7f' at byte 0`,
		"é\u0085":                `'\u0085' at byte 2`,
	} {
		_, err := locker.TryLock(t.Context(), name)
		require.ErrorContains(t, err, want)
		require.True(t, strings.HasPrefix(err.Error(), "redlock: "), "%v", err)
		_, again := locker.Lock(t.Context(), name)
		require.Equal(t, err, again)
		require.False(t, errors.As(err, new(*redlock.QuorumError)))
		if name != "" {
			_, err = redlock.New(untouched(t), redlock.WithKeyPrefix(name))
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "the key prefix ")
		}
	}
}

func TestTryLock_TakesNamesAndMetadataWithinRange(t *testing.T) {
	onBoth(t, 1, func(t *testing.T, c *cluster) {
		take(t, c.locker(), "name", redlock.Metadata(strings.Repeat("ü", 128)))
		locker := c.locker(redlock.WithKeyPrefix(strings.Repeat("p", 512)))
		for _, name := range []string{"n", " ", "{slot}:a b", "é", "日本", "\xff\xfe", "*", strings.Repeat("n", 512), `"quoted"`} {
			lock := take(t, locker, name)
			require.Equal(t, name, lock.Name())
			c.eventuallyHeld(strings.Repeat("p", 512)+name, lock.Token())
			unlock(t, lock)
		}
	})
}

func TestExtend_RefusesATTLOutOfRangeAndLeavesTheLock(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		seen := &recorder{}
		lock := take(t, c.locker(redlock.WithObserver(seen)), "name")
		before := lock.ValidUntil()
		for _, ttl := range []time.Duration{math.MinInt64, -1, 0, 1, 999 * time.Microsecond, 2 * time.Millisecond, 24*time.Hour + 1, math.MaxInt64} {
			err := lock.Extend(t.Context(), ttl)
			require.ErrorIs(t, err, redlock.ErrInvalid)
			require.ErrorContains(t, err, `redlock: extend "name": TTL `+ttl.String())
		}
		require.NoError(t, lock.Err())
		require.Equal(t, before, lock.ValidUntil())
		require.Empty(t, seen.votesOn("extend", ""))
	})
}

// What is under a millisecond is cut off the TTL, on the wire and in the validity, and is never all of it.
func TestTTL_IsNeverZeroOnTheWire(t *testing.T) {
	onBoth(t, 1, func(t *testing.T, c *cluster) {
		var acquires, extends atomic.Int64
		nodes := c.nodes(throughWires(func(_ string, w *tapped) {
			w.wrote = func(p []byte) {
				if strings.HasSuffix(string(p), "\r\nNX\r\n$2\r\nPX\r\n$1\r\n1\r\n") {
					acquires.Add(1)
				}
				if strings.HasSuffix(string(p), "\r\n$5\r\n60001\r\n") {
					extends.Add(1)
				}
			}
		}))
		locker := lockerOver(t, nodes, redlock.WithDrift(0, 0))
		for i, ttl := range []time.Duration{time.Millisecond, time.Millisecond + 1, 2*time.Millisecond - 1} {
			_, err := locker.TryLock(t.Context(), "short", redlock.TTL(ttl)) // may well be too late
			if err != nil {
				require.ErrorContains(t, err, "majority reached too late")
			}
			require.EqualValues(t, i+1, acquires.Load(), "PX 1")
			c.eventuallyEmpty()
		}
		lock := take(t, locker, "name", redlock.TTL(time.Minute))
		require.NoError(t, lock.Extend(t.Context(), time.Minute+1999*time.Microsecond))
		require.Positive(t, extends.Load())
		unlock(t, lock)
	})
}

// The danger: a lock whose key is the counter of another, which could not be taken with fencing any more, and lose its counter.
func TestRequest_TheKeyOfACounterIsNoLock(t *testing.T) {
	onBoth(t, 1, func(t *testing.T, c *cluster) {
		fence := take(t, c.locker(redlock.WithFencing()), "pay").Fence()
		ctx := t.Context()
		never := func(context.Context, *redlock.Lock) error { panic("not asked for") }
		for prefix, name := range map[string]string{"": "{pay}:fence", "{": "pay}:fence", "{pay}:": "fence"} {
			for _, locker := range []*redlock.Locker{c.locker(redlock.WithKeyPrefix(prefix)), c.locker(redlock.WithKeyPrefix(prefix), redlock.WithFencing())} {
				for call, do := range map[string]func() error{
					"TryLock":     func() error { _, err := locker.TryLock(ctx, name); return err },
					"Lock":        func() error { _, err := locker.Lock(ctx, name); return err },
					"Do":          func() error { return locker.Do(ctx, name, never) },
					"Inspect":     func() error { _, err := locker.Inspect(ctx, name); return err },
					"Attach":      func() error { _, err := locker.Attach(ctx, name, "token"); return err },
					"ForceUnlock": func() error { _, err := locker.ForceUnlock(ctx, name); return err },
				} {
					require.ErrorContains(t, do(), `"{pay}:fence" belongs to the library: it is a companion of a lock, or the stamp of a node`, call)
				}
			}
		}
		stamp := errOf(c.locker(redlock.WithKeyPrefix("quorumlock:")).TryLock(ctx, "since:a:6379"))
		require.ErrorContains(t, stamp, `"quorumlock:since:a:6379" belongs to the library: it is a companion of a lock, or the stamp of a node`)
		require.Equal(t, fence, c.counter(0, "pay"))
		for _, name := range []string{"{pay}:fences", "pay}:fence", "{pay:fence", "{pay}:fence:guard", "{a}{b}"} {
			require.NoError(t, take(t, c.locker(), name).Unlock(ctx), name)
		}
	})
}

func TestTryLock_ReportsATokenSourceThatFailsAndSendsNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("no entropy")
	locker := lockerOver(t, untouched(t), redlock.TokenSource(func() (string, error) { return "token", broken }))
	for _, err := range []error{errOf(locker.TryLock(t.Context(), "name")), errOf(locker.Lock(t.Context(), "name"))} {
		require.EqualError(t, err, `redlock: acquire "name": TokenSource: no entropy`)
		require.ErrorIs(t, err, broken)
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
		unlock(t, holder)
		lock := receive(t, waiter, "the lock").lock
		require.NotNil(t, lock)

		eventually(t, func() bool { // the Observer is behind
			all := seen.verdictsOn("acquire")
			return all[len(all)-1].Err == nil
		}, "the last verdict")
		rounds := len(seen.verdictsOn("acquire"))
		given := source.all()
		require.Len(t, given, rounds, "one token for each round")
		require.EqualValues(t, given[rounds-1], lock.Token())
		for i, token := range given {
			require.NotContains(t, given[:i], token)
		}
		unlock(t, lock)
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
			token := string(lock.Token())
			require.Regexp(t, `^[A-Z2-7]{8}\.[A-Za-z0-9_-]{28}$`, token, "8 letters of the Locker, and 21 bytes of its own in base64")
			owner, random, _ := strings.Cut(token, ".")
			require.False(t, seen[random])
			seen[random], owners[owner] = true, true
			unlock(t, lock)
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
			require.Contains(t, []string{string(lock.Token()), ""}, c.value(i, name), "server %d has the key of the round before", i)
		})
		require.GreaterOrEqual(t, c.holding(name, lock.Token()), 2)
		unlock(t, lock)
		c.eventuallyEmpty()
	}
}

// The danger: tokens that are compared by prefix.
func TestToken_IsComparedWhole(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		const ours = "token"
		locker := c.locker(redlock.TokenSource(func() (string, error) { return ours, nil }))
		for _, theirs := range []redlock.Token{"toke", "token2", "tokem", "TOKEN", " token", "token\x00", "t*", ""} {
			lock := take(t, locker, "name")
			c.eventuallyHeld("name", ours)
			c.doAll("SET", "name", theirs, "PX", long.Milliseconds())

			other := take(t, locker, "extended")
			c.eventuallyHeld("extended", ours)
			c.doAll("SET", "extended", theirs, "PX", long.Milliseconds())
			require.ErrorIs(t, other.Extend(context.Background(), 10*long), redlock.ErrGone, "%q", string(theirs))
			require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld, "%q", string(theirs))

			for _, key := range []string{"name", "extended"} {
				for i := range c.servers {
					require.EqualValues(t, 1, c.do(i, "EXISTS", key))
					require.LessOrEqual(t, c.ttl(i, key), long)
				}
				require.Equal(t, 3, c.holding(key, theirs), "%q", string(theirs))
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
			unlock(t, lock)
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
		unlock(t, holder)
		unlock(t, won(t, lockBeside(t.Context(), locker, "name")))
	}
}
