package quorum

import (
	"slices"
	"time"
)

// While a process keeps the lock to its own waiters, each hand-over costs one round trip. Others wait meanwhile. See
// docs/adr/0006-waiting.md.
const (
	// maxWins is how many times in a row a process takes the lock while peers wait.
	maxWins = 6
	// maxLoneWins is the same while no peer is known. Clients of other libraries cannot announce themselves: after so many
	// times they get a gap of a few round trips.
	maxLoneWins = 48
	// maxPeers bounds the peers that are remembered, and so the length of a message. Others wait until the lock looks free.
	maxPeers = 256
)

// Queue orders the waiters of one process for one name. The one at the head contends for the lock, and the others
// get their turn when it has got the lock or gives up.
//
// A lock that is released in this process goes to the head of its queue: the round follows the release on the
// same connections. After some wins in a row the lock is handed over to another process: to the peer that has waited for
// the longest, if any have announced themselves.
type Queue[W comparable] struct {
	contender
	self    string // the owner part of this process's tokens
	waiters []W

	wins       int       // how many times in a row this process has taken the lock
	heldUntil  time.Time // this process has the lock until then, as far as is known; zero means that it does not
	releasedAt time.Time // when this process released it last
	yieldUntil time.Time // until then it is for others to take it

	peers      []string // other processes that wait; the first is the next
	announced  string   // the token whose holder knows that we wait; the message may be lost, so the next holder gets another
	handedOver []bool   // handedOver[i]: a peer's message that it is our turn has come through node i
	tryAgain   bool     // the lock was released for us during the round under way: another follows at once
}

// NewQueue makes an empty queue for a key on n nodes. self is the owner part of the tokens that are made here.
func NewQueue[W comparable](n int, self string, pace Pace) *Queue[W] {
	return &Queue[W]{
		contender: contender{pace: pace, nodes: make([]nodeState, n), rtt: pace.First},
		self:      self, handedOver: make([]bool, n),
	}
}

// Head returns the waiter that contends.
func (q *Queue[W]) Head() (w W, ok bool) {
	if len(q.waiters) == 0 {
		return w, false
	}
	return q.waiters[0], true
}

// Empty reports whether nobody waits.
func (q *Queue[W]) Empty() bool { return len(q.waiters) == 0 }

// Idle reports whether the queue can be discarded: nobody waits, nobody holds what he got in this queue, and others
// have had the time to take it.
func (q *Queue[W]) Idle(now time.Time) bool {
	return len(q.waiters) == 0 && q.heldUntil.IsZero() && !now.Before(q.yieldUntil)
}

// Deserted reports whether a release now would hand the lock over early: peers wait, and nobody waits here.
func (q *Queue[W]) Deserted() bool {
	return len(q.waiters) == 0 && len(q.peers) > 0 && q.wins < maxWins
}

// Seen returns what is known of the key on a node.
func (q *Queue[W]) Seen(node int) KeyState { return q.nodes[node].KeyState }

// Join puts w at the end of the queue.
func (q *Queue[W]) Join(now time.Time, w W) Actions {
	q.waiters = append(q.waiters, w)
	switch {
	case len(q.waiters) > 1 || q.trying:
		return Actions{Listen: true}
	case now.Before(q.heldUntil) || now.Before(q.yieldUntil):
		return q.next(now)
	case now.After(q.releasedAt.Add(q.yieldDelay())): // others could have taken it
		q.wins = 0
	}
	q.reset()
	return q.try()
}

