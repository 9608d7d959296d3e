package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Want is what a holder asks for.
type Want struct {
	TTL, Grace time.Duration
	MaxHold    time.Duration // limits the renewals; NoLimit: nothing does
	Metadata   string        // in the token
	Renewed    bool          // the lock is renewed while the holder has it
	OwnToken   bool          // the holder makes the token
}

// NoLimit is a duration without end.
const NoLimit = wire.NoTTL

// Renew begins to renew the lock for a holder who has had it since from, or goes on with what that one wants.
func (t *Term) Renew(from time.Time, w *Want) {
	most := w.MaxHold
	if most == NoLimit {
		most = 0
	}
	t.Renewal = quorum.NewRenewal(&t.Lease, from, w.TTL, most)
	if t.Tracked {
		t.Renewal.Tracked()
	}
}

// Due takes it that the time of the next renewal has come, which is e. It ends with an [End], and has the next scheduled ([Renew]). The
// replies are for to.
func (t *Term) Due(acts []Act, e *Extend, to wire.Receiver) []Act {
	if t.Renewal == nil || t.Renewing() { // the lock was passed on meanwhile, to somebody who does not want that, or wants it now
		return append(acts, Act{What: End, To: to})
	}
	return t.Extend(acts, e, 0, nil, to)
}

// Renewing reports whether a renewal is under way, the end of which schedules the next.
func (t *Term) Renewing() bool { return slices.ContainsFunc(t.extensions, (*Extend).renews) }

// renewed takes the outcome of a renewal; Undecided means that no node was asked.
func (t *Term) renewed(acts []Act, now time.Time, outcome quorum.Outcome) []Act {
	if t.Renewal == nil {
		return acts
	}
	if outcome != quorum.Undecided {
		t.Renewal.Ended(now, outcome)
	}
	return append(acts, Act{What: Renew, To: t.to})
}
