package quorum

import "time"

// Handoff is the rule by which a lock is handed off within a process. The lease goes on, and its next holder is a
// waiter of the same process. No node is asked, so the lock has to be as good for the next holder as one that the nodes
// have just granted. See docs/adr/0013-local-handoff.md.
//
// With fencing the nodes have granted a block of numbers, and hold the last of them. Each holder has the next number of
// the block.
type Handoff struct {
	lease *Lease
	ttl   time.Duration // the TTL that the nodes granted
	until time.Time     // from then on the lock is not handed off
	fence uint64        // the fencing token of the present holder. 0 means that it has none.
	last  uint64        // the last number of the block
}

// handoffShare is the divisor of the validity that gives the longest time for which a lock goes from hand to hand.
const handoffShare = 4

// NewHandoff begins with the holder that the nodes granted the lease to. most is for how long after the start of that
// round the lock may be handed off. A most of 0 means never. fence is the last of the numbers that were granted with
// the lease. A fence of 0 means that there are none. block is how many they are. A block of 0 means one. NewHandoff
// returns nil for a lock that was attached: somebody else may rely on its token, or release the keys that hold it.
func NewHandoff(lease *Lease, most time.Duration, fence, block uint64) *Handoff {
	if lease.extended() { // the lock was attached
		return nil
	}
	from := lease.grant.Start // the start of the round in which the nodes granted it
	h := &Handoff{lease: lease, ttl: lease.grant.TTL, fence: fence, last: fence}
	h.until = from.Add(min(most, lease.Deadline().Sub(from)/handoffShare))
	if fence > 0 && block > 1 {
		h.fence -= block - 1
	}
	return h
}

// Fence returns the fencing token of the present holder.
func (h *Handoff) Fence() uint64 { return h.fence }

// May reports whether the lock may be handed off to a call that asks for a TTL of ttl.
func (h *Handoff) May(now time.Time, ttl time.Duration) bool {
	usedUp := h.fence > 0 && h.fence == h.last
	// The call asks for a longer TTL than the nodes granted, or an extension has asked for one.
	longer := ttl > h.ttl || h.lease.longest > h.ttl
	return now.Before(h.until) && h.lease.At(now) == NotEnded && !usedUp && !longer && !h.lease.doubted()
}

// HandOff makes the lock that of the next holder, and returns the hold of that holder. The lock may be handed off, and
// the present holder has left it.
func (h *Handoff) HandOff() Hold {
	if h.fence > 0 {
		h.fence++
	}
	h.lease.holder++
	h.lease.holds = 1
	return h.lease.Hold()
}

// MaxBlock is how many fencing tokens a round may reserve at most. fenced_acquire.lua knows it too.
const MaxBlock = 4096
