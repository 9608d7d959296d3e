package quorum

import (
	"slices"
	"time"
)

// Pace bounds what a queue asks of the nodes while somebody waits.
type Pace struct {
	First, Most time.Duration // of the back-off between rounds
	// Heal is for how long a key has to be seen without a TTL, and unchanged, before it is deleted. 0 means never.
	Heal time.Duration
	// Handoff is for how long a lock may go from hand to hand in this process ([Handoff]), and how long it keeps others waiting
	// then. 0 means that it does not.
	Handoff time.Duration
	Random  func(below time.Duration) time.Duration
}

// observeEvery bounds the time without an observation. Pushes are lost without a sign if the server's machine is gone and
// the connection is idle: TCP notices that when something is sent.
const observeEvery = 30 * time.Second

// maxRTT bounds the estimate of the duration of a round, which begins with the shortest back-off.
const maxRTT = time.Second

// backOff returns the end of a pause that begins now, between a quarter and the whole of a bound that doubles each time.
// The jitter keeps contenders apart that have lost to each other:
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/#retry-on-failure
func (p *Pace) backOff(now time.Time, times int) time.Time {
	d := p.double(times)
	return now.Add(d/4 + p.Random(d-d/4))
}

func (p *Pace) double(times int) time.Duration {
	times = min(times, 20)
	if p.First > p.Most>>times { // the product might overflow
		return p.Most
	}
	return p.First << times
}

// yieldDelay is the time that others need to take a lock that has become free: a round trip for the push and one for
// the acquire, and the same again at random.
func (q *Queue[W]) yieldDelay() time.Duration { return 2*q.rtt + q.pace.Random(2*q.rtt) }

// watching reports whether the head waits for what happens on the nodes.
func (q *Queue[W]) watching() bool { return !q.trying && len(q.waiters) > 0 && q.heldUntil.IsZero() }

// count returns of how many nodes something is known.
func (q *Queue[W]) count(is func(n *nodeState) bool) (count int) {
	for i := range q.nodes {
		if is(&q.nodes[i]) {
			count++
		}
	}
	return count
}

// majority reports whether something is known of a majority of the nodes.
func (q *Queue[W]) majority(is func(n *nodeState) bool) bool {
	return q.count(is) >= Majority(len(q.nodes))
}

// blocked reports whether something is known of so many nodes that the others are no majority.
func (q *Queue[W]) blocked(is func(n *nodeState) bool) bool {
	return len(q.nodes)-q.count(is) < Majority(len(q.nodes))
}

// free reports whether a majority of the nodes is free.
func (q *Queue[W]) free(now time.Time) bool {
	return q.majority(func(n *nodeState) bool { return n.free(now) })
}

func (q *Queue[W]) forget() {
	for i := range q.nodes {
		q.nodes[i].forget()
	}
}

// try begins a round for the head at once. What is known of the nodes is out of date then.
func (q *Queue[W]) try() Actions {
	q.trying = true
	q.forget()
	return Actions{Try: true}
}

// next decides what the head does now. A wake-up is a hint: it leads to an observation or to a round, and only the
// round leads to the lock.
func (q *Queue[W]) next(now time.Time) (actions Actions) {
	switch {
	case q.trying || len(q.waiters) == 0:
		return Actions{}
	case now.Before(q.heldUntil):
		return Actions{WakeAt: q.heldUntil}
	case !q.heldUntil.IsZero(): // the lease is over, or was extended
		q.heldUntil = time.Time{}
		return q.try()
	}
	observeAll := actions.due(now, q.observeAt)
	need, free, changed, awaited := Majority(len(q.nodes)), 0, 0, 0
	probing, probed := false, false // what has changed is being observed; a node has been observed to be free
	for i := range q.nodes {
		n := &q.nodes[i]
		n.toObserve = n.toObserve || observeAll
		if !n.ends.IsZero() {
			actions.due(now, n.ends)
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
		if actions.due(now, q.notBefore) {
			return q.try()
		}
	case free+changed >= need:
		switch {
		case !actions.due(now, q.notBefore):
		case q.contend(now):
			return q.try()
		case probing:
		case probed || q.spuriousWakes == 0:
			q.spuriousWakes++ // unless the round is won
			return q.try()
		default:
			first := slices.IndexFunc(q.nodes, func(n nodeState) bool { return n.changed })
			q.nodes[first].toObserve = true
		}
	case awaited <= len(q.nodes)-need: // nobody will tell when a majority is free
		if actions.due(now, q.pollAt) && actions.due(now, q.notBefore) {
			return q.try()
		}
	case q.mayBeBlocked() && actions.due(now, q.pollAt): // a push will come, but not from where somebody's data may be
		q.pollAt = q.pace.backOff(now, q.polls)
		q.polls++
		for i := range q.nodes {
			q.nodes[i].toObserve = q.nodes[i].toObserve || q.nodes[i].blind()
		}
	}
	if observeAll {
		q.observeAt = now.Add(observeEvery)
		actions.due(now, q.observeAt)
	}
	q.warn(now, &actions)
	q.ask(now, &actions)
	return actions
}

// due reports whether an instant has come, and has Tick called then if it has not.
func (a *Actions) due(now, at time.Time) bool {
	if !now.Before(at) {
		return true
	}
	if a.WakeAt.IsZero() || at.Before(a.WakeAt) {
		a.WakeAt = at
	}
	return false
}
