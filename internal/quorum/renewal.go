package quorum

import "time"

// Renewal is the plan of when to extend a lease that is to last for as long as its holder works. Its methods get the
// lease each time, so that a lock that is held needs less memory.
type Renewal struct {
	ttl   time.Duration // the TTL that each renewal asks for
	until *time.Time    // the latest end of the lock; nil if there is no limit
	due   time.Time
	extra bool      // the next renewal is one that Sooner or Cut has brought forward
	spent bool      // the last renewal was one that Sooner or Cut had brought forward
	cut   time.Time // the last instant to which Cut has brought a renewal forward; zero if there is none
	ends  time.Time // the earliest end of a key that was passed to CutMeanwhile during this renewal; zero if there is none
}

const (
	// renewShare is the divisor of the TTL that gives the time after which a lease is renewed.
	renewShare = 3
	// soon is the longest time from the acquire of a lock to its first renewal. The key is tracked from that renewal on
	// (see watch.go), and a lock that is released before costs nothing for that. soon is also how soon a renewal comes
	// that Sooner has brought forward.
	soon = 100 * time.Millisecond
	// retryShare is the divisor of the remaining validity that gives the time after which a failed renewal is tried again.
	// The less is left, the sooner that is.
	retryShare = 8
)

// NewRenewal begins to renew a lease for a holder who has had it since from. maxHold counts from then. A maxHold of 0
// means no limit. tracked means that the key is tracked already, because the lock was renewed for the holder before.
func NewRenewal(l *Lease, from time.Time, ttl, maxHold time.Duration, tracked bool) *Renewal {
	r := &Renewal{ttl: ttl}
	r.plan(l)
	if first := l.grant.Start.Add(soon); !tracked && first.Before(r.due) {
		r.due = first
	}
	if maxHold > 0 {
		until := from.Add(maxHold)
		r.until = &until
	}
	return r
}

// plan schedules the next renewal for the time when a share of the TTL has gone by. If the holder has extended the
// lease to a later deadline, the renewal waits until equally little of it is left.
func (r *Renewal) plan(l *Lease) {
	ttl := min(r.ttl, l.grant.TTL)
	r.due = l.grant.exclusive().Add(l.grant.Drift.Of(ttl) - ttl + ttl/renewShare)
}

// Next returns when the lease is to be renewed next. It returns false if the lease is not renewed again, because it is
// over or may not last longer.
func (r *Renewal) Next(l *Lease, now time.Time) (due time.Time, ok bool) {
	if l.At(now) != NotEnded || r.until != nil && r.until.Sub(l.Kept()) < time.Millisecond {
		return time.Time{}, false
	}
	return r.due, true
}

// Grant returns the grant that a renewal asks for at an instant. It returns false if there is nothing to ask for,
// because that would not move the deadline.
func (r *Renewal) Grant(l *Lease, now time.Time) (Grant, bool) {
	g := l.Ask(now, r.Most(now, r.ttl))
	// The renewal moves nothing if the holder has extended the lease by more. But no key may end before the others.
	if r.extra {
		g.TTL = max(g.TTL, (l.Kept().Sub(now) + time.Millisecond - 1).Truncate(time.Millisecond))
	}
	switch {
	case r.extra, g.Deadline().After(l.Deadline()):
		return g, true
	case g.TTL < r.ttl:
		kept := l.Kept()
		r.until = &kept // no renewal can make it longer
	default:
		r.plan(l) // it is too early: the holder has extended the lease by more
	}
	return g, false
}

// Most returns how much of a TTL may be asked for at an instant. 0 means nothing. Without a renewal, or without a
// limit, it is the whole TTL.
func (r *Renewal) Most(now time.Time, ttl time.Duration) time.Duration {
	if r == nil || r.until == nil {
		return ttl
	}
	return max(0, min(ttl, r.until.Sub(now)).Truncate(time.Millisecond))
}

// Ended records the outcome of a renewal. A renewal that failed is tried again while the lease stands.
func (r *Renewal) Ended(l *Lease, now time.Time, outcome Outcome) {
	r.extra, r.spent = false, r.extra
	r.due = now.Add(max(l.Remaining(now)/retryShare, time.Millisecond))
	if outcome == Done {
		r.plan(l)
	}
	if ends := r.ends; !ends.IsZero() {
		r.ends = time.Time{}
		r.Cut(l, now, ends)
	}
	r.Sooner(l, now)
}

// CutMeanwhile is for a cut while a renewal is under way that the node has answered before. The next renewal makes up
// for the cut.
func (r *Renewal) CutMeanwhile(ends time.Time) {
	if r.ends.IsZero() || ends.Before(r.ends) {
		r.ends = ends
	}
}

// Cut records that a node has shown that it holds the key until an instant (ends). Somebody may have given the key
// another TTL. If ends is before the next renewal can have come, Cut brings that renewal forward, and returns true. The
// renewal then comes at once, but at the earliest [soon] after the one that Cut brought forward last. That limits the
// renewals if somebody changes the TTL again and again.
func (r *Renewal) Cut(l *Lease, now, ends time.Time) bool {
	if ends.After(r.due.Add(soon)) || l.At(now) != NotEnded {
		return false
	}
	at := now
	if again := r.cut.Add(soon); !r.cut.IsZero() && again.After(at) {
		at = again
	}
	if !at.Before(r.due) {
		return false
	}
	r.due, r.cut, r.extra = at, at, true
	return true
}

// Sooner follows each answer to an extension or observation. If a node holds the key that does not count before another
// extension is confirmed, Sooner brings the next renewal forward, and returns true. It does so for every other renewal
// at most, because a node may lose its keys again and again.
func (r *Renewal) Sooner(l *Lease, now time.Time) bool {
	early := now.Add(soon)
	if r.extra || r.spent || !early.Before(r.due) || !l.uncounted() {
		return false
	}
	r.due, r.extra = early, true
	return true
}
