package quorum

import "time"

// Handoff hands a lock off within a process: the lease goes on, and its next holder is a waiter of the same process. No node is
// asked, so the lock has to be as good for the next holder as one that the nodes have just granted. See docs/safety.md.
//
// With fencing the nodes have granted a block of numbers, of which they know the last. Each holder has the next of them.
type Handoff struct {
	lease *Lease
	ttl   time.Duration // that they granted
	until time.Time     // nothing is handed off from then on; zero: somebody else may rely on the token, or release what has it
	fence uint64        // of the present holder; 0 without fencing
	last  uint64        // of the block
}

// handoffShare of its validity is the longest time for which a lock goes from hand to hand.
const handoffShare = 4

// NewHandoff begins with the holder that the nodes granted the lease to. most is for how long after that the lock may be passed
// on; 0 means never. fence is the last of the numbers that were granted with it, 0 without fencing, block how many they are; 0 is
// one.
func NewHandoff(lease *Lease, most time.Duration, fence, block uint64) *Handoff {
	from := lease.grant.Start // when the round began in which the nodes granted it
	h := &Handoff{lease: lease, ttl: lease.grant.TTL, fence: fence, last: fence}
	h.until = from.Add(min(most, lease.Deadline().Sub(from)/handoffShare))
	if fence > 0 && block > 1 {
		h.fence -= block - 1
	}
	if lease.extended() { // somebody else had it
		h.Know()
	}
	return h
}

// Fence returns the fencing token of the present holder.
func (h *Handoff) Fence() uint64 { return h.fence }

// Know records that the present holder has asked for the token: the lock is no longer handed off. The holder's fencing token is that
// which the nodes hold with the token from now on.
func (h *Handoff) Know() { h.until, h.fence = time.Time{}, h.last }

// May reports whether the lock may be handed off, to somebody who asks for a TTL of ttl.
func (h *Handoff) May(now time.Time, ttl time.Duration) bool {
	usedUp := h.fence > 0 && h.fence == h.last
	longer := ttl > h.ttl || h.lease.longest > h.ttl // than the nodes granted, or than the next holder asks for
	return now.Before(h.until) && h.lease.At(now) == NotEnded && !usedUp && !longer
}

// HandOff makes the lock that of the next holder. It may be handed off, and the present holder has left it.
func (h *Handoff) HandOff() Hold {
	if h.fence > 0 {
		h.fence++
	}
	h.lease.holder++
	h.lease.holds = 1
	return h.lease.Hold()
}

// MaxBlock is how many fencing tokens a round may reserve. fenced_acquire.lua knows it too.
const MaxBlock = 4096
