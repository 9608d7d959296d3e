package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Name is everything that a process has of one name: its locks, and the calls that wait for one. It is made in place,
// and must not be copied.
type Name struct {
	rules  *Rules
	key    string
	tries  int32  // how many rounds of calls that do not wait have not ended
	began  uint8  // how many locks have begun, modulo 256
	first  bool   // a first call has a round under way: see First
	leases *Lease // the first of the locks that were not over when the list was pruned; each has the next
	// queue is nil until it is needed: for a second call, a call that waits, a message of another process, or a key to
	// heal.
	queue *queue
}

// Begin makes n the Name of a key.
func (n *Name) Begin(rules *Rules, key string) { n.rules, n.key = rules, key }

// Key returns the key of the lock on the nodes.
func (n *Name) Key() string { return n.key }

// Ask makes a round and the Sends of its command. In the round a call takes the lock under a token of its own. With
// fencing, the lock owns a block of numbers, and the nodes hold the last of them. Like the other inputs, Ask appends
// its Acts to acts. The replies are for to.
func (n *Name) Ask(acts []Act, a *Acquire, c *Call, token string, to wire.Receiver) []Act {
	n.Join(a, c, token, to)
	a.form.Acquire(&a.command, a.id, a.Ask)
	a.command.WantsLate = true // see detached
	return a.send(acts, time.Time{})
}

// Join makes the round of Ask without its Sends. So the round can have a part in a command for several names: see
// [Together].
func (n *Name) Join(a *Acquire, c *Call, token string, to wire.Receiver) {
	r, now, sight := n.rules, n.rules.Clock.Now(), c.Want.sight()
	a.Ask = form.Ask{TTL: c.Want.TTL, Block: c.Block}
	switch {
	case !c.waits:
		n.tries++
		a.Ask.Floor = c.floor
	case c.Want.Kind.Several():
		sight = n.queue.sightOf(c)
	case n.queue == nil:
	case c.Want.Kept:
		a.Ask.Floor = n.queue.numbers.floor
	default:
		a.Ask.Block, a.Ask.Floor = n.queue.block(), n.queue.numbers.floor
	}
	of := r.formAt(sight)
	if f, ok := of.(form.Numbered); ok {
		f.Prepare(&a.Ask, now, r.Wall)
	}
	grant, votes := quorum.Grant{Start: now, TTL: c.Want.TTL, Drift: r.Drift, Grace: c.Want.Grace}, (*quorum.Acquire)(nil)
	if c.Want.Kind.HasSlots() {
		votes, a.Ask.Start = a.votes.BeginSlots(r.Nodes, grant), c.start(r)
	} else {
		votes = a.votes.Begin(r.Nodes, grant)
	}
	a.Round = Round{
		machine: votes, acquire: votes, form: of, id: form.ID{Key: n.key, Token: token}, grant: grant, to: to,
	}
}

// Won makes l the lock that the round of a call has won, for a holder who wants w. The replies to the commands of l are
// for to.
func (n *Name) Won(acts []Act, c *Call, w *Want, a *Acquire, l *Lease, to wire.Receiver) []Act {
	r, id := n.rules, a.id
	id.Number = a.votes.Fence()
	if f, ok := a.form.(form.Numbered); ok {
		now := r.Clock.Now()
		// However late Won is called, the nodes have granted the number by latest.
		if latest := a.grant.Start.Add(2 * r.Timeout); now.After(latest) {
			now = latest
		}
		f.Won(now, a.Ask, id.Number)
	}
	l.begin(n, id, w, a.votes.Lease(), a.Ask.Block, to)
	l.acquire = &a.Round
	switch {
	case !c.waits:
		n.tries--
		return acts
	case c.first:
		n.first = false
		if n.queue == nil {
			l.first = true
			return acts
		}
	}
	return n.queue.won(acts, r.Clock.Now(), c, l)
}

// Lost records that the round of a call was not won. A call that waits goes on. If it does not want to, Leave follows
// instead of Lost.
func (n *Name) Lost(acts []Act, c *Call, a *Acquire) []Act {
	if c.waits {
		if a.outcome == quorum.Denied {
			n.queue.pace.took(n.rules.Clock.Now().Sub(a.grant.Start))
		}
		if !a.votes.Slots() {
			n.queue.numbers.floor = max(n.queue.numbers.floor, a.votes.Highest())
		}
		return n.queue.lost(acts, n.rules.Clock.Now(), c)
	}
	n.tries--
	if n.rules.Pace.Heal > 0 && a.noExpiry() {
		return n.queued().denied(acts, n.rules.Clock.Now())
	}
	return acts
}

// GiveBack releases the lock that the round of a call has won, if the round was won. Nobody waits for the answers.
func (n *Name) GiveBack(acts []Act, a *Acquire) []Act {
	if a.outcome != quorum.Done {
		return acts
	}
	id := a.id
	id.Number = a.votes.Fence()
	return abandon(acts, a.form, id, a.grant.TTL, a.Nodes(), a.votes.MayHold)
}

