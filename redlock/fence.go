package redlock

import (
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// A lock with longTTL or more has its counter kept for longer each time, and not only when the counter goes forward.
const longTTL = minKeepFence / 2

// counters is the Locker's estimate of the time that the counters of the nodes have reached.
type counters struct {
	mu    sync.Mutex
	clock quorum.CounterClock
}

// counter returns what a round that begins now sends to the nodes about the counter of a name.
func (l *Locker) counter(now time.Time, ttl time.Duration, floor uint64) form.Counter {
	l.counters.mu.Lock()
	estimate, known := l.counters.clock.Estimate(now)
	l.counters.mu.Unlock()
	if !known {
		estimate = l.wall().UnixMicro()
	}
	estimate -= estimate % coarse
	return form.Counter{Keep: l.keepFence, Now: uint64(max(leastTime, estimate)), Advance: !known || ttl > longTTL, Floor: floor}
}

// learn takes the fencing token of a round that was won. However late that is, the nodes have granted it within twice the node
// timeout. The first number of its block counts, so that blocks do not drive the estimate ahead of the clocks.
func (l *Locker) learn(r *round, token uint64) {
	now := l.clock.Now()
	if latest := r.grant.Start.Add(2 * l.timeout); now.After(latest) {
		now = latest
	}
	l.counters.mu.Lock()
	l.counters.clock.Learn(now, r.estimate, token-max(1, r.block)+1)
	l.counters.mu.Unlock()
}

// coarse is the unit of the estimate that is sent to the nodes, in microseconds. Rounds that begin at about the same time
// send the same.
const coarse = 50_000

// leastTime is more than a second later than the first number that a missing counter grants.
const leastTime = 2_000_000

// split splits what a node holds into the token and the fencing token that follows it. The fencing token is 0 if the lock
// was taken without fencing.
func (l *Locker) split(value string) (held string, fence uint64) {
	return token.Split(value, l.fencing)
}

// holds returns whether the answer to an observation shows that the node holds a token, Yes or No if it shows that, and the
// fencing token that stands behind it.
func (l *Locker) holds(reply wire.Reply, token string) (answer quorum.Answer, fence uint64) {
	held, fence := l.split(reply.Value)
	if reply.Answer == quorum.Yes && held != token || errors.Is(reply.Err, nodeerr.ErrForeign) {
		return quorum.No, fence
	}
	return reply.Answer, fence
}

// release makes the command that releases a lock. Without fence it sets no counter: what the nodes have granted came to
// nothing. pending is the longest TTL that a node may have given the key.
func release(key, token string, fenced bool, fence uint64, pending time.Duration) *wire.Command {
	if fenced {
		return form.ReleaseFenced(key, token, fence, pending)
	}
	return form.Release(key, token, pending)
}
