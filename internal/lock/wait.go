package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// observeEvery bounds the time without an observation. Pushes are lost without a sign if the server's machine is gone and
// the connection is idle: TCP notices that when something is sent.
const observeEvery = 30 * time.Second

// maxRTT bounds the estimate of the duration of a round, which begins with the shortest back-off.
const maxRTT = time.Second

// yieldDelay is the time that others need to take a lock that has become free: a round trip for the push and one for
// the acquire, and the same again at random.
func (q *queue) yieldDelay() time.Duration { return 2*q.rtt + q.rules.Pace.Random(2*q.rtt) }

// count returns of how many nodes something is known.
func (q *queue) count(is func(n *nodeState) bool) (count int) {
	for i := range q.nodes {
		if is(&q.nodes[i]) {
			count++
		}
	}
	return count
}

// majority reports whether something is known of a majority of the nodes.
func (q *queue) majority(is func(n *nodeState) bool) bool {
	return q.count(is) >= quorum.Majority(len(q.nodes))
}

// blocked reports whether something is known of so many nodes that the others are no majority.
func (q *queue) blocked(is func(n *nodeState) bool) bool {
	return len(q.nodes)-q.count(is) < quorum.Majority(len(q.nodes))
}

// free reports whether a majority of the nodes is free.
func (q *queue) free(now time.Time) bool {
	return q.majority(func(n *nodeState) bool { return n.free(now) })
}

func (q *queue) forget() {
	for i := range q.nodes {
		q.nodes[i].forget()
	}
}

// try begins a round for the first call at once. What is known of the nodes is out of date then.
func (q *queue) try(acts []Act) []Act {
	q.become(trying)
	q.forget()
	return append(acts, Act{What: Offer, Call: q.calls[0]})
}

// next decides what the first call does now. A wake-up is a hint: it leads to an observation or to a round, and only the
// round leads to the lock.
func (q *queue) next(acts []Act, now time.Time) []Act {
	wake := wakeUp{now: now}
	switch {
	case q.state == ours && len(q.calls) > 0 && wake.due(q.holder.Kept()): // it has ended by itself
		q.over(now)
		return q.try(acts)
	case q.state != watching:
		return wake.act(acts)
	}
	observeAll := wake.due(q.observeAt)
	need, free, changed, awaited := quorum.Majority(len(q.nodes)), 0, 0, 0
	probing, probed := false, false // what has changed is being observed; a node has been observed to be free
	for i := range q.nodes {
		n := &q.nodes[i]
		n.toObserve = n.toObserve || observeAll
		if !n.ends.IsZero() {
			wake.due(n.ends)
		}
		switch {
		case n.free(now):
			free++
			probed = probed || n.Tracked
		case n.changed:
			changed++
			probing = probing || n.observing
		case n.toObserve || n.observing || n.Held && n.Tracked:
			awaited++ // an answer will come, or a push when it is free
		}
	}
	switch {
	case free >= need:
		if wake.due(q.notBefore) {
			return q.try(acts)
		}
	case free+changed >= need:
		switch {
		case !wake.due(q.notBefore):
		case q.contend(now):
			return q.try(acts)
		case probing:
		case probed || q.spuriousWakes == 0:
			q.spuriousWakes++ // unless the round is won
			return q.try(acts)
		default:
			first := slices.IndexFunc(q.nodes, func(n nodeState) bool { return n.changed })
			q.nodes[first].toObserve = true
		}
	case awaited <= len(q.nodes)-need: // nobody will tell when a majority is free
		if wake.due(q.pollAt) && wake.due(q.notBefore) {
			return q.try(acts)
		}
	case q.mayBeBlocked() && wake.due(q.pollAt): // a push will come, but not from where somebody's data may be
		q.pollAt = q.rules.Pace.backOff(now, q.polls)
		q.polls++
		for i := range q.nodes {
			q.nodes[i].toObserve = q.nodes[i].toObserve || q.nodes[i].blind()
		}
	}
	if observeAll {
		q.observeAt = now.Add(observeEvery)
		wake.due(q.observeAt)
	}
	acts = q.warn(acts, &wake)
	acts = q.tell(acts, &wake)
	acts = q.ask(acts, &wake)
	return wake.act(acts)
}

// wakeUp finds the earliest of the instants that something waits for.
type wakeUp struct{ now, at time.Time }

// due reports whether an instant has come, and plans a Tick for then if it has not.
func (w *wakeUp) due(at time.Time) bool {
	if !w.now.Before(at) {
		return true
	}
	if w.at.IsZero() || at.Before(w.at) {
		w.at = at
	}
	return false
}

func (w *wakeUp) act(acts []Act) []Act {
	if w.at.IsZero() {
		return acts
	}
	return append(acts, Act{What: Wake, At: w.at})
}
