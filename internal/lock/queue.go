package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
)

// queue is the state of the calls that wait for a name. The first of them is the head, which contends for the lock. The
// others get their turn when the head has got the lock or gives up.
//
// A lock that is released in this process goes to the head: its round follows the release on the same connections.
// After some wins in a row the turn passes to another process. If any peers have announced themselves, it passes to the
// peer that has waited for the longest.
type queue struct {
	key    string
	rules  *Rules
	state  state
	holder *Lease      // the lock that this process has, in state ours
	since  time.Time   // when a call here got the lock, or when the last lock here was over
	said   form.Demand // the demand that this process has said last, see tell
	wantAt time.Time   // when it is said again, or zero if nothing was said

	line    line
	turn    turn
	view    view
	pace    pace
	numbers numbers
	changes Changes
}

// Wait puts a call into the line, behind the calls that wait already. Its turn comes with an [Offer]. The call leaves
// the line with Won, HandOff, Leave or a [Foreign].
func (n *Name) Wait(acts []Act, c *Call) []Act {
	q, now := n.queued(), n.rules.Clock.Now()
	q.line.come(c)
	q.changes.kept = true
	c.writers = q.view.writers.count
	q.expire(now)
	paused := now.Before(q.turn.until)
	if c.Want.Kind.Several() && q.state == idle && !paused {
		return q.trySide(acts, c)
	}
	q.line.calls = append(q.line.calls, c)
	switch {
	case len(q.line.calls) > 1:
		return append(acts, Act{What: Listen})
	case q.state == ours:
		return q.next(acts, now)
	case paused:
		q.become(watching)
		return q.next(q.turn.comesBack(acts, q.self(), q.node()), now)
	}
	q.startsAgain()
	if c.Lost {
		return q.watch(acts, now)
	}
	return q.try(acts)
}

// Leave removes a call that gives up from the line. If the call had a round under way, that has been stopped, and the
// round of the next call follows its release.
func (n *Name) Leave(acts []Act, c *Call) []Act {
	q, now := n.queue, n.rules.Clock.Now()
	q.line.back(c)
	i := slices.Index(q.line.calls, c)
	if i < 0 {
		return acts
	}
	sight := q.sight()
	q.line.remove(i)
	first, last := i == 0, len(q.line.calls) == 0
	if first && q.state == trying {
		q.numbers.missed()
	}
	switch {
	case last:
		q.settle()
		q.turn.reset()
		q.view.forget()
		acts = q.tell(acts, nil)
		if q.holds(now) {
			return acts
		}
		return q.turn.pass(acts)
	case first && q.state == trying:
		return q.try(acts)
	case first && q.sight() != sight: // other locks are in the way of the new head
		q.reset()
		q.view.forget()
		q.view.observeAt = now
	}
	return q.next(acts, now)
}

// Tick goes on when the time of a [Wake] has come.
func (n *Name) Tick(acts []Act) []Act { return n.queue.next(acts, n.rules.Clock.Now()) }

// refuse ends the waits of all calls of the head's kind, as their lock cannot become free. The others find out whether
// that is true for them.
func (q *queue) refuse(acts []Act, now time.Time) []Act {
	kind, others := q.line.want().Kind, []*Call(nil)
	for _, c := range q.line.calls {
		if c.Want.Kind == kind {
			acts = append(acts, Act{What: Foreign, Call: c})
		} else {
			others = append(others, c)
		}
	}
	q.line.calls = others
	q.settle()
	if len(others) == 0 {
		return q.tell(acts, nil)
	}
	q.reset()
	q.view.forget()
	q.view.observeAt = now
	return q.next(acts, now)
}

// won records that a call won its round. The call is the head, unless it had a side round. It leaves the queue.
func (q *queue) won(acts []Act, now time.Time, c *Call, l *Lease) []Act {
	if q.line.back(c) != nil {
		return acts
	}
	q.line.remove(0)
	took := min(now.Sub(l.Start()), maxRTT)
	q.pace.took(took)
	q.numbers.won(took)
	q.reset()
	if c.Want.Kind.Several() {
		q.turn.wins, q.view.observeAt = 0, now
		for _, next := range q.line.followers(c.Want.Kind) {
			acts = q.trySide(acts, next)
		}
		q.become(q.rest())
		return q.next(q.turn.entrust(acts), now)
	}
	q.turn.wins++
	q.turn.keptFrom(l.Start(), q.turn.wins == 1, q.pace.rtt)
	q.numbers.floor = 0
	q.acquired(now, l)
	return q.next(acts, now)
}

// startsAgain prepares a queue without calls for a call that comes. If others have had their turn since the last
// release, the peers that the queue kept have told a later holder.
func (q *queue) startsAgain() {
	if len(q.turn.peers) > 0 && q.turn.othersHad(q.rules.Clock.Now(), max(q.pace.rtt, q.turn.slowest)) {
		q.turn.peers = nil
	}
	q.reset()
}

// reset drops the results of the rounds before. The next call tells the holder again that it waits.
func (q *queue) reset() {
	q.pace.reset()
	q.turn.reset()
	q.view.token, q.view.strangers.rounds = "", 0
}

