package quorum

import "time"

// Renewal decides when a lease is renewed that is kept for as long as its holder works.
type Renewal struct {
	lease *Lease
	ttl   time.Duration // what is asked for each time
	drift Drift
	until time.Time // the lock is over then at the latest; zero: it is kept until it is released
	due   time.Time
}

const (
	// renewShare of the TTL goes by before a lease is renewed.
	renewShare = 3
	// retryShare of the validity that is left goes by before a renewal that failed is
	// tried again: ever sooner, as less is left.
	retryShare = 8
)

// NewRenewal begins to keep a lease. maxHold is counted from the beginning of the
// lease; 0 for no limit.
func NewRenewal(lease *Lease, ttl, maxHold time.Duration) *Renewal {
	r := &Renewal{lease: lease, ttl: ttl, drift: lease.grant.Drift}
	r.plan()
	if maxHold > 0 {
		r.until = lease.grant.Start.Add(maxHold)
	}
	return r
}

// plan puts the next renewal to when a share of the TTL has gone by; where the holder has extended
// the lease by more than that, to when as little is left of it.
func (r *Renewal) plan() {
	ttl := min(r.ttl, r.lease.grant.TTL)
	r.due = r.lease.Deadline().Add(r.drift.Of(ttl) - ttl + ttl/renewShare)
}

// Next returns when the lease is to be renewed next; false: never again, as it is over or
// may not be made longer.
func (r *Renewal) Next(now time.Time) (due time.Time, ok bool) {
	if r.lease.At(now) != Held || !r.until.IsZero() && r.until.Sub(r.lease.Kept()) < time.Millisecond {
		return time.Time{}, false
	}
	return r.due, true
}

// Grant returns what to ask for at an instant; false if nothing would come of it.
func (r *Renewal) Grant(now time.Time) (Grant, bool) {
	g := Grant{Start: now, TTL: r.Most(now, r.ttl), Drift: r.drift}
	switch {
	case g.Deadline().After(r.lease.Deadline()):
		return g, true
	case g.TTL < r.ttl:
		r.until = r.lease.Kept() // no renewal can make it longer
	default:
		r.plan() // as of yet
	}
	return g, false
}

// Most returns how much of a TTL may be asked for at an instant; 0: nothing.
func (r *Renewal) Most(now time.Time, ttl time.Duration) time.Duration {
	if r.until.IsZero() {
		return ttl
	}
	return max(0, min(ttl, r.until.Sub(now)).Truncate(time.Millisecond))
}

// Ended tells how a renewal went. One that failed is tried again while the lease stands.
func (r *Renewal) Ended(now time.Time, outcome Outcome) {
	if outcome == Done {
		r.plan()
		return
	}
	r.Busy(now)
}

// Busy tells that a renewal could not begin, since another extension was under way.
func (r *Renewal) Busy(now time.Time) {
	r.due = now.Add(max(r.lease.Remaining(now)/retryShare, time.Millisecond))
}
