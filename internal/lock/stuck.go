package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// warnAfter is for how long keys without a TTL have been unchanged when that is logged.
const warnAfter = 10 * time.Second

// stuckSince returns since when so many nodes have had an unchanged key without a TTL that the others are no majority; zero
// means that they have not.
func (q *queue) stuckSince() (since time.Time) {
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
	return all[len(q.nodes)-quorum.Majority(len(q.nodes))]
}

// warn logs, once, that those who wait do so for keys without a TTL.
func (q *queue) warn(acts []Act, wake *wakeUp) []Act {
	since := q.stuckSince()
	switch {
	case since.IsZero():
		q.warned = false
	case !q.warned && wake.due(since.Add(warnAfter)):
		stuck := &Stuck{Unchanged: wake.now.Sub(since)}
		for i := range q.nodes {
			if q.nodes[i].hasNoTTL() {
				stuck.Nodes = append(stuck.Nodes, i)
			}
		}
		q.warned, acts = true, append(acts, Act{What: Warn, Stuck: stuck})
	}
	return acts
}

// mayBeBlocked reports whether somebody's data leaves no majority if it is on the nodes too of which nothing will be known.
func (q *queue) mayBeBlocked() bool {
	return q.blocked(func(n *nodeState) bool { return n.isForeign() || n.blind() })
}

// ask begins the observations, and the deletions of keys that have been seen without a TTL for long enough. Such a key is observed
// once more before: after a pause of this process a push that it has changed may not have been read yet.
func (q *queue) ask(acts []Act, wake *wakeUp) []Act {
	var observe *wire.Command
	want := q.want()
	for i := range q.nodes {
		n, tag := &q.nodes[i], wire.Tag{What: Watch, Node: uint16(i), Serial: want.sight()}
		healAt := n.noTTLFrom.Add(q.rules.Pace.Heal)
		switch stuck := n.healable() && q.rules.Pace.Heal > 0; {
		case n.observing:
		case !n.toObserve && (!stuck || !wake.due(healAt)):
		case n.toObserve || n.askedAt.Before(healAt):
			n.observing, n.toObserve, n.askedAt = true, false, wake.now
			if observe == nil {
				observe = q.rules.FormOf(want).Observe(q.key)
			}
			acts = append(acts, Act{Command: observe, Tag: tag})
		default:
			n.observing, tag.What = true, Heal
			acts = append(acts, Act{Command: q.rules.Form.Heal(q.key, n.Token), Tag: tag})
		}
	}
	return acts
}

// denied takes it that a call that does not wait was refused because of a key without a TTL. If nobody waits, such calls do the
// healing: the first one that comes when the key has been the same for long enough has it deleted. All nodes are
// observed eight times in that time at most.
func (q *queue) denied(acts []Act, now time.Time) []Act {
	if !q.unattended(now) {
		return acts
	}
	if !now.Before(q.healAt) {
		q.healAt = now.Add(q.rules.Pace.Heal / 8)
		for i := range q.nodes {
			q.nodes[i].toObserve = true
		}
	}
	return q.heal(acts, now)
}

// unattended reports whether keys without a TTL are healed though nobody waits.
func (q *queue) unattended(now time.Time) bool {
	return q.rules.Pace.Heal > 0 && len(q.calls) == 0 && !q.holds(now)
}

// heal is ask while nobody waits: nothing is done later by itself.
func (q *queue) heal(acts []Act, now time.Time) []Act {
	return append(q.ask(acts, &wakeUp{now: now}), Act{What: Listen})
}

// Healing reports whether it is remembered since when a key has had no TTL.
func (n *Name) Healing() bool {
	return n.queue != nil && n.rules.Pace.Heal > 0 && n.queue.count((*nodeState).hasNoTTL) > 0
}
