package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Extend is a round that asks the nodes for a longer TTL of a lock that they hold. The extensions of a lock run one
// after the other.
type Extend struct {
	Round
	Before time.Time // the deadline of the lock when the nodes were asked; zero if they were not

	votes quorum.Extend
	ttl   time.Duration
	// hold is the hold of the caller. If it is nil, this is a renewal, which asks for the TTL that the present holder
	// wants.
	hold *quorum.Hold
	next *Extend // the extension of the same lock that follows
}

func (e *Extend) renews() bool { return e.hold == nil }

// Extend begins e, which asks for a TTL on behalf of the hold h, when the extensions before it have ended. It ends with
// an [End]. It asks no node if the hold has ended by then, or the rules are Closed. The replies are for to.
func (l *Lease) Extend(acts []Act, e *Extend, ttl time.Duration, h *quorum.Hold, to wire.Receiver) []Act {
	e.Round, e.ttl, e.hold = Round{lease: l, to: to}, ttl, h
	if last := l.lastExtension(); last != nil {
		last.next = e
		return acts
	}
	l.extensions = e
	return l.extend(acts)
}

// Extending returns the receiver of the replies to the last of the extensions that have not ended. It returns nil if
// all have ended.
func (l *Lease) Extending() wire.Receiver {
	if last := l.lastExtension(); last != nil {
		return last.to
	}
	return nil
}

// Failed returns the last extension that has failed, if none has succeeded since. The results are the receiver of its
// replies, when it began, and whether it was a renewal. If none has failed, it returns the extension under way, whose
// outcome is not known yet. If there is none, of is nil.
func (l *Lease) Failed() (of wire.Receiver, began time.Time, renewal bool) {
	e := l.failed
	if e == nil {
		if e = l.extensions; e == nil || e.Before.IsZero() {
			return nil, time.Time{}, false
		}
	}
	return e.to, e.grant.Start, e.renews()
}

// lastExtension returns the last of the extensions that have not ended, or nil if all have ended.
func (l *Lease) lastExtension() *Extend {
	last := l.extensions
	for last != nil && last.next != nil {
		last = last.next
	}
	return last
}

// extend begins the first extension in line that is still wanted. It ends the unwanted ones before that.
func (l *Lease) extend(acts []Act) []Act {
	for l.extensions != nil {
		now, e := l.name.rules.Clock.Now(), l.extensions
		grant, wanted, untracked := l.Ask(now, e.ttl), false, false
		switch {
		case !e.renews():
			wanted = e.hold.At(now) == quorum.NotEnded && e.hold.Current() && !l.name.rules.Closed()
		case l.Renewal != nil && l.At(now) == quorum.NotEnded:
			untracked, l.Tracked = !l.Tracked, true
			grant, wanted = l.Renewal.Grant(&l.Lease, now)
		}
		if wanted {
			e.Before = l.Deadline()
			e.Round = Round{
				machine: e.votes.Begin(&l.Lease, grant), form: l.form(), id: l.ID(), grant: grant, lease: l, to: e.to,
			}
			e.form.Extend(&e.command, e.id, grant.TTL)
			e.command.Tracked, e.command.WantsLate = l.Tracked, true // a late answer shows whether the lock is lost
			return e.send(acts, e.Before)
		}
		// The renewal would not move the deadline, so it is not sent, and no extension tracks the key yet. Observations track
		// it instead.
		for i := 0; untracked && i < l.Nodes(); i++ {
			if l.Untracked(l.name.rules.Clock, i) {
				acts = l.observe(acts, i)
			}
		}
		acts = l.ended(acts, &l.extensions)
		if l.At(now) != quorum.NotEnded {
			acts = append(acts, Act{What: Over, To: l.to})
		}
	}
	return acts
}

// withdraw ends an extension that waits for its turn.
func (l *Lease) withdraw(acts []Act, r *Round) []Act {
	for at := &l.extensions; *at != nil; at = &(*at).next {
		if &(*at).Round == r {
			return l.ended(acts, at)
		}
	}
	return acts // it has ended already
}

// ended handles the end of an extension. If that is a renewal, and the lock is still to be renewed, ended schedules the
// next one.
func (l *Lease) ended(acts []Act, at **Extend) []Act {
	e := *at
	*at, e.next = e.next, nil
	switch e.outcome {
	case quorum.Undecided: // no node was asked
	case quorum.Done:
		l.failed = nil
	default:
		l.failed = e
	}
	acts = append(acts, Act{What: End, To: e.to})
	if !e.renews() || l.Renewal == nil {
		return acts
	}
	if e.outcome != quorum.Undecided {
		l.Renewal.Ended(&l.Lease, l.name.rules.Clock.Now(), e.outcome)
	}
	return append(acts, Act{What: Renew, To: l.to})
}

// Renew begins to renew the lock as w says, for a holder who has had it since from. If renewals have begun before, they
// go on as w says.
func (l *Lease) Renew(from time.Time, w *Want) {
	most := w.MaxHold
	if most == NoLimit {
		most = 0
	}
	l.Renewal = quorum.NewRenewal(&l.Lease, from, w.TTL, most, l.Tracked)
}

// Due begins the renewal e, whose time has come. The renewal ends with an [End], and the next one is scheduled
// ([Renew]). The replies are for to.
func (l *Lease) Due(acts []Act, e *Extend, to wire.Receiver) []Act {
	// The lock may have changed hands or ended since the renewal became due. If no renewal is wanted, or another one is
	// under way, e ends at once.
	if l.Renewal == nil || l.Renewing() {
		e.Round = Round{lease: l, to: to}
		return append(acts, Act{What: End, To: to})
	}
	return l.Extend(acts, e, 0, nil, to)
}

// Renewing reports whether a renewal is under way, or waits for its turn among the extensions. Its end schedules the
// next one.
func (l *Lease) Renewing() bool {
	for e := l.extensions; e != nil; e = e.next {
		if e.renews() {
			return true
		}
	}
	return false
}
