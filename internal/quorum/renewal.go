package quorum

import "time"

// Renewal decides when to extend a lease that is to last for as long as its holder works. Its methods are told the lease each time, as
// a lock that is held has little room.
type Renewal struct {
	ttl   time.Duration // what is asked for each time
	until *time.Time    // the lock is over then at the latest; nil means no limit
	due   time.Time
	extra bool      // the next renewal is one that Sooner has brought forward
	spent bool      // the last one was
	cut   time.Time // when Cut has brought one forward last; zero if it never has
	ends  time.Time // as CutMeanwhile was told; zero if it was not
}

const (
	// renewShare of the TTL goes by before a lease is renewed.
	renewShare = 3
	// soon is when a lock is renewed for the first time at the latest, after it was acquired: its key is tracked from then on
	// (see watch.go), and a lock that is released before costs nothing for that. It is also how soon a renewal comes that Sooner has
	// brought forward.
	soon = 100 * time.Millisecond
	// retryShare of the remaining validity goes by before a failed renewal is tried again: the less
	// is left, the sooner.
	retryShare = 8
)

// NewRenewal begins to renew a lease for a holder who has had it since from. maxHold counts from then; 0 means no limit. tracked means
// that the key is tracked already, as the holder before had the lock renewed.
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

// plan schedules the next renewal for when a share of the TTL has gone by. If the holder has extended the lease to a
// later deadline, the renewal waits until as little of it is left.
func (r *Renewal) plan(l *Lease) {
	ttl := min(r.ttl, l.grant.TTL)
	r.due = l.grant.exclusive().Add(l.grant.Drift.Of(ttl) - ttl + ttl/renewShare)
}

// Next returns when the lease is to be renewed next. It returns false if that is never, because the lease is over
// or may not last longer.
func (r *Renewal) Next(l *Lease, now time.Time) (due time.Time, ok bool) {
	if l.At(now) != NotEnded || r.until != nil && r.until.Sub(l.Kept()) < time.Millisecond {
		return time.Time{}, false
	}
	return r.due, true
}

// Grant returns what to ask for at an instant. It returns false if there is nothing to ask for, because that would not move the
// deadline.
func (r *Renewal) Grant(l *Lease, now time.Time) (Grant, bool) {
	g := l.Ask(now, r.Most(now, r.ttl))
	if r.extra { // it moves nothing if the holder has extended the lease by more, but no key is to end before the others
		g.TTL = max(g.TTL, (l.Kept().Sub(now) + time.Millisecond - 1).Truncate(time.Millisecond))
	}
	switch {
	case r.extra, g.Deadline().After(l.Deadline()):
		return g, true
	case g.TTL < r.ttl:
		kept := l.Kept()
		r.until = &kept // no renewal can make it longer
	default:
		r.plan(l) // as of yet
	}
	return g, false
}

// Most returns how much of a TTL may be asked for at an instant; 0 means nothing. Without a renewal that is all.
func (r *Renewal) Most(now time.Time, ttl time.Duration) time.Duration {
	if r == nil || r.until == nil {
		return ttl
	}
	return max(0, min(ttl, r.until.Sub(now)).Truncate(time.Millisecond))
}

// Ended reports the outcome of a renewal. If it failed, it is tried again while the lease stands.
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

// CutMeanwhile is Cut while a renewal is under way, which the node has answered before: the next one makes up for it.
func (r *Renewal) CutMeanwhile(ends time.Time) {
	if r.ends.IsZero() || ends.Before(r.ends) {
		r.ends = ends
	}
}

// Cut records that a node holds the key until an instant, as it has shown: somebody may have given it another TTL. If that is before the next
// renewal can have come, it brings that one forward, and reports that: at once, and [soon] after the last time at the earliest, as somebody
// may do so again and again.
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

// Sooner records that a node has answered an extension or observation. If a node holds the key that does not count before another
// extension is confirmed, it brings the next renewal forward, and reports that. It does so for every other renewal at most, as a
// node may lose its keys again and again.
func (r *Renewal) Sooner(l *Lease, now time.Time) bool {
	early := now.Add(soon)
	if r.extra || r.spent || !early.Before(r.due) || !l.uncounted() {
		return false
	}
	r.due, r.extra = early, true
	return true
}
