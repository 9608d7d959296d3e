package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// data is what programs keep under keys that are named like a lock.
var data = map[string][]any{
	"a list":                   {"RPUSH", "app:name", "data"},
	"a hash":                   {"HSET", "app:name", "field", "data"},
	"a string of 1025 bytes":   {"SET", "app:name", strings.Repeat("x", 1025)},
	"a string of over one MiB": {"SET", "app:name", strings.Repeat("x", 2<<20)},
}

// put puts somebody's data on the first n servers.
func (c *cluster) put(n int, what string) {
	c.tb.Helper()
	c.doFirst(n, data[what][0].(string), data[what][1:]...)
}

// dumps returns what the servers hold.
func (c *cluster) dumps() (all []any) {
	for i := range c.servers {
		all = append(all, c.do(i, "DUMP", "app:name"))
	}
	return all
}

// saysData checks the error of a call that was refused because of the data on n servers.
func (c *cluster) saysData(err error, n int) {
	c.tb.Helper()
	require.ErrorIs(c.tb, err, redlock.ErrForeign)
	require.NotErrorIs(c.tb, err, redlock.ErrTaken, "a handler would say that trying again helps")
	refusal := c.refused(err)
	require.Equal(c.tb, redlock.ErrForeign, refusal.Reason)
	require.ErrorContains(c.tb, err, "holds data of another program")
	told := 0
	for i, node := range refusal.Nodes {
		if node.Err != nil && !errors.Is(node.Err, nodeerr.ErrUnneeded) {
			told++
			require.Less(c.tb, i, n)
			require.ErrorIs(c.tb, node.Err, nodeerr.ErrForeign)
		}
	}
	require.GreaterOrEqual(c.tb, told, refusal.Need)
}

// The danger: an old recipe locks the name of the data. Nobody ever unlocks that.
func TestLock_DoesNotWaitForEverForSomebodysData(t *testing.T) {
	t.Parallel()
	for what := range data {
		for _, n := range []int{1, 3, 4} {
			for name, opts := range map[string][]redlock.Option{
				"": nil, " fenced": {redlock.WithFencing()}, " healing": {redlock.WithHeal(time.Millisecond)},
			} {
				t.Run(fmt.Sprintf("%s on %d nodes%s", what, n, name), func(t *testing.T) {
					t.Parallel()
					c := onReal(t, n)
					if n == 4 {
						c.silence()
					}
					c.put(n, what)
					before := c.dumps()
					locker := c.locker(append(opts, prefixed)...)
					ctx := t.Context()
					first, second := lockBeside(ctx, locker, "name"), lockBeside(ctx, locker, "name")
					c.saysData(receive(t, first, "the end of Lock").err, n)
					c.saysData(receive(t, second, "the end of Lock").err, n)
					c.saysData(errOf(locker.TryLock(ctx, "name")), n)
					require.Equal(t, before, c.dumps())
				})
			}
		}
	}
}