// lost records that a call lost its round. A call that had a side round takes its place in the line again. The head
// then observes all nodes, with two exceptions. If the lock was released for it during the round, or if others poll,
// another round follows at once.
func (q *queue) lost(acts []Act, now time.Time, c *Call) []Act {
	q.line.width = 0
	if own := q.line.back(c); own != nil {
		if !q.line.rejoin(own, q.state == trying) {
			return append(acts, Act{What: Listen})
		}
		if q.holds(now) { // a writer that came later has got the lock
			return append(q.next(acts, now), Act{What: Listen})
		}
		q.view.forget() // other locks were in the way of a writer that came later
	}
	q.over(now)
	q.numbers.missed()
	if q.view.free(now) || q.view.insists(now) {
		return q.try(acts)
	}
	return q.watch(acts, now)
}

// watch plans an observation of all nodes, because a call has lost its round.
func (q *queue) watch(acts []Act, now time.Time) []Act {
	q.become(watching)
	q.pace.lost(now)
	q.view.observeAt = now
	return append(q.next(acts, now), Act{What: Listen})
}

// released records that this process has sent its release to the nodes. Commands that are sent now come behind it.
func (q *queue) released(acts []Act, now time.Time) []Act {
	q.over(now)
	q.turn.passing, q.turn.freedAt = false, now
	kept := q.turn.keptLong(now, q.rules.Pace.Handoff)
	switch {
	case q.state == trying:
		q.view.freed()
		return acts
	case q.state == watching && !kept && q.turn.again(q.view.contended(now)):
		return q.try(acts)
	case q.state == idle && len(q.turn.peers) == 0:
		if q.turn.wins >= maxWins || kept { // otherwise peers could not reach this process, and would never get the lock
			acts = append(acts, Act{What: Listen})
		}
		return acts
	}
	return q.offerCourtesy(acts, now)
}

// offerCourtesy leaves a lock that was released here to other processes for a moment.
func (q *queue) offerCourtesy(acts []Act, now time.Time) []Act {
	q.reset()
	for i := range q.view.nodes {
		q.view.nodes[i].forget()
		q.view.nodes[i].changed = true
	}
	if len(q.turn.peers) > 0 { // observe a node before the first round
		q.pace.wakes, q.pace.courtesy = 1, true
		q.turn.place, q.turn.gaveWay = placeBehind, true
		if len(q.line.calls) > 0 {
			q.turn.hear([]Peer{q.self()}, "")
		}
	}
	q.turn.wins, q.turn.until = 0, q.pace.courtesyEnds(now, q.turn.slowest)
	q.pace.notBefore, q.view.observeAt = q.turn.until, now.Add(observeEvery)
	return append(q.next(q.turn.pass(acts), now), Act{What: Listen})
}

// detached records that the holder has left the lock on the nodes, for another process to release. From now on the
// calls watch the nodes, as they do with any lock of another process.
func (q *queue) detached(acts []Act, now time.Time) []Act {
	q.over(now)
	q.turn.passing, q.turn.wins = false, 0
	if q.state == idle { // the next call that comes finds out
		return acts
	}
	q.reset()
	q.view.observeAt = now
	return append(q.next(acts, now), Act{What: Listen})
}

// self returns this process as a peer of others.
func (q *queue) self() Peer { return Peer{q.rules.Self, q.pace.rtt} }

// node returns a node at random, for a message.
func (q *queue) node() int { return int(q.rules.Pace.Random(time.Duration(q.rules.Nodes))) }

// discardable reports whether nothing is lost without the queue. No call waits or has a side round, no call has a lock
// from this queue, and others have had the time to take it. A lock that has expired does not count, because it may
// never be unlocked. The record of changes is kept for a while.
func (q *queue) discardable(now time.Time) bool {
	return len(q.line.calls)+len(q.line.side) == 0 && !q.holds(now) && !now.Before(q.turn.until) &&
		!q.changes.recent(now)
}

// Waiting returns the calls that wait, in the order in which they came. It leaves out a first call that has not lost a
// round. The caller must not change the result.
func (n *Name) Waiting() []*Call {
	switch {
	case n.queue == nil:
		return nil
	case n.first:
		return n.queue.line.calls[1:]
	}
	return n.queue.line.calls
}

// Waits reports whether calls wait, or have a side round. A first call that has not lost a round does not count.
func (n *Name) Waits() bool {
	return len(n.Waiting()) > 0 || n.queue != nil && len(n.queue.line.side) > 0
}

// Taken reports whether others are known to have the lock, or to have had it since an instant: other calls here, or
// other processes. It also returns true if some node was seen to hold the key, or if it is the turn of others. The name
// must have a queue.
func (n *Name) Taken(since time.Time) bool {
	q, now := n.queue, n.rules.Clock.Now()
	return q.state == ours || !q.since.Before(since) || now.Before(q.turn.until) ||
		q.view.count(func(n *nodeState) bool { return n.Exists && !n.stays() }) > 0
}

// Holder returns the owner part of the holder's token, and its metadata. If this process does not have the lock, an
// observation of a node has shown them.
func (n *Name) Holder() (owner, metadata string) {
	q := n.queue
	if q == nil {
		return "", ""
	}
	if q.state == ours && q.holder.At(n.rules.Clock.Now()) == quorum.NotEnded {
		return n.rules.Self, token.Metadata(q.holder.token)
	}
	for i := range q.view.nodes {
		if o := &q.view.nodes[i]; o.Exists {
			return o.Owner, token.Metadata(o.Token)
		}
	}
	return "", ""
}

// block returns how many numbers the round of the head asks for.
func (q *queue) block() uint64 {
	if q.rules.Pace.Handoff == 0 || len(q.line.calls) < 2 {
		return 1
	}
	return q.numbers.block()
}
