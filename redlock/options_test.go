package redlock_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestWithKeyPrefix_IsPartOfTheKeyAndNotOfTheName(t *testing.T) {
	t.Parallel()
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

func TestWithMaxTTL_AllowsALongerTTL(t *testing.T) {
	t.Parallel()
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		const week = 7 * 24 * time.Hour
		lock := take(t, c.locker(redlock.TTL(week), redlock.WithMaxTTL(week)), "name")
		c.eventuallyHeld("name", lock.Token())
		require.Greater(t, lock.Remaining(), 6*24*time.Hour)
		for i := range c.servers {
			require.Greater(t, c.ttl(i, "name"), 6*24*time.Hour)
		}
		require.NoError(t, lock.Unlock(t.Context()))
	})
}

func TestNew_RefusesAnOptionOutOfRangeWithItsValue(t *testing.T) {
	t.Parallel()
	for want, opt := range map[string]redlock.Option{
		"WithDrift(NaN, 0s)":                              redlock.WithDrift(math.NaN(), 0),
		"WithDrift(-0.01, 0s)":                            redlock.WithDrift(-0.01, 0),
		"WithDrift(1, 0s)":                                redlock.WithDrift(1, 0),
		"WithDrift(+Inf, 0s)":                             redlock.WithDrift(math.Inf(1), 0),
		"WithDrift(0, -1ns)":                              redlock.WithDrift(0, -1),
		"WithBackoff(0s, 1s)":                             redlock.WithBackoff(0, time.Second),
		"WithBackoff(-1s, 1s)":                            redlock.WithBackoff(-time.Second, time.Second),
		"WithBackoff(1s, 999ms)":                          redlock.WithBackoff(time.Second, 999*time.Millisecond),
		"WithMaxTTL(999µs)":                               redlock.WithMaxTTL(999 * time.Microsecond),
		"TTL 10s: must be at most 1s":                     redlock.WithMaxTTL(time.Second), // the default is above it
		"WithHeal(1m0s): needs WithKeyPrefix":             redlock.WithHeal(time.Minute),   // or it could delete data
		"WithLogger(nil)":                                 redlock.WithLogger(nil),
		"WithClock(nil)":                                  redlock.WithClock(nil),
		`WithObserver: there is no kind of events "vote"`: redlock.WithObserver(&recorder{}, event.Calls, "vote", event.Ends),
		"no kind of events \"\"":                          redlock.WithObserver(nil, ""),
		"nil option":                                      nil,
		"leaves nothing of it (WithDrift)":                redlock.TTL(time.Millisecond),
		"the key prefix \"\\r\" has the control chara":    redlock.WithKeyPrefix("\r"),
	} {
		locker, err := redlock.New(untouched(t), opt)
		require.Nil(t, locker)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.True(t, strings.HasPrefix(err.Error(), "redlock: "), "%v", err)
	}
	locker := lockerOver(t, untouched(t))
	_, err := locker.TryLock(t.Context(), "name", redlock.TTL(time.Second), nil)
	require.EqualError(t, err, `redlock: acquire "name": nil lock option`)
}

func TestNew_RefusesMissingNodes(t *testing.T) {
	t.Parallel()
	nodes := untouched(t)
	for _, none := range [][]*pool.Node{nil, {}} {
		_, err := redlock.New(none)
		require.EqualError(t, err, "redlock: no nodes: a lock needs at least one")
	}
	_, err := redlock.New([]*pool.Node{nodes[0], nil, nodes[1]})
	require.EqualError(t, err, "redlock: node 1 is nil")
}

func TestNew_CopiesTheSliceOfNodes(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	nodes := slices.Clone(c.nodes())
	locker := lockerOver(t, nodes)
	clear(nodes)
	require.NoError(t, take(t, locker, "name").Unlock(t.Context()))
}
