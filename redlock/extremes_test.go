package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// longestTTL returns the longest TTL in milliseconds that a server takes: it adds the time since 1970.
func longestTTL() int64 { return math.MaxInt64 - time.Now().Add(time.Hour).UnixMilli() }

// A common "for ever" is longer than a time.Duration can say. The danger: who waits takes it for no time at all and tries
// without a pause.
func TestExtremes_WhoWaitsForAKeyWithAnEndlessTTLDoesNotSpin(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string][]any{
		"three hundred years": {"EXPIRE", "name", int64(9999999999)},
		"the longest":         {"PEXPIRE", "name", longestTTL()},
	}, func(t *testing.T, expire []any) {
		for _, silent := range []bool{false, true} {
			c := onReal(t, 3)
			if silent {
				c.silence()
			}
			c.doAll("SET", "name", "theirs")
			c.each(func(i int) { require.EqualValues(t, 1, c.do(i, expire[0].(string), expire[1:]...)) })
			locker, seen := c.observed(redlock.WithBackoff(50*time.Millisecond, time.Second))
			waiter := lockBeside(t.Context(), locker, "name")
			seen.waitForRefusals(t, 1)
			pass(time.Second)
			require.Less(t, c.calls("set"), 200, "the SETs of a waiter, in which those that set the key up are counted")
			require.Less(t, c.calls("eval", "evalsha"), 400)
			c.doAll("DEL", "name")
			unlock(t, won(t, waiter))
		}
	})
}

func TestExtremes_AKeyWithAnEndlessTTLIsInspectedAttachedAndExtended(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	for _, ttl := range []int64{9999999999000, longestTTL()} {
		for fencing, opts := range map[bool][]redlock.Option{false: nil, true: {redlock.WithFencing()}} {
			locker := c.locker(opts...)
			lock := take(t, locker, "name")
			c.each(func(i int) { eventually(t, func() bool { return c.value(i, "name") != "" }, "it is everywhere") })
			c.each(func(i int) { require.EqualValues(t, 1, c.do(i, "PEXPIRE", "name", ttl)) })
			require.Greater(t, inspect(t, locker, "name").Holders[0].TTL, 90*365*24*time.Hour)
			require.NoError(t, lock.Extend(t.Context(), 2*long), "fencing: %v", fencing)
			require.LessOrEqual(t, lock.Remaining(), 2*long)
			token := detach(t, lock)
			attached := got(locker.Attach(t.Context(), "name", token, redlock.RenewFor(redlock.NoLimit)))(t)
			require.Greater(t, attached.Remaining(), 90*365*24*time.Hour)
			require.Greater(t, attached.ValidUntil(), time.Now())
			require.NoError(t, attached.Err())
			unlock(t, attached)
			eventually(t, func() bool { return c.holding("name", "") == len(c.servers) }, "it is released")
		}
	}
}

// Anybody may publish anything on the channel of a Locker.
func TestExtremes_WhatStrangersPublishTakesNoMemory(t *testing.T) {
	c := onReal(t, 3)
	c.doAll("SET", "other", "theirs")
	locker, waiter := c.asleep("other")
	holder := take(t, locker, "held")
	channel := "quorumlock:" + locker.Self()
	eventually(t, func() bool {
		for i := range c.servers {
			if n, err := c.servers[i].Do("PUBLISH", channel, "hello"); err != nil || n != int64(1) {
				return false
			}
		}
		return true
	}, "it listens")
	for _, size := range []int{64 << 10, 1<<20 - 4<<10, 30 << 20} {
		message := strings.Repeat("\n", size)
		allocated := allocation(func() {
			for range max(1, (8<<20)/size) {
				c.each(func(i int) { require.EqualValues(t, 1, c.do(i, "PUBLISH", channel, message)) })
			}
			for range 20 { // replies come behind what was published before
				unlock(t, take(t, locker, "name"))
			}
		})
		t.Logf("%d bytes: %d allocated", size, allocated)
		require.Less(t, allocated, uint64(4*3*size+(64<<20)), "the publisher's part")
	}
	require.NoError(t, holder.Err())
	c.doAll("DEL", "other")
	won(t, waiter)
}

// everyDuration are options and arguments by their names, each with a duration of any length, and the range that is accepted:
// from least to most, and 0 if none says so.
var everyDuration = map[string]struct {
	pool        func(time.Duration) pool.Option
	locker      func(time.Duration) redlock.Option
	lock        func(time.Duration) redlock.LockOption
	least, most time.Duration
	none        bool // 0 means that there is none
}{
	"WithTimeout":          {pool: pool.WithTimeout, least: 1, most: math.MaxInt64},
	"WithDialTimeout":      {pool: pool.WithDialTimeout, least: 1, most: math.MaxInt64},
	"WithMaxOverdue":       {pool: pool.WithMaxOverdue, least: 1, most: math.MaxInt64},
	"WithRestartGuard":     {pool: pool.WithRestartGuard, least: long, most: 14 * 24 * time.Hour}, // which is the TTL, or a shorter one
	"WithMaxTTL":           {locker: redlock.WithMaxTTL, least: long, most: math.MaxInt64},
	"WithDrift":            {locker: func(d time.Duration) redlock.Option { return redlock.WithDrift(0, d) }, most: long - 1, none: true},
	"WithDrift(0.5":        {locker: func(d time.Duration) redlock.Option { return redlock.WithDrift(0.5, d) }, most: long/2 - 1, none: true},
	"WithBackoff":          {locker: func(d time.Duration) redlock.Option { return redlock.WithBackoff(d, math.MaxInt64) }, least: 1, most: math.MaxInt64},
	"WithBackoff(1ms":      {locker: func(d time.Duration) redlock.Option { return redlock.WithBackoff(time.Millisecond, d) }, least: time.Millisecond, most: math.MaxInt64},
	"WithHeal":             {locker: redlock.WithHeal, least: time.Millisecond, most: math.MaxInt64, none: true},
	"WithFenceTTL":         {locker: redlock.WithFenceTTL, least: time.Minute, most: math.MaxInt64},
	"TTL":                  {lock: redlock.TTL, least: time.Millisecond, most: 24 * time.Hour},
	"RenewFor":             {lock: redlock.RenewFor, most: math.MaxInt64},
	"Grace":                {lock: redlock.Grace, most: long / 2, none: true},
	"TTL under WithMaxTTL": {locker: func(d time.Duration) redlock.Option { return redlock.TTL(d) }, least: time.Millisecond, most: math.MaxInt64},
}

