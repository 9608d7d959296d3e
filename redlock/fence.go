package redlock

import (
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/pool"
)

// ahead is how much later than now a counter is proposed to begin: the clocks of the nodes have not come that far when
// the command arrives, so that all begin with the same.
const ahead = 100 * time.Millisecond

// counter is what the nodes are told of the counter of a name.
func (l *Locker) counter(floor uint64) pool.Counter {
	proposal := max(0, l.wall().Add(ahead).UnixMicro())
	return pool.Counter{Keep: l.keepFence, Proposal: uint64(proposal), Floor: floor}
}

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
