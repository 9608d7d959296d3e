package lock

import (
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

// EndRenewal takes the outcome of a renewal; Undecided means that no node was asked.
func (t *Term) EndRenewal(now time.Time, outcome quorum.Outcome) {
	t.Renewing = false
	if t.Renewal != nil && outcome != quorum.Undecided {
		t.Renewal.Ended(now, outcome)
	}
}

// Sooner reports whether an answer brings the next renewal forward.
func (t *Term) Sooner(now time.Time) bool {
	return t.Renewal != nil && !t.Renewing && t.Renewal.Sooner(now)
}
