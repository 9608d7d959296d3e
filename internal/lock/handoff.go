package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
)

// Next returns the call that the lock may be handed off to when its holder gives up the hold from. That call is the
// head of the queue. Next returns nil if the head has a round under way, or if it is the turn of other processes. It
// also returns nil if the lock is not good enough for the head, if hand-offs are switched off, or if the rules are
// Closed.
func (n *Name) Next(l *Lease, from *quorum.Hold) *Call {
	q := n.queue
	if q == nil || n.rules.Pace.Handoff == 0 || q.state == trying || len(q.line.calls) == 0 || n.rules.Closed() {
		return nil
	}
	if now := n.rules.Clock.Now(); q.turn.keptLong(now, n.rules.Pace.Handoff) ||
		!l.mayHandOff(now, from, q.line.calls[0]) {
		return nil
	}
	return q.line.calls[0]
}

// HandOff hands the lock off to the call that Next has returned, and removes that call from the queue. to is the Want
// of the call. If it does not want the lock renewed, the caller of HandOff ends the renewals. HandOff returns the hold
// of the next holder.
func (n *Name) HandOff(acts []Act, l *Lease, from *quorum.Hold, to *Want) ([]Act, quorum.Hold) {
	q, now := n.queue, n.rules.Clock.Now()
	hold := l.handOff(now, from, to)
	if q.holder != l {
		q.over(now) // of another lock, which the nodes have lost
	}
	q.line.remove(0)
	q.turn.passing = true
	if q.holder == l {
		q.since = now
		q.changes.count(now)
		return acts, hold
	}
	if q.turn.wins == 0 { // the lock was taken outside this queue
		q.turn.wins = 1
		q.turn.keptFrom(l.Start(), true, q.pace.rtt)
	}
	q.reset()
	q.view.forget()
	q.acquired(now, l)
	return q.next(acts, now), hold
}

// mayHandOff reports whether the holder that gives up from, its hold, may hand the lock off to the call to. The lock
// has to be as good as one that the nodes have just granted for that call.
func (l *Lease) mayHandOff(now time.Time, from *quorum.Hold, to *Call) bool {
	switch want := to.Want; {
	case l.handoff == nil, from.Ended() || !from.Current() || l.Holds() > 1:
		return false
	case want.Kind != l.holder.Kind, to.Metadata != token.Metadata(l.token) || want.Grace != l.holder.Grace || want.Kept:
		return false
	case want.MaxHold != NoLimit && l.MayLast().After(now.Add(want.MaxHold)):
		return false
	}
	return l.handoff.May(now, to.Want.TTL)
}

// handOff hands the lock off, and returns the hold of the next holder.
func (l *Lease) handOff(now time.Time, from *quorum.Hold, to *Want) quorum.Hold {
	from.Leave(now)
	by := l.holder
	l.holder = to
	same := by.Renewed && by.TTL == to.TTL && by.MaxHold == NoLimit && to.MaxHold == NoLimit
	if to.Renewed && (l.Renewal == nil || !same) {
		l.Renew(now, to)
	}
	return l.handoff.HandOff()
}

// Deserted reports whether a release now would pass the turn early. No call waits here then, and one of two things
// holds. Either peers wait although this process may win again. Or the lock goes from hand to hand, and its last holder
// may be about to come back.
func (n *Name) Deserted() bool {
	q := n.queue
	return q != nil && len(q.line.calls) == 0 && (len(q.turn.peers) > 0 && q.turn.wins < maxWins || q.turn.passing)
}
