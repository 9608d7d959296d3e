package redlock_test

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/redlock"
)

// Whatever New and TryLock accept keeps to the bounds that the documentation states, and what they refuse they refuse
// with an error of this package. A context that has ended already takes a call past its checks and no further.
func FuzzName(f *testing.F) {
	for _, name := range []string{"", "name", "a\nb", "\x00", "\u0085", "\u2028", "\xff", strings.Repeat("n", 512), strings.Repeat("n", 513)} {
		f.Add(name, "")
		f.Add("name", name)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	nodes := open(f, []string{"redis://127.0.0.1:1"})
	f.Fuzz(func(t *testing.T, name, prefix string) {
		locker, err := redlock.New(nodes, redlock.WithKeyPrefix(prefix))
		require.Equal(t, fits(prefix), err == nil, "%v", err)
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "redlock: "), "%v", err)
			require.False(t, strings.ContainsFunc(err.Error(), unicode.IsControl), "the message is fit for a log")
			return
		}
		_, err = locker.TryLock(ended, name)
		if name != "" && fits(name) {
			require.ErrorIs(t, err, context.Canceled)
			return
		}
		require.NotErrorIs(t, err, context.Canceled)
		require.True(t, strings.HasPrefix(err.Error(), "redlock: "), "%v", err)
		require.False(t, strings.ContainsFunc(err.Error(), unicode.IsControl), "the message is fit for a log")
		require.Less(t, len(err.Error()), 4*512+200)
	})
}

func fits(text string) bool {
	return len(text) <= 512 && !strings.ContainsFunc(text, unicode.IsControl)
}

func FuzzOptions(f *testing.F) {
	f.Add(int64(10*time.Second), int64(time.Second), int64(24*time.Hour), 0.01, int64(2*time.Millisecond), int64(5), int64(200))
	f.Add(int64(time.Millisecond), int64(0), int64(time.Millisecond), 0.0, int64(0), int64(1), int64(1))
	f.Add(int64(-1), int64(-1), int64(-1), -1.0, int64(-1), int64(-1), int64(-1))
	f.Add(int64(time.Second), int64(math.MaxInt64), int64(math.MaxInt64), 0.5, int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), math.Nextafter(1, 0), int64(0), int64(1), int64(0))
	f.Add(int64(time.Second), int64(math.MinInt64), int64(time.Hour), math.NaN(), int64(0), int64(1), int64(1))
	f.Add(int64(time.Second), int64(time.Second), int64(time.Hour), math.Inf(1), int64(0), int64(1), int64(1))
	c := onMini(f, 1)
	nodes := c.nodes()
	f.Fuzz(func(t *testing.T, standard, ttl, most int64, factor float64, floor, first, last int64) {
		fake := clocktest.New()
		locker, err := redlock.New(nodes, redlock.WithClock(fake),
			redlock.TTL(time.Duration(standard)), redlock.WithMaxTTL(time.Duration(most)),
			redlock.WithDrift(factor, time.Duration(floor)), redlock.WithBackoff(time.Duration(first), time.Duration(last)))
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "redlock: "), "%v", err)
			return
		}
		require.True(t, factor >= 0 && factor < 1)
		require.GreaterOrEqual(t, floor, int64(0))
		require.Positive(t, first)
		require.GreaterOrEqual(t, last, first)
		require.GreaterOrEqual(t, most, int64(time.Millisecond))
		check := func(asked time.Duration, opts ...redlock.LockOption) {
			lock, err := locker.TryLock(t.Context(), "name", opts...)
			if err != nil {
				require.ErrorIs(t, err, redlock.ErrInvalid)
				require.ErrorContains(t, err, `redlock: acquire "name": TTL `)
				return
			}
			defer func() { _ = lock.Unlock(t.Context()) }() // may have expired
			require.GreaterOrEqual(t, asked, time.Millisecond)
			require.LessOrEqual(t, asked, time.Duration(most))
			whole := asked.Truncate(time.Millisecond)
			require.Positive(t, lock.Remaining())
			require.LessOrEqual(t, lock.Remaining(), whole, "no more than the nodes keep it for")
			require.LessOrEqual(t, lock.Remaining(), whole-time.Duration(floor))
			require.Equal(t, fake.Now().Add(lock.Remaining()), lock.ValidUntil())
		}
		check(time.Duration(standard))
		check(time.Duration(ttl), redlock.TTL(time.Duration(ttl)))
	})
}