// Leave takes out w, which gives up. The next waiter gets its turn: if w had a round under way, that has been stopped,
// and the next round follows its release.
func (q *Queue[W]) Leave(now time.Time, w W) Actions {
	i := slices.Index(q.waiters, w)
	if i < 0 {
		return Actions{}
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
	switch {
	case len(q.waiters) == 0:
		q.trying, q.tryAgain = false, false
		if now.Before(q.heldUntil) {
			return Actions{}
		}
		return q.handOver()
	case i == 0 && q.trying:
		q.trying = false
		return q.try()
	case i == 0:
		return q.next(now)
	}
	return Actions{}
}

// Won takes in that the head has won its round. It leaves the queue.
func (q *Queue[W]) Won(now time.Time, grant Grant) Actions {
	q.waiters = slices.Delete(q.waiters, 0, 1)
	// The gain of 1/8 is that of TCP's round-trip time estimate, RFC 6298.
	q.rtt += (min(now.Sub(grant.Start), q.pace.Most) - q.rtt) / 8
	q.reset()
	for i := range q.nodes {
		q.nodes[i].noTTLFrom = time.Time{} // changes are not followed while we hold the lock
	}
	q.wins++
	q.trying, q.tryAgain, q.announced = false, false, ""
	q.heldUntil, q.yieldUntil = grant.end(), time.Time{}
	clear(q.handedOver)
	return q.next(now)
}

// Lost takes in that the head has lost its round.
func (q *Queue[W]) Lost(now time.Time) Actions {
	q.heldUntil = time.Time{}
	clear(q.handedOver)
	if q.tryAgain {
		return q.try()
	}
	return q.lost(now)
}

// Unlocked takes in that this process's release has been sent to the nodes. What is sent now comes behind it.
func (q *Queue[W]) Unlocked(now time.Time) Actions {
	q.heldUntil, q.releasedAt = time.Time{}, now
	switch {
	case q.trying:
		q.tryAgain = true
		return Actions{}
	case len(q.waiters) > 0 && (q.wins < maxWins || q.wins < maxLoneWins && len(q.peers) == 0):
		return q.try()
	case len(q.waiters)+len(q.peers) == 0:
		return Actions{Listen: q.wins >= maxWins} // peers that cannot reach us would never get it
	}
	over := q.handOver().HandOver
	q.wins = 0
	q.yieldUntil = now.Add(q.yieldDelay())
	q.yield(now, q.yieldUntil, over != nil)
	actions := q.next(now)
	actions.HandOver, actions.Listen = over, true
	return actions
}

// Observed takes the answer to an observation.
func (q *Queue[W]) Observed(now time.Time, node int, seen KeyState) Actions {
	if q.trying || !q.heldUntil.IsZero() { // the round finds out
		q.nodes[node].observing = false
		return Actions{}
	}
	q.observed(now, node, seen)
	if seen.Held && seen.Owner != q.self && seen.Token == holder(q.nodes) {
		q.wins = 0
	}
	actions := q.next(now)
	if len(q.waiters) > 0 && seen.Owner != "" && seen.Owner != q.self && seen.Token != q.announced {
		q.announced = seen.Token
		actions.Announce = &Announce{node, seen.Owner}
	}
	return actions
}

// Healed takes the answer to the deletion of a key without a TTL. done is false if it was not deleted, or nobody knows.
func (q *Queue[W]) Healed(now time.Time, node int, done bool) Actions {
	q.nodes[node].assume(nodeState{KeyState: KeyState{Answered: done}})
	if done {
		return q.next(now)
	}
	return q.observeAgain(now, node)
}

// Invalidated takes the push that the key has changed on a node. Pushes come in order with the replies of that node. So a
// push that comes before the answer to an observation is about what happened before it, and that answer is current.
func (q *Queue[W]) Invalidated(now time.Time, node int) Actions {
	if !q.heldUntil.IsZero() {
		return Actions{}
	}
	n := &q.nodes[node]
	n.Tracked, n.noTTLFrom = false, time.Time{}
	if n.observing {
		return Actions{}
	}
	n.changed = true
	if q.spuriousWakes == 0 {
		q.probeAt = now.Add(q.yieldDelay()) // by then the other nodes have pushed it too
	}
	return q.next(now)
}

// TrackingActive takes in that a node pushes changes from now on, or that every key may have changed there. What was
// observed before has to be observed again. The answer to an observation that is under way comes afterwards, so it is
// current.
func (q *Queue[W]) TrackingActive(now time.Time, node int) Actions {
	return q.observeAgain(now, node)
}

// TrackingLost takes in that changes on a node may be missed, as its connection has ended.
func (q *Queue[W]) TrackingLost(now time.Time, node int) Actions {
	if !q.heldUntil.IsZero() {
		return Actions{}
	}
	q.nodes[node].Tracked = false
	if at := q.backOff(now, 0); q.pollAt.Before(at) {
		q.pollAt = at
	}
	return q.next(now)
}

// Tick takes in that the time of WakeAt has come.
func (q *Queue[W]) Tick(now time.Time) Actions { return q.next(now) }

// try begins a round for the head at once.
func (q *Queue[W]) try() Actions {
	q.trying, q.woken, q.tryAgain = true, false, false
	return Actions{Try: true}
}

// next decides what the head does now.
func (q *Queue[W]) next(now time.Time) Actions {
	switch {
	case q.trying || len(q.waiters) == 0:
		return Actions{}
	case now.Before(q.heldUntil):
		return Actions{WakeAt: q.heldUntil}
	case !q.heldUntil.IsZero(): // the lease is over, or was extended
		q.heldUntil = time.Time{}
		return q.try()
	}
	return q.contender.next(now)
}

// observeAgain is next, with an observation of a node if none is under way there.
func (q *Queue[W]) observeAgain(now time.Time, node int) Actions {
	n := &q.nodes[node]
	if n.observing || q.trying || len(q.waiters) == 0 || !q.heldUntil.IsZero() {
		return q.next(now)
	}
	n.observing = true
	actions := q.next(now)
	if actions.Try {
		n.observing = false // no observation is sent: the round finds out
		return actions
	}
	actions.Observe = append(actions.Observe, node)
	return actions
}
