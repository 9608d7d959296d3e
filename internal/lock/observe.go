package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Answered takes the reply to what the queue has sent.
func (n *Name) Answered(acts []Act, tag wire.Tag, reply *wire.Reply) []Act {
	now, node := n.rules.Clock.Now(), int(tag.Node)
	if tag.What == Heal {
		return n.queue.healed(acts, now, node, reply.Answer == quorum.Yes)
	}
	return n.queue.observed(acts, now, node, tag.Serial, keyState(n.rules.FormOf(seen(tag.Serial)), reply))
}

// observed takes the answer to an observation.
func (q *queue) observed(acts []Act, now time.Time, node int, sight uint32, seen KeyState) []Act {
	n := &q.nodes[node]
	n.observing = false
	switch {
	case sight != q.want().sight() && q.state == watching: // another call is the first now, which sees it otherwise
		n.toObserve = true
		return q.next(acts, now)
	case q.unattended(now):
		n.update(now, seen)
		return q.heal(acts, now)
	case q.state != watching: // the round finds out
		return acts
	}
	changed, token := n.changed, q.seen
	if n.update(now, seen) {
		q.strangers.tookTurn(now)
	}
	if q.blocked((*nodeState).isForeign) {
		return q.refuse(acts)
	}
	contend := q.contend(now)
	if seen.Held && !seen.Foreign {
		q.seen = seen.Token
	}
	if seen.Held && !seen.Foreign && q.majority(func(n *nodeState) bool { return n.Held && n.Token == seen.Token }) {
		if q.splitVotes > 0 && !contend { // the round was lost to a holder, not to a split vote
			q.splitVotes, q.notBefore = 0, now
		}
		if seen.Owner != q.rules.Self {
			q.wins = 0
		}
	}
	switch pace := &q.rules.Pace; {
	case !changed || contend:
	case q.seen != token: // the lock goes from hand to hand
		q.notBefore = now.Add(min(pace.double(q.spuriousWakes), pace.Most/8))
		q.spuriousWakes++
		q.polls, q.yielding = 0, true
	case n.free(now) && q.yielding: // a peer may be about to take it
		q.yielding, q.notBefore = false, now.Add(q.yieldDelay())
	}
	if q.seen != token && seen.Owner != "" && seen.Owner != q.rules.Self {
		message := &Message{What: Waits, To: seen.Owner, Peers: []string{q.rules.Self}, Node: node}
		acts = append(acts, Act{What: Publish, Message: message})
	}
	return q.next(acts, now)
}

// healed takes the answer to the deletion of a key without a TTL. done is false if it was not deleted, or nobody knows.
func (q *queue) healed(acts []Act, now time.Time, node int, done bool) []Act {
	n := &q.nodes[node]
	n.observing = false
	if done {
		n.noTTLFrom = time.Time{}
	}
	if q.state == trying || q.state == ours && len(q.calls) > 0 {
		return acts
	}
	n.freed()
	n.Answered, n.toObserve = done, !done
	return q.next(acts, now)
}

// changed takes the push that the key has changed on a node. Pushes come in order with the replies of that node. So a push that comes
// before the answer to an observation is about what happened before it, and that answer is current. Most changes concern nobody, as
// they were made here.
func (q *queue) changed(acts []Act, node int) []Act {
	n := &q.nodes[node]
	n.noTTLFrom = time.Time{}
	now := q.rules.Clock.Now()
	if n.observing || q.state == trying || len(q.calls) == 0 || q.holds(now) {
		return acts
	}
	n.Tracked, n.changed = false, true
	if soon := now.Add(q.rules.Pace.First); q.pollAt.Before(soon) { // others may follow
		q.pollAt = soon
	}
	return q.next(acts, now)
}

// TrackingActive takes it that a node announces changes from now on, and that the key may have changed there before. It is about
// those who wait; that the locks are to be observed too is [Name.Changed]. What was observed before has to be observed again. The
// answer to an observation that is under way comes afterwards, so it is current.
func (n *Name) TrackingActive(acts []Act, node int) []Act {
	if n.queue == nil {
		return acts
	}
	n.queue.nodes[node].untracked()
	n.queue.nodes[node].toObserve = true
	return n.Tick(acts)
}

// TrackingLost takes it that the connection to a node has ended, so that changes may be missed.
func (n *Name) TrackingLost(acts []Act, node int) []Act {
	for t := n.terms; t != nil; t = t.next {
		if t.Tracked {
			t.TrackingLost(node)
		}
	}
	if n.queue == nil {
		return acts
	}
	n.queue.nodes[node].untracked()
	return n.Tick(acts)
}

// Seen returns what is known of the key on a node, and since when it has been seen without a TTL, and unchanged; zero means that it
// was not.
func (n *Name) Seen(node int) (seen KeyState, noTTL time.Time) {
	if n.queue == nil {
		return seen, noTTL
	}
	return n.queue.nodes[node].KeyState, n.queue.nodes[node].noTTLFrom
}
