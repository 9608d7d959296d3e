package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Answered handles the reply to a command that the queue has sent.
func (n *Name) Answered(acts []Act, tag wire.Tag, reply *wire.Reply) []Act {
	now, node := n.rules.Clock.Now(), int(tag.Node)
	switch tag.What {
	case Heal:
		return n.queue.healed(acts, now, node, reply.Answer == quorum.Yes)
	case Announce:
		n.queue.turn.announced(tag.Serial, reply.Answer == quorum.Yes)
		return acts
	}
	return n.queue.observed(acts, now, node, tag.Sight,
		observation(n.rules.formAt(tag.Sight), reply))
}

// observed handles the answer to an observation.
func (q *queue) observed(acts []Act, now time.Time, node int, sight wire.Sight, o Observation) []Act {
	n := &q.view.nodes[node]
	n.observing = false
	switch waits := q.waits(now); {
	case waits && sight != q.sight(): // the head is another call now, and other locks are in its way
		n.toObserve = true
		return q.next(acts, now)
	case q.unattended(now):
		n.update(now, o)
		return q.heal(acts, now)
	case !waits: // no call waits for observations now
		return acts
	}
	changed, before, shown := n.changed, q.view.token, n.Token
	if n.update(now, o) {
		q.view.strangers.tookTurn(now)
	}
	q.sawKey(now, shown, &o)
	if q.view.blocked((*nodeState).isForeign) {
		return q.refuse(acts, now)
	}
	contended := q.view.contended(now)
	if o.Exists && !o.Foreign {
		q.view.sawToken(now, o.Token)
		q.sawHolder(now, &o, contended)
		if q.sight() != sight {
			q.view.observe(func(*nodeState) bool { return true })
		}
	}
	another := q.view.token != before
	if changed && !contended && q.turn.place != placeNext {
		q.pace.sawChange(now, another, n.free(now))
	}
	if another {
		acts = q.sawAnother(acts, node, &o)
	}
	return q.next(acts, now)
}

// sawAnother handles the observation of another token than the last one: it tells the holder that calls wait here. The
// sharers of a lock cannot be told, so a process that waits for them thinks that others are before it. A call that
// shares the lock, and is kept out by processes that wait, gives them the list.
func (q *queue) sawAnother(acts []Act, node int, o *Observation) []Act {
	q.turn.gaveWay = false
	switch {
	case o.Owner != "" && o.Owner != q.rules.Self:
		return q.turn.announces(acts, q.self(), o.Owner, node)
	case form.IsWanted(o.Token):
		return q.turn.entrust(acts)
	case q.turn.place == placeUnknown && form.IsMark(o.Token) && !q.line.want().Kind.Several():
		q.turn.place = placeBehind
	}
	return acts
}

// sawHolder checks whether a majority holds the token that was seen. If so, the last round was not lost to a split
// vote. If the token is another process's, the wins in a row of this process are over.
func (q *queue) sawHolder(now time.Time, o *Observation, contended bool) {
	if !q.view.held(o.Token) {
		return
	}
	if !contended {
		q.pace.unsplit(now)
	}
	if o.Owner != q.rules.Self {
		q.turn.wins = 0
	}
}

// healed handles the answer to the deletion of a key without a TTL. done is false if the key was not deleted, or if
// that is not known.
func (q *queue) healed(acts []Act, now time.Time, node int, done bool) []Act {
	n := &q.view.nodes[node]
	n.observing = false
	if done {
		n.noTTLFrom = time.Time{}
	}
	if len(q.line.calls) > 0 && !q.waits(now) {
		return acts
	}
	n.freed()
	n.Answered, n.toObserve = done, !done
	return q.next(acts, now)
}

// changed handles the push that the key has changed on a node. Pushes come in order with the replies of that node. So a
// push that comes before the answer to an observation is about an earlier change, and that answer is current. Most
// changes concern no call, because they were made here. But a call that comes later must not trust an old observation.
func (q *queue) changed(acts []Act, node int) []Act {
	n := &q.view.nodes[node]
	n.noTTLFrom = time.Time{}
	if n.observing || q.state == trying {
		return acts
	}
	n.Tracked, n.changed = false, true
	if len(q.line.calls) == 0 {
		return acts
	}
	now := q.rules.Clock.Now()
	if !q.waits(now) {
		return acts
	}
	if q.turn.place == placeBehind && !q.turn.gaveWay {
		q.turn.gaveWay = true
		q.pace.giveWay(now, q.turn.slowest)
	}
	q.pace.changed(now)
	return q.next(acts, now)
}

// TrackingActive records that a node announces changes from now on, and that the key may have changed there before. It
// is about the queue only; [Lease.Changed] observes the key for a lock. The queue observes the node once more. The
// answer to an observation that is under way comes afterwards, so it is current.
func (n *Name) TrackingActive(acts []Act, node int) []Act {
	if n.queue == nil {
		return acts
	}
	n.queue.view.nodes[node].untracked()
	n.queue.view.nodes[node].toObserve = true
	return n.Tick(acts)
}

// TrackingLost records that the connection to a node has ended, so changes may go unnoticed.
func (n *Name) TrackingLost(acts []Act, node int) []Act {
	for l := n.leases; l != nil; l = l.next {
		if l.Tracked {
			l.TrackingLost(node)
		}
	}
	if n.queue == nil {
		return acts
	}
	n.queue.view.nodes[node].untracked()
	return n.Tick(acts)
}

// Observation returns the knowledge of the key on a node. noTTL is since when the key has been the same, without a TTL.
// Zero means that it has not.
func (n *Name) Observation(node int) (o Observation, noTTL time.Time) {
	if n.queue == nil {
		return o, noTTL
	}
	return n.queue.view.nodes[node].Observation, n.queue.view.nodes[node].noTTLFrom
}
