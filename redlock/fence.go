package redlock

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/node"
)

// A lock with longTTL or more has its counter kept for longer each time, and not only when the counter goes forward.
const longTTL = minKeepFence / 2

// counterClock estimates the time that the counters of the nodes have reached. It learns that from the tokens, so that
// the clock of this machine matters only at first.
type counterClock struct {
	mu     sync.Mutex
	known  bool
	behind int64 // how far the Locker's clock is behind the counters, in microseconds
}

// at returns the estimate for an instant of the Locker's clock, if there is one yet.
func (c *counterClock) at(now time.Time) (micros int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.UnixMicro() + c.behind, c.known
}

// learn takes a token that a majority has granted.
func (c *counterClock) learn(clock clock.Clock, began time.Time, token uint64) {
	if estimate, known := c.at(began); known && int64(token) <= estimate {
		return
	}
	behind := int64(token) - clock.Now().UnixMicro()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || behind > c.behind {
		c.known, c.behind = true, behind
	}
}

// counter returns what a round that begins now sends to the nodes about the counter of a name.
func (l *Locker) counter(now time.Time, ttl time.Duration, floor uint64) node.Counter {
	estimate, known := l.counters.at(now)
	if !known {
		estimate = l.wall().UnixMicro()
	}
	estimate -= estimate % coarse
	return node.Counter{Keep: l.keepFence, Now: uint64(max(leastTime, estimate)), Advance: !known || ttl > longTTL, Floor: floor}
}

// coarse is the unit of the estimate that is sent to the nodes, in microseconds. Rounds that begin at about the same time
// send the same.
const coarse = 50_000

// leastTime is more than a second later than the first number that a missing counter grants.
const leastTime = 2_000_000

// split splits what a node holds into the token and the fencing token that follows it. The fencing token is 0 if the lock
// was taken without fencing.
func (l *Locker) split(value string) (token string, fence uint64) {
	i := strings.LastIndexByte(value, '|')
	if i < 0 || !l.fencing && ownerOf(value) == "" {
		return value, 0
	}
	fence, err := strconv.ParseUint(value[i+1:], 10, 53)
	if err != nil || fence == 0 {
		return value, 0
	}
	return value[:i], fence
}

// release makes the command that releases a lock. Without fence it sets no counter: what the nodes have granted came to
// nothing. pending is the longest TTL that a node may have given the key.
func release(key, token string, fenced bool, fence uint64, pending time.Duration) *node.Command {
	if fenced {
		return node.ReleaseFenced(key, token, fence, pending)
	}
	return node.Release(key, token, pending)
}
