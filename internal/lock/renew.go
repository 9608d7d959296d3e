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
	t.renewal = quorum.NewRenewal(&t.Lease, from, w.TTL, most)
	if t.Tracked {
		t.renewal.Tracked()
	}
}

// StopRenewing ends the renewals.
func (t *Term) StopRenewing() { t.renewal = nil }

// Renewed reports whether the lock is renewed.
func (t *Term) Renewed() bool { return t.renewal != nil }

// Due returns when the next renewal of a lock that is renewed is due, as [quorum.Renewal.Next] does.
func (t *Term) Due(now time.Time) (due time.Time, ok bool) { return t.renewal.Next(now) }

// BeginRenewal returns false if a renewal is under way: its end schedules the next.
func (t *Term) BeginRenewal() bool {
	begin := !t.renewing
	t.renewing = true
	return begin
}

// Renewing reports whether a renewal is under way.
func (t *Term) Renewing() bool { return t.renewing }

// Renewal returns what a renewal asks for now; false means that it asks for nothing.
func (t *Term) Renewal(now time.Time) (quorum.Grant, bool) {
	if t.renewal == nil {
		return quorum.Grant{}, false
	}
	return t.renewal.Grant(now)
}

// EndRenewal takes the outcome of a renewal; Undecided means that no node was asked.
func (t *Term) EndRenewal(now time.Time, outcome quorum.Outcome) {
	t.renewing = false
	if t.renewal != nil && outcome != quorum.Undecided {
		t.renewal.Ended(now, outcome)
	}
}

// Sooner reports whether an answer brings the next renewal forward.
func (t *Term) Sooner(now time.Time) bool {
	return t.renewal != nil && !t.renewing && t.renewal.Sooner(now)
}

// Most returns how much of a TTL may be asked for at an instant; 0 means nothing.
func (t *Term) Most(now time.Time, ttl time.Duration) time.Duration {
	if t.renewal == nil {
		return ttl
	}
	return t.renewal.Most(now, ttl)
}