// Other libraries keep their locks as hashes that have a TTL: these end by themselves.
func TestLock_WaitsForSomebodysDataThatHasATTL(t *testing.T) {
	t.Parallel()
	for what := range data {
		for _, n := range []int{1, 3, 4} {
			for name, opts := range map[string][]redlock.Option{"": nil, " fenced": {redlock.WithFencing()}, " healing": {redlock.WithHeal(time.Millisecond)}} {
				t.Run(fmt.Sprintf("%s on %d nodes%s", what, n, name), func(t *testing.T) {
					t.Parallel()
					c := onReal(t, n)
					if n == 4 {
						c.silence()
					}
					c.put(n, what)
					c.doFirst(n, "PEXPIRE", "app:name", long.Milliseconds())
					before, locker := c.dumps(), c.locker(append(opts, prefixed)...)
					_, err := locker.TryLock(t.Context(), "name")
					require.Equal(t, redlock.ErrTaken, c.refused(err).Reason)
					requireIs(t, err, redlock.ErrTaken, nodeerr.ErrHeld, not{redlock.ErrForeign}, not{nodeerr.ErrForeign})
					require.Regexp(t, `the key holds data of another program, not a lock, and had (1h0|59)m[\d.]+s left`, err.Error())
					ctx, cancel := context.WithCancel(t.Context())
					given := lockBeside(ctx, locker, "name")
					eventually(t, func() bool { return redlock.Sees(locker, "app:name") }, "it waits for what it has seen")
					cancel()
					err = receive(t, given, "the end of Lock").err
					requireIs(t, err, context.Canceled, redlock.ErrTaken, not{redlock.ErrForeign})
					require.ErrorContains(t, err, "data of another program")
					for _, seen := range must(locker.Inspect(t.Context(), "name"))(t).Nodes[:n] {
						require.ErrorIs(t, seen.Err, nodeerr.ErrForeign)
						require.InDelta(t, long, seen.TTL, float64(time.Minute))
					}
					requireIs(t, errOf(locker.ForceUnlock(t.Context(), "name")), redlock.ErrForeign)
					require.Equal(t, before, c.dumps())
					waiter := lockBeside(t.Context(), locker, "name")
					eventually(t, func() bool { return redlock.Sees(locker, "app:name") }, "it waits for what it has seen")
					c.doFirst(n, "PEXPIRE", "app:name", 20)
					unlock(t, receive(t, waiter, "the lock when the data has ended").lock)
				})
			}
		}
	}
}

// Readers and slots have keys of their own beside, and wait for the same.
func TestSharers_WaitForSomebodysDataThatHasATTL(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string]func(l *redlock.Locker, ctx context.Context, try bool) (*redlock.Lock, error){
		"readers": func(l *redlock.Locker, ctx context.Context, try bool) (*redlock.Lock, error) {
			if try {
				return l.TryLock(ctx, "name", redlock.Shared())
			}
			return l.Lock(ctx, "name", redlock.Shared())
		},
		"slots": func(l *redlock.Locker, ctx context.Context, try bool) (*redlock.Lock, error) {
			if try {
				return l.TryLock(ctx, "name", redlock.Slots(2))
			}
			return l.Lock(ctx, "name", redlock.Slots(2))
		},
	}, func(t *testing.T, take func(l *redlock.Locker, ctx context.Context, try bool) (*redlock.Lock, error)) {
		c := onReal(t, 3)
		locker := c.locker(prefixed)
		c.put(3, "a hash")
		for _, try := range []bool{true, false} {
			requireIs(t, errOf(take(locker, t.Context(), try)), redlock.ErrForeign, not{redlock.ErrTaken})
		}
		c.doAll("PEXPIRE", "app:name", long.Milliseconds())
		err := errOf(take(locker, t.Context(), true))
		requireIs(t, err, redlock.ErrTaken, not{redlock.ErrForeign})
		require.ErrorContains(t, err, "data of another program")
		waiter := make(chan held, 1)
		go func() {
			lock, err := take(locker, t.Context(), false)
			waiter <- held{lock, err}
		}()
		eventually(t, func() bool { return redlock.Sees(locker, "app:name") }, "it waits for what it has seen")
		c.doAll("PEXPIRE", "app:name", 20)
		unlock(t, receive(t, waiter, "the lock when the data has ended").lock)
	})
}

