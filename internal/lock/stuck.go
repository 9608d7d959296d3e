package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/defaults"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// warn logs once that keys without a TTL keep the calls waiting.
func (q *queue) warn(acts []Act, wake *wakeUp) []Act {
	since := q.view.stuckSince()
	switch {
	case since.IsZero():
		q.view.warned = false
	case !q.view.warned && wake.due(since.Add(defaults.StuckKey)):
		stuck := &Stuck{Nodes: q.view.stuck(), Unchanged: wake.now.Sub(since)}
		q.view.warned, acts = true, append(acts, Act{What: Warn, Stuck: stuck})
	}
	return acts
}

// ask begins the observations that are planned, and the deletions of keys that have been seen without a TTL for long
// enough. It observes such a key once more before the deletion. After a pause of this process, the push of a change may
// not have been read yet.
func (q *queue) ask(acts []Act, wake *wakeUp) []Act {
	var observe *wire.Command
	sight := q.sight()
	for i := range q.view.nodes {
		n, tag := &q.view.nodes[i], wire.Tag{What: Watch, Node: uint16(i), Sight: sight}
		healAt := n.noTTLFrom.Add(q.rules.Pace.Heal)
		switch stuck := n.healable() && q.rules.Pace.Heal > 0; {
		case n.observing:
		case !n.toObserve && (!stuck || !wake.due(healAt)):
		case n.toObserve || n.askedAt.Before(healAt):
			n.observing, n.toObserve, n.askedAt = true, false, wake.now
			if observe == nil {
				observe = q.rules.formAt(sight).Observe(q.key)
			}
			acts = append(acts, Act{Command: observe, Tag: tag})
		default:
			n.observing, tag.What = true, Heal
			acts = append(acts, Act{Command: q.rules.Form.Heal(q.key, n.Token), Tag: tag})
		}
	}
	return acts
}

// denied records that a call that does not wait was refused because of a key without a TTL. If nobody waits, such calls
// do the healing. The first call that comes when the key has been the same for long enough deletes it. In that time all
// nodes are observed eight times at most.
func (q *queue) denied(acts []Act, now time.Time) []Act {
	if !q.unattended(now) {
		return acts
	}
	if !now.Before(q.view.healAt) {
		q.view.healAt = now.Add(q.rules.Pace.Heal / 8)
		q.view.observe(func(*nodeState) bool { return true })
	}
	return q.heal(acts, now)
}

// unattended reports whether keys without a TTL are healed though no call waits.
func (q *queue) unattended(now time.Time) bool {
	return q.rules.Pace.Heal > 0 && len(q.line.calls) == 0 && !q.holds(now)
}

// heal calls ask while no call waits. It plans nothing for later.
func (q *queue) heal(acts []Act, now time.Time) []Act {
	return append(q.ask(acts, &wakeUp{now: now}), Act{What: Listen})
}

// Healing reports whether the queue remembers since when a key has had no TTL, in order to delete it.
func (n *Name) Healing() bool {
	return n.queue != nil && n.rules.Pace.Heal > 0 && n.queue.view.count((*nodeState).hasNoTTL) > 0
}
