package quorum

import (
	"slices"
	"time"
)

// warnAfter is for how long keys without a TTL have been unchanged when that is logged.
const warnAfter = 10 * time.Second

// Stuck means that keys without a TTL have been in the way for long.
type Stuck struct {
	Nodes     []int         // that have one
	Unchanged time.Duration // for so long as many of them as prevent a majority have been the same
}

// NoTTLSince returns since when the key on a node has been seen without a TTL, and unchanged; zero means that it was not.
func (q *Queue[W]) NoTTLSince(node int) time.Time { return q.nodes[node].noTTLFrom }

// stuckSince returns since when so many nodes have had an unchanged key without a TTL that the others are no majority; zero
// means that they have not.
func (q *Queue[W]) stuckSince() (since time.Time) {
	if !q.blocked((*nodeState).hasNoTTL) {
		return since
	}
	var all []time.Time
	for i := range q.nodes {
		if q.nodes[i].hasNoTTL() {
			all = append(all, q.nodes[i].noTTLFrom)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all[len(q.nodes)-Majority(len(q.nodes))]
}

// warn has it logged, once, that the waiters wait for keys without a TTL.
func (q *Queue[W]) warn(now time.Time, actions *Actions) {
	since := q.stuckSince()
	switch {
	case since.IsZero():
		q.warned = false
	case !q.warned && actions.due(now, since.Add(warnAfter)):
		q.warned, actions.Stuck = true, &Stuck{Unchanged: now.Sub(since)}
		for i := range q.nodes {
			if q.nodes[i].hasNoTTL() {
				actions.Stuck.Nodes = append(actions.Stuck.Nodes, i)
			}
		}
	}
}

// mayBeBlocked reports whether somebody's data leaves no majority if it is on the nodes too of which nothing will be known.
func (q *Queue[W]) mayBeBlocked() bool {
	return q.blocked(func(n *nodeState) bool { return n.isForeign() || n.blind() })
}

// ask begins the observations, and the deletions of keys that have been seen without a TTL for long enough. Such a key is observed
// once more before: after a pause of this process a push that it has changed may not have been read yet.
func (q *Queue[W]) ask(now time.Time, actions *Actions) {
	for i := range q.nodes {
		n := &q.nodes[i]
		healAt := n.noTTLFrom.Add(q.pace.Heal)
		switch stuck := n.healable() && q.pace.Heal > 0; {
		case n.observing:
		case !n.toObserve && (!stuck || !actions.due(now, healAt)):
		case n.toObserve || n.askedAt.Before(healAt):
			n.observing, n.toObserve, n.askedAt = true, false, now
			actions.Observe = append(actions.Observe, i)
		default:
			n.observing = true
			actions.Heal = append(actions.Heal, LostKey{i, n.Token})
		}
	}
}

// Denied records that a call that does not wait was refused because of a key without a TTL. If nobody waits, such calls do the
// healing: the first one that comes when the key has been the same for long enough has it deleted. All nodes are
// observed eight times in that time at most.
func (q *Queue[W]) Denied(now time.Time) Actions {
	if !now.Before(q.heldUntil) {
		q.heldUntil = time.Time{}
	}
	if !q.unattended() {
		return Actions{}
	}
	if !now.Before(q.healAt) {
		q.healAt = now.Add(q.pace.Heal / 8)
		for i := range q.nodes {
			q.nodes[i].toObserve = true
		}
	}
	return q.heal(now)
}

// unattended reports whether keys without a TTL are healed though nobody waits.
func (q *Queue[W]) unattended() bool {
	return q.pace.Heal > 0 && len(q.waiters) == 0 && q.heldUntil.IsZero()
}

// heal is ask while nobody waits: nothing is done later by itself.
func (q *Queue[W]) heal(now time.Time) (actions Actions) {
	q.ask(now, &actions)
	actions.WakeAt, actions.Listen = time.Time{}, true
	return actions
}

// Healing reports whether it is remembered since when a key has had no TTL.
func (q *Queue[W]) Healing() bool {
	return q.pace.Heal > 0 && q.count((*nodeState).hasNoTTL) > 0
}
