package redlock_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

// info returns a field of INFO of server i, "" if it is not there.
func (c *cluster) info(i int, section, field string) string {
	c.tb.Helper()
	text, err := redis.String(c.servers[i].Do("INFO", section))
	require.NoError(c.tb, err)
	for line := range strings.SplitSeq(text, "\r\n") {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return value
		}
	}
	return ""
}

// calls returns how many commands of these names all servers together have been sent, or their scripts.
func (c *cluster) calls(names ...string) int {
	c.tb.Helper()
	sum := 0
	for i := range c.servers {
		for _, name := range names {
			stat := c.info(i, "commandstats", "cmdstat_"+name)
			if stat == "" {
				continue
			}
			n, err := strconv.Atoi(strings.TrimPrefix(strings.SplitN(stat, ",", 2)[0], "calls="))
			require.NoError(c.tb, err)
			sum += n
		}
	}
	return sum
}

// lockCommands is what rounds, looks, renewals and messages are made of.
var lockCommands = []string{"set", "eval", "evalsha", "publish"}

// asked returns how many commands about locks all servers together have been sent.
func (c *cluster) asked() int {
	c.tb.Helper()
	return c.calls(lockCommands...)
}

// settled waits until no commands about locks come in any more for a while, and returns their number.
func (c *cluster) settled() int {
	c.tb.Helper()
	last := c.asked()
	eventually(c.tb, func() bool {
		pass(300 * time.Millisecond)
		before := last
		last = c.asked()
		return last == before
	}, "no more commands")
	return last
}

// eventuallyTracked waits until every server has a key to tell of.
func (c *cluster) eventuallyTracked() {
	c.tb.Helper()
	for i := range c.servers {
		eventually(c.tb, func() bool { return c.info(i, "stats", "tracking_total_keys") != "0" }, "server %d tracks", i)
	}
}

// pass lets time go by, in which something must not happen.
func pass(d time.Duration) { <-time.After(d) }

// asleep has one call of Lock wait in a Locker of its own until all servers would tell it of a change.
func (c *cluster) asleep(name string, opts ...redlock.Option) (*redlock.Locker, <-chan held) {
	c.tb.Helper()
	locker := c.locker(opts...)
	waiter := lockBeside(c.tb.Context(), locker, name)
	c.eventuallyTracked()
	return locker, waiter
}

// won returns the lock that a waiter has got.
func won(tb testing.TB, waiter <-chan held) *redlock.Lock {
	tb.Helper()
	h := receive(tb, waiter, "the lock")
	require.NoError(tb, h.err)
	return h.lock
}
