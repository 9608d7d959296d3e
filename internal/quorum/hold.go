package quorum

import "time"

// Hold is what one handle has of a lease: several of one holder ([Lease.Enter]), or those of holders that passed it on
// ([Handoff]).
type Hold struct {
	lease  *Lease
	holder int32  // the number of its holder
	how    Ending // how the hold ended; Held until then
}

// Hold returns a hold of the present holder, who has it already.
func (l *Lease) Hold() Hold { return Hold{lease: l, holder: l.holder} }

// At returns how the lock stands for this hold.
func (h *Hold) At(now time.Time) Ending {
	if h.how != Held {
		return h.how
	}
	return h.lease.At(now)
}

// Ended reports whether the hold has ended by itself, and not only with its lease.
func (h *Hold) Ended() bool { return h.how != Held }

// Current reports whether the holder that this hold belongs to has the lease, or was the last to have it.
func (h *Hold) Current() bool { return h.holder == h.lease.holder }

// Leave ends the hold. It returns true for the last of its holder: the lock is to be passed on or released then.
func (h *Hold) Leave(now time.Time) bool {
	if h.how = h.lease.At(now); h.how == Held {
		h.how = Released
	}
	h.lease.holds--
	return h.lease.holds == 0
}