// A lock that was made with SETNX may be in use: the waiter cannot know, but the operator should.
func TestLock_SaysOnceInTheLogThatItWaitsForAKeyWithoutATTL(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.leave("app:name", "somebody")
		fake, log := clocktest.New(), &logBuffer{}
		locker, seen := c.waiting(c.nodes(), prefixed, redlock.WithClock(fake), redlock.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		ctx, cancel := context.WithCancel(t.Context())
		waiter := lockBeside(ctx, locker, "name")
		seen.waitForRefusals(t, 1)
		count := func() int { return strings.Count(log.String(), "waits for a key that has no TTL") }
		turnUntil(t, fake, time.Second, func() bool { return count() > 0 })
		line := log.String()
		require.Contains(t, line, "level=WARN")
		require.Contains(t, line, "name=name")
		require.Regexp(t, `unchanged=([1-9]\d|\d+m)`, line)
		named := 0
		for _, s := range c.servers {
			named += strings.Count(line, s.Addr())
		}
		require.GreaterOrEqual(t, named, 2, "%s", line)
		end := fake.Now().Add(10 * time.Minute)
		turnUntil(t, fake, 10*time.Second, func() bool { return !fake.Now().Before(end) })
		require.Equal(t, 1, count(), "%s", log.String())
		require.Empty(t, waiter)
		cancel()
		err := receive(t, waiter, "the end of Lock").err
		requireIs(t, err, context.Canceled, redlock.ErrTaken, nodeerr.ErrNoExpiry)
		require.Equal(t, 3, c.holding("app:name", "somebody"))
		require.Regexp(t, `the key has no expiry, and was seen unchanged for \d+m`, err.Error())
		require.NotContains(t, log.String(), "somebody", "the value may be a secret")
	})
}

// Those who have such keys often try once and never wait.
func TestTryLock_SaysThatTheKeyHasNoTTL(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 5} {
		for name, opts := range map[string][]redlock.Option{"plain": nil, "fenced": {redlock.WithFencing()}} {
			t.Run(fmt.Sprintf("%s, %d nodes", name, n), func(t *testing.T) {
				t.Parallel()
				c := onReal(t, n)
				for i := range n/2 + 1 { // as few as are in the way
					c.do(i, "SET", "name", "somebody")
				}
				locker := c.locker(opts...)
				for range 200 {
					requireIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken, nodeerr.ErrNoExpiry, nodeerr.ErrHeld)
				}
				for i := range n/2 + 1 {
					require.Equal(t, "somebody", c.value(i, "name"))
					require.Negative(t, c.ttl(i, "name"), "it got a TTL")
				}
				c.do(0, "SET", "name", "another", "PX", 3_600_000)
				_, err := locker.TryLock(t.Context(), "name")
				require.ErrorIs(t, err, redlock.ErrTaken)
				if n > 1 {
					require.ErrorIs(t, err, nodeerr.ErrNoExpiry, "of the others")
				}
			})
		}
	}
}

func TestTryLock_HealsAKeyThatHasHadNoTTLForLong(t *testing.T) {
	t.Parallel()
	inTurn(t, map[string][]redlock.Option{"plain": nil, "fenced": {redlock.WithFencing()}}, func(t *testing.T, opts []redlock.Option) {
		onBoth(t, 3, func(t *testing.T, c *cluster) {
			c.leave("app:name", "somebody")
			fake := clocktest.New()
			const after = 10 * time.Minute
			locker := c.locker(append(opts, prefixed, redlock.WithClock(fake), redlock.WithHeal(after))...)
			for range 10 {
				requireIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken, nodeerr.ErrNoExpiry)
				require.Equal(t, 3, c.holding("app:name", "somebody"), "too early")
				fake.Advance(after / 10)
			}
			got := make(chan *redlock.Lock, 1)
			go func() {
				for t.Context().Err() == nil {
					if lock, _ := locker.TryLock(t.Context(), "name"); lock != nil {
						got <- lock
						return
					}
				}
			}()
			// Time goes by also while a TryLock pauses: a round that meets one node healed and others not is repeated.
			turnUntil(t, fake, 20*time.Second, func() bool { return len(got) > 0 })
			unlock(t, <-got)
		})
	})
}