// The danger: an extreme option is silently off, or turns into its opposite. It is refused by its name, or the lock is as it
// should be: the nodes keep it for as long as its holder relies on it, and others have to wait for it.
func TestExtremes_EveryDurationIsRefusedOrDoesWhatItSays(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3).mayLeave() // a node timeout may be too short for a release
	other := c.locker(redlock.WithKeyPrefix("prefix:"))
	i := 0
	for name, option := range everyDuration {
		for _, d := range []time.Duration{
			math.MinInt64, math.MinInt64 + 1, -1, 0, 1, time.Microsecond, time.Millisecond, 1<<44 + 1,
			math.MaxInt64/1000 + 1, math.MaxInt64/2 + 1, math.MaxInt64 - 999_999, math.MaxInt64 - 1, math.MaxInt64,
		} {
			i++
			key := fmt.Sprint("name-", i)
			opts := []redlock.Option{
				pool.WithTimeout(patient), pool.WithDialTimeout(patient),
				redlock.WithKeyPrefix("prefix:"), redlock.WithDrift(0, 0), redlock.TTL(long), redlock.WithFencing(),
			}
			var lockOpts []redlock.LockOption
			if strings.HasSuffix(name, "under WithMaxTTL") {
				opts = append(opts, redlock.WithMaxTTL(math.MaxInt64))
			}
			switch {
			case option.pool != nil:
				opts = append(opts, option.pool(d))
			case option.locker != nil:
				opts = append(opts, option.locker(d))
			case i%2 == 0: // there are an odd number of durations
				opts, lockOpts = append(opts, option.lock(d)), append(lockOpts, redlock.RenewFor(redlock.NoLimit))
			default:
				lockOpts = append(lockOpts, redlock.RenewFor(redlock.NoLimit), option.lock(d))
			}
			locker, err := redlock.Open(testredis.URLs(c.servers), opts...)
			var lock *redlock.Lock
			if err == nil {
				lock, err = locker.TryLock(t.Context(), key, lockOpts...)
			}
			fits := d >= option.least && d <= option.most || option.none && d == 0
			var refusal *redlock.QuorumError
			switch {
			case !fits:
				require.Error(t, err, "%s(%s)", name, d)
				require.NotErrorAs(t, err, &refusal, "%s(%s)", name, d)
				require.ErrorContains(t, err, d.String(), name)
			case name == "WithRestartGuard":
				require.ErrorIs(t, err, nodeerr.ErrQuarantined, "%s(%s)", name, d)
			case option.pool != nil && d < time.Second && err != nil: // too short for any server
				require.ErrorIs(t, err, redlock.ErrNoQuorum, "%s(%s)", name, d)
			case (option.pool != nil || strings.Contains(name, "TTL")) && d < time.Second:
				if lock != nil {
					_ = lock.Unlock(t.Context()) // it may have expired
				}
			default:
				require.NoError(t, err, "%s(%s)", name, d)
				requireInOrder(t, c, locker, other, lock, "prefix:"+key, "%s(%s)", name, d)
			}
			if locker != nil {
				require.NoError(t, locker.Close())
			}
		}
	}
}

// requireInOrder fails the test unless a lock excludes others for as long as it says, can be extended, and goes to the next
// when it is released.
func requireInOrder(t *testing.T, c *cluster, locker, other *redlock.Locker, lock *redlock.Lock, key, what string, args ...any) {
	t.Helper()
	c.each(func(i int) { eventually(t, func() bool { return c.value(i, key) != "" }, what, args...) })
	remaining := lock.Remaining()
	require.Positive(t, remaining, append([]any{what}, args...)...)
	require.Equal(t, lock.ValidUntil().After(time.Now()), lock.Err() == nil, append([]any{what}, args...)...)
	for i := range c.servers {
		require.Greater(t, c.ttl(i, key), remaining-time.Minute/2, append([]any{what}, args...)...)
		require.Greater(t, c.do(i, "PTTL", "{"+key+"}:fence"), remaining.Milliseconds(), append([]any{what}, args...)...)
	}
	require.ErrorIs(t, errOf(other.TryLock(t.Context(), lock.Name())), redlock.ErrTaken, append([]any{what}, args...)...)
	require.NoError(t, lock.Extend(t.Context(), long+time.Minute), append([]any{what}, args...)...)
	require.NoError(t, lock.Err(), append([]any{what}, args...)...)
	ended, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	_, err := locker.Lock(ended, lock.Name())
	cancel()
	require.True(t, errors.Is(err, context.DeadlineExceeded), append([]any{what}, args...)...)
	waiter := lockBeside(t.Context(), locker, lock.Name())
	require.NoError(t, lock.Unlock(t.Context()), append([]any{what}, args...)...)
	require.NoError(t, won(t, waiter).Unlock(t.Context()), append([]any{what}, args...)...)
}

func allocation(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