// Whatever a node holds: its parts are what it consists of, and a fencing token is one that a counter can grant.
func FuzzValue(f *testing.F) {
	nodes := open(f, []string{"redis://127.0.0.1:1"})
	lockers := map[bool]*redlock.Locker{false: lockerOver(f, nodes), true: lockerOver(f, nodes, redlock.WithFencing())}
	own := "ABCDEFGH." + strings.Repeat("r", 28)
	for _, value := range []string{
		"", "|", "token", "token|5", "token|0", "token|05", "token|-5", "token|+5", "token|9007199254740991", "token|9007199254740992", "|5", "a|b|5",
		own, own + "|7", own + ":web-3", own + ":web-3|7", own + ":a:b|7", own[1:] + "|7", own + "|", own + "|99999999999999999999", "\x00|1", "\xff",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for fencing, locker := range lockers {
			token, fence, owner, metadata := locker.Parse(value)
			require.True(t, strings.HasPrefix(value, token))
			if rest := value[len(token):]; fence > 0 {
				require.Less(t, fence, uint64(1<<53))
				require.Equal(t, strconv.FormatUint(fence, 10), strings.TrimLeft(rest[1:], "0"))
				require.Equal(t, byte('|'), rest[0])
				require.True(t, fencing || owner != "")
			} else {
				require.Empty(t, rest)
			}
			if owner == "" {
				require.Empty(t, metadata)
				continue
			}
			require.Len(t, owner, 8)
			require.True(t, strings.HasPrefix(token, owner+"."))
			require.True(t, strings.HasSuffix(token, metadata))
			require.LessOrEqual(t, len(own)+len(metadata), len(token))
		}
	})
}

// Whatever strangers publish on a Locker's channel: nothing panics, a lock that is held stays, and
// who waits gets it afterwards.
func FuzzMessage(f *testing.F) {
	for _, text := range []string{
		"", "\n", "waits", "waits\nname", "waits\nname\nABCDEFGH", "yours\nname", "yours\nname\nABCDEFGH", "yours\nname\nABCDEFGH\nIJKLMNOP",
		"waits\nother\nABCDEFGH", "yours\nother\nABCDEFGH\nIJKLMNOP", "waits\nname\nshort", "yours\n\n", "waits\nname" + strings.Repeat("\nABCDEFGH", 300),
		strings.Repeat("\n", 100), "yours\n" + strings.Repeat("k", 1024) + strings.Repeat("\nABCDEFGH", 256),
	} {
		f.Add(uint8(0), text)
		f.Add(uint8(5), text)
	}
	c := onMini(f, 3)
	nodes := c.nodes()
	f.Fuzz(func(t *testing.T, from uint8, text string) {
		text = text[:min(len(text), wire.MaxPushed)] // the node drops what is longer
		locker, holder := lockerOver(t, nodes), lockerOver(t, nodes)
		held := take(t, holder, "name")
		waiter := lockBeside(t.Context(), locker, "name")
		text = strings.ReplaceAll(text, "ABCDEFGH", holder.Self())
		for i := range 3 {
			locker.Message((int(from)+i)%3, text)
			holder.Message((int(from)+i)%3, text)
		}
		require.NoError(t, held.Err())
		unlock(t, held)
		unlock(t, won(t, waiter))
		require.NoError(t, locker.Close())
		require.NoError(t, holder.Close())
	})
}
