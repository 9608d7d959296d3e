package redlock

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/pool"
)

// longTTL is a TTL from which on the counter is kept for longer with each lock, and not only when it goes forward anyway.
const longTTL = minKeepFence / 2

// reckoning is the time as the counters of the nodes have it. It is learnt from the tokens, so that the clock of this
// machine has no part in it but at first, and that it goes on.
type reckoning struct {
	known  atomic.Bool
	behind atomic.Int64 // how far the Locker's clock is behind it, in microseconds
}

// at returns the time by the reckoning when the Locker's clock says now.
func (r *reckoning) at(now time.Time) int64 { return now.UnixMicro() + r.behind.Load() }

// learn takes a token that a majority has granted.
func (r *reckoning) learn(clock clock.Clock, began time.Time, token uint64) {
	if r.known.Load() && int64(token) <= r.at(began) {
		return
	}
	behind := int64(token) - clock.Now().UnixMicro()
	for {
		old := r.behind.Load()
		if r.known.Load() && behind <= old {
			return
		}
		if r.behind.CompareAndSwap(old, behind) {
			r.known.Store(true)
			return
		}
	}
}

// counter is what the nodes are told of the counter of a name by a round that begins now.
func (l *Locker) counter(now time.Time, ttl time.Duration, floor uint64) pool.Counter {
	known := l.reckoning.known.Load()
	reckoned := l.reckoning.at(now)
	if !known {
		reckoned = l.wall().UnixMicro()
	}
	reckoned -= reckoned % coarse
	return pool.Counter{Keep: l.keepFence, Now: uint64(max(leastTime, reckoned)), Forward: !known || ttl > longTTL, Floor: floor}
}

// coarse is what the nodes are told the time in, in microseconds: what is asked of them at about the same time then says the same.
const coarse = 50_000

// leastTime is later than what a counter that is missing grants first, by more than a second.
const leastTime = 2_000_000

// split takes what a node holds apart: the token, and the fencing token that follows it where the lock was taken with
// fencing; else 0.
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

// granted returns the highest number that a node has granted to the round.
func (r *round) granted() (highest uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.locker.nodes {
		highest = max(highest, r.acquire.Number(i))
	}
	return highest
}

// rollback is the release of a round that is lost: what its nodes have granted came to nothing.
func (r *round) rollback() *pool.Command {
	if r.locker.fencing {
		return pool.ReleaseFenced(r.req.key, r.token, 0, r.owed)
	}
	return pool.Release(r.req.key, r.token, r.owed)
}

func (h *hold) releasing(owed time.Duration) *pool.Command {
	if h.fence > 0 {
		return pool.ReleaseFenced(h.req.key, h.token, h.fence, owed)
	}
	return pool.Release(h.req.key, h.token, owed)
}

func (h *hold) extending(ttl time.Duration) *pool.Command {
	if h.fence > 0 {
		return pool.ExtendFenced(h.req.key, h.token, h.fence, ttl, h.locker.keepFence)
	}
	return pool.Extend(h.req.key, h.token, ttl)
}

func (h *hold) restoring(ttl time.Duration) *pool.Command {
	if h.fence > 0 {
		return pool.RestoreFenced(h.req.key, h.token, h.fence, ttl, h.locker.keepFence)
	}
	return pool.Restore(h.req.key, h.token, ttl)
}