// The danger: a key that looks the same on two connections, or after all keys have gone, need not have been the same meanwhile.
func TestTryLock_DoesNotHealAKeyThatMayHaveChanged(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string][][]any{
		"it is set again":           {{"DEL", "app:name"}},
		"all keys have gone":        {{"FLUSHALL"}},
		"the connection is another": {{"CLIENT", "KILL", "TYPE", "pubsub"}, {"DEL", "app:name"}},
	}, func(t *testing.T, change [][]any) {
		c, fake := onReal(t, 3), clocktest.New()
		const after = 10 * time.Minute
		locker := c.locker(prefixed, redlock.WithClock(fake), redlock.WithHeal(after))
		c.leave("app:name", "1")
		try := func() {
			require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
			c.settled()
		}
		try()
		try()
		c.eventuallyTracked()
		for range 3 {
			fake.Advance(after * 6 / 10)
			for i := range c.servers {
				c.atOnce(i, append(change, []any{"SET", "app:name", "1"})...)
			}
			c.settled()
			eventually(t, func() bool {
				state, _ := locker.Inspect(t.Context(), "name")
				return !slices.ContainsFunc(state.Nodes, func(n redlock.NodeState) bool { return n.Err != nil })
			}, "connected again")
			try()
			try()
		}
		require.Equal(t, 3, c.holding("app:name", "1"), "held for less than it takes")
	})
}

// atOnce runs commands on server i between which nobody else's come.
func (c *cluster) atOnce(i int, commands ...[]any) {
	c.tb.Helper()
	conn := must(redis.Dial("tcp", c.servers[i].Addr()))(c.tb)
	defer conn.Close()
	require.NoError(c.tb, conn.Send("MULTI"))
	for _, words := range commands {
		require.NoError(c.tb, conn.Send(words[0].(string), words[1:]...))
	}
	require.NoError(c.tb, errOf(conn.Do("EXEC")))
}

// No call but one that finds a key without a TTL costs more than a round.
func TestTryLock_ThatALockRefusesObservesNothing(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker(prefixed, redlock.WithHeal(time.Millisecond)) // observes often, if at all
	holder := take(t, c.locker(prefixed), "name")
	c.eventuallyHeld("app:name", holder.Token())
	try := func() {
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
	}
	c.proves(locker, "app:")
	try()
	c.settled()
	before := c.calls("evalsha", "eval", "set", "client|caching")
	for range 50 {
		try()
	}
	c.settled()
	require.Equal(t, 50*2*3, c.calls("evalsha", "eval", "set", "client|caching")-before, "a SET and a release for each node")
}

// The keys that are remembered are bounded, whatever names a program makes up.
func TestTryLock_ForgetsKeysWithoutATTLIfThereAreVeryMany(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1)
	locker := c.locker(prefixed, redlock.WithHeal(long))
	var all []any // keys and values
	for i := range 10_000 {
		all = append(all, fmt.Sprint("app:name-", i), "somebody")
	}
	c.do(0, "MSET", all...)
	for i := range 10_000 {
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), fmt.Sprint("name-", i))), nodeerr.ErrNoExpiry)
	}
	remembered := 0
	for i := range 10_000 {
		if redlock.Remembers(locker, fmt.Sprint("app:name-", i)) {
			remembered++
		}
	}
	require.LessOrEqual(t, remembered, 8192)
	require.NotZero(t, remembered)
	c.do(0, "FLUSHALL") // it takes long to see that none of so many keys is ours
}

// Data under the key of the counter is in the way of locks with fencing.
func TestLock_DoesNotWaitForSomebodysDataInThePlaceOfTheCounter(t *testing.T) {
	t.Parallel()
	c, log := onReal(t, 3), &logBuffer{}
	c.doAll("SET", "{app:name}:fence", "junk")
	locker := c.logsTo(log, slog.LevelInfo, prefixed, redlock.WithFencing())
	for _, take := range []func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error){locker.TryLock, locker.Lock} {
		requireIs(t, errOf(take(t.Context(), "name")), redlock.ErrForeign, not{redlock.ErrNoQuorum})
	}
	require.Equal(t, "WARN data of another program is in the way of a lock name", lines(t, log, 1)[0])
	require.NoError(t, locker.Close())
}
