package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// try offers a round to the head at once.
func (q *queue) try(acts []Act) []Act {
	q.begin()
	return append(q.tell(acts, nil), Act{What: Offer, Call: q.line.calls[0]})
}

// begin begins a round of the head. It drops the knowledge of the nodes, which is out of date then.
func (q *queue) begin() {
	q.become(trying)
	q.view.forget()
}

// next decides the next step of the head. A wake-up is a hint: it leads to an observation or to a round, and only a
// round leads to the lock.
func (q *queue) next(acts []Act, now time.Time) []Act {
	wake := wakeUp{now: now}
	switch {
	case q.state == ours && len(q.line.calls) > 0 && wake.due(q.holder.Kept()): // the lock has ended by itself
		q.over(now)
		return q.try(acts)
	case q.state != watching:
		return wake.act(q.tell(acts, nil))
	}
	if q.mayTry(q.view.survey(&wake), &wake) {
		return q.try(acts)
	}
	acts = q.warn(acts, &wake)
	acts = q.tell(acts, &wake)
	acts = q.ask(acts, &wake)
	return wake.act(acts)
}

// mayTry reports whether a round begins. Otherwise it plans the steps that lead to one.
func (q *queue) mayTry(s survey, wake *wakeUp) bool {
	need := quorum.Majority(len(q.view.nodes))
	switch {
	case s.free >= need:
		return wake.due(q.pace.notBefore)
	case s.free+s.changed >= need:
		return wake.due(q.pace.notBefore) && q.mayTryUnseen(s, wake.now)
	case s.awaited <= len(q.view.nodes)-need: // no answer and no push will tell when a majority is free
		return wake.due(q.pace.pollAt) && wake.due(q.pace.notBefore)
	case q.view.mayBeBlocked() && wake.due(q.pace.pollAt): // no push will come from nodes that may hold somebody's data
		q.pace.poll(wake.now)
		q.view.observe((*nodeState).blind)
	}
	return false
}

// mayTryUnseen reports whether a round begins though some nodes have only pushed a change. Otherwise one of them is
// observed first.
func (q *queue) mayTryUnseen(s survey, now time.Time) bool {
	switch {
	case q.view.contended(now):
		return true
	case s.probing:
	case s.probed || q.pace.wakes == 0:
		q.pace.wakes++ // a round that is won sets this back to 0
		return true
	default:
		first := slices.IndexFunc(q.view.nodes, func(n nodeState) bool { return n.changed })
		q.view.nodes[first].toObserve = true
	}
	return false
}

// wakeUp is the earliest instant (at) that something waits for, as seen from now.
type wakeUp struct{ now, at time.Time }

// due reports whether an instant has come. If it has not, due plans a Tick for it.
func (w *wakeUp) due(at time.Time) bool {
	if !w.now.Before(at) {
		return true
	}
	if w.at.IsZero() || at.Before(w.at) {
		w.at = at
	}
	return false
}

// act appends a Wake for the earliest instant that due has planned, if there is one.
func (w *wakeUp) act(acts []Act) []Act {
	if w.at.IsZero() {
		return acts
	}
	return append(acts, Act{What: Wake, At: w.at})
}
