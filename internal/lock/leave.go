package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Left is what a holder's hold leaves when it ends.
type Left uint8

// What can be left.
const (
	Others  Left = iota // other holds of the same holder: nothing is to be done
	None                // no hold: the release is to begin, unless the lock is left to who knows the token
	Nothing             // there was no hold any more, and the release is under way or done
)

// Leave ends a hold. A hold that has ended before may be ended once more if its release had no quorum ([Term.Unsure]).
func (t *Term) Leave(now time.Time, h *quorum.Hold) Left {
	switch {
	case !h.Ended():
		if !h.Leave(now) {
			return Others
		}
	case !h.Current() || t.Holds() > 0 || t.leaving:
		return Nothing
	}
	t.leaving = true
	t.End(now, quorum.Released)
	t.Renewal = nil
	return None
}

// Unsure records that the release had no quorum.
func (t *Term) Unsure() { t.leaving = false }

// mayPass reports whether the lock may be passed on, by who gives up the hold from, to one who wants it so: it has to be as good as
// one that the nodes have just granted for that.
func (t *Term) mayPass(now time.Time, from *quorum.Hold, to *Want) bool {
	switch by := t.holder; {
	case from.Ended() || !from.Current() || t.Holds() > 1:
		return false
	case to.Metadata != by.Metadata || to.Grace != by.Grace || to.OwnToken:
		return false
	case to.MaxHold != NoLimit && t.MayLast().After(now.Add(to.MaxHold)):
		return false
	}
	return t.May(now, to.TTL)
}

// pass passes the lock on, and returns the hold of the next holder.
func (t *Term) pass(now time.Time, from *quorum.Hold, to *Want) quorum.Hold {
	from.Leave(now)
	by := t.holder
	t.holder = to
	same := by.Renewed && by.TTL == to.TTL && by.MaxHold == NoLimit && to.MaxHold == NoLimit
	if to.Renewed && (t.Renewal == nil || !same) {
		t.Renew(now, to)
	}
	return t.Pass()
}