// Again records that the round of a call on its turn was not won. Another round follows in the same turn, or Leave.
func (n *Name) Again(acts []Act, a *Acquire) []Act {
	n.queue.numbers.floor = max(n.queue.numbers.floor, a.votes.Highest())
	return n.GiveBack(acts, a)
}

// abandon releases a lock on the nodes that may hold it. Nobody waits for the answers.
func abandon(
	acts []Act, f form.Form, id form.ID, redeliver time.Duration, nodes int, mayHold func(node int) bool,
) []Act {
	release := new(wire.Command)
	f.Release(release, id, redeliver)
	for i := range nodes {
		if mayHold(i) {
			acts = append(acts, Act{Command: release, Tag: wire.Tag{What: Forgotten, Node: uint16(i)}})
		}
	}
	return acts
}

// Adopt makes l a lock that somebody else has taken, for a holder who wants w.
func (n *Name) Adopt(l *Lease, id form.ID, w *Want, lease quorum.Lease, to wire.Receiver) {
	l.begin(n, id, w, lease, 0, to)
}

// Release begins the release of a lock that is over, on the nodes that may hold it. exclusive is false if others may
// have the lock by now. The next call has its turn behind the release if nobody else can have the lock. It also has its
// turn then if the queue waits for the end of this lock. The replies are for to.
func (n *Name) Release(acts []Act, l *Lease, r *Release, now time.Time, exclusive bool, to wire.Receiver) []Act {
	r.Round = Round{
		machine: r.votes.Begin(&l.Lease, now), form: l.form(), id: l.ID(), grant: quorum.Grant{Start: now}, to: to,
	}
	r.form.Release(&r.command, r.id, l.Longest())
	return n.ended(r.send(acts, time.Time{}), l, exclusive)
}

// CleanUp releases, once, the keys that a lock may have left when it ended by itself. Nobody waits for the answers.
func (n *Name) CleanUp(acts []Act, l *Lease) []Act {
	if !l.Leftovers(n.rules.Clock.Now()) {
		return acts
	}
	return n.ended(abandon(acts, l.form(), l.ID(), l.Longest(), l.Nodes(), l.MayHold), l, false)
}

// ended gives the next call its turn behind a release.
func (n *Name) ended(acts []Act, l *Lease, exclusive bool) []Act {
	n.forget(l)
	q := n.queue
	switch {
	case q == nil:
	case exclusive && l.holder.Kind.HasSlots():
		return q.vacated(acts, n.rules.Clock.Now(), wire.Slot(l.number))
	case exclusive && !l.shared() || q.holder == l:
		return q.released(acts, n.rules.Clock.Now())
	}
	return acts
}

// Detach leaves a lock on the nodes for another process, which will release it there. From now on the calls that wait
// watch the nodes.
func (n *Name) Detach(acts []Act, l *Lease, h *quorum.Hold) []Act {
	now := n.rules.Clock.Now()
	l.Leave(now, h)
	n.forget(l)
	if l.acquire != nil {
		l.acquire.detached = new(detached)
	}
	if q := n.queue; q != nil && q.holder == l { // otherwise they watch the nodes already
		return q.detached(acts, now)
	}
	return acts
}

// Changed handles the announcement of a node that the key may have changed.
func (n *Name) Changed(acts []Act, node int) []Act {
	if n.queue != nil {
		acts = n.queue.changed(acts, node)
	}
	for l := n.leases; l != nil; l = l.next {
		if l.Tracked {
			acts = l.Changed(acts, node)
		}
	}
	return acts
}

// Removed handles the removal of the key on a node by somebody who frees the name. Unlike Changed it also observes the
// key for locks of which the nodes push no changes.
func (n *Name) Removed(acts []Act, node int) []Act {
	for l := n.leases; l != nil; l = l.next {
		acts = l.Changed(acts, node)
	}
	return acts
}

// Leases yields the locks of the name that were not over when the list was last pruned.
func (n *Name) Leases(yield func(*Lease) bool) {
	for l := n.leases; l != nil && yield(l); l = l.next {
	}
}

// Idle reports whether nothing is lost if the name is forgotten.
func (n *Name) Idle() bool {
	if n.leases == nil && n.queue == nil { // the usual case
		return n.tries == 0 && !n.first
	}
	now := n.rules.Clock.Now()
	n.prune(now)
	return n.tries == 0 && !n.first && n.leases == nil && (n.queue == nil || n.queue.discardable(now))
}

// prune forgets the locks that are over, and whose grace is over too.
func (n *Name) prune(now time.Time) {
	for l := &n.leases; *l != nil; {
		if (*l).Exclusive(now) {
			l = &(*l).next
		} else {
			*l = (*l).next
		}
	}
}

// forget drops a lock that is over. Shared locks may be many, so prune drops them later.
func (n *Name) forget(l *Lease) {
	if l.shared() {
		return
	}
	for at := &n.leases; *at != nil; at = &(*at).next {
		if *at == l {
			*at = l.next
			return
		}
	}
}
