package quorum

import (
	"slices"
	"time"
)

// While a process keeps the lock to its own waiters, each change of the holder costs one round trip. Others wait meanwhile. See
// docs/adr/0006-waiting.md.
const (
	// maxWins is how many times in a row a process takes the lock while peers wait.
	maxWins = 6
	// maxLoneWins is the same while neither a peer nor a client of another library is known to want the lock. Those clients
	// cannot announce themselves: they get a gap of a few round trips.
	maxLoneWins = 48
	// MaxPeers bounds the peers that are remembered, and so the length of a message. Others wait until the lock looks free.
	MaxPeers = 256
)

// Queue orders the waiters of one process for one name. The one at the head contends for the lock, and the others
// get their turn when it has got the lock or gives up.
//
// A lock that is released in this process goes to the head of its queue: the round follows the release on the
// same connections. After some wins in a row the turn passes to another process: to the peer that has waited for the longest, if
// any have announced themselves.
type Queue[W comparable] struct {
	self    string // the owner part of this process's tokens
	pace    Pace
	nodes   []nodeState
	waiters []W

	wins       int       // how many times in a row this process has taken the lock
	first      time.Time // since when it has kept the lock to its own waiters
	unlocked   time.Time // when it has released the lock last
	passing    bool      // the lock has been passed on in memory since it was taken
	heldUntil  time.Time // this process has the lock until then, as far as is known; zero means that it does not
	yieldUntil time.Time // until then it is for others to take it

	peers []string // other processes that wait; the first is the next
	seen  string   // the token that was observed last; its holder has been told that we wait

	trying        bool          // a round is under way
	splitVotes    int           // rounds in a row that nobody has won
	polls         int           // rounds in a row that were lost to the same holder or to failing nodes
	spuriousWakes int           // wake-ups that did not lead to the lock
	yielding      bool          // a peer may be about to take the lock: what looks free is left to it for a moment
	rtt           time.Duration // smoothed duration of a round
	took          time.Duration // likewise, of those that were won, from 0 on
	strangers     strangers     // the clients of other libraries
	warned        bool          // that keys without a TTL are in the way
	healAt        time.Time     // when a call that does not wait has all nodes observed

	notBefore time.Time // of the next round, and of an observation of what has changed
	pollAt    time.Time // when a round begins though no node would push a change
	observeAt time.Time // when all nodes are observed
}

// NewQueue makes an empty queue for a key on n nodes. self is the owner part of the tokens that are made here.
func NewQueue[W comparable](n int, self string, pace Pace) *Queue[W] {
	return &Queue[W]{self: self, pace: pace, nodes: make([]nodeState, n), rtt: min(pace.First, maxRTT)}
}

// Head returns the waiter that contends.
func (q *Queue[W]) Head() (w W, ok bool) {
	if len(q.waiters) == 0 {
		return w, false
	}
	return q.waiters[0], true
}

// Len returns how many wait.
func (q *Queue[W]) Len() int { return len(q.waiters) }

// Waiters returns those who wait, the head first. The caller does not change it.
func (q *Queue[W]) Waiters() []W { return q.waiters }

// Idle reports whether the queue can be discarded: nobody waits, nobody holds what he got in this queue, and others
// have had the time to take it.
func (q *Queue[W]) Idle(now time.Time) bool {
	return len(q.waiters) == 0 && q.heldUntil.IsZero() && !now.Before(q.yieldUntil)
}

// Taken reports whether others are known to be in the way: one of them has been seen to hold a node, or it is their turn.
func (q *Queue[W]) Taken(now time.Time) bool {
	return now.Before(q.yieldUntil) || q.count(func(n *nodeState) bool { return n.Held && !n.Foreign }) > 0
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
	if i == 0 && q.trying {
		q.missed()
	}
	switch {
	case len(q.waiters) == 0:
		q.trying = false
		q.forget()
		if now.Before(q.heldUntil) {
			return Actions{}
		}
		return Actions{PassTurn: q.passTurn()}
	case i == 0 && q.trying:
		return q.try()
	}
	return q.next(now)
}

// Dismiss takes out all waiters, and returns them.
func (q *Queue[W]) Dismiss() []W {
	all := q.waiters
	q.waiters = nil
	return all
}

// Won records that the head has won its round. It leaves the queue.
func (q *Queue[W]) Won(now time.Time, grant Grant) Actions {
	q.waiters = slices.Delete(q.waiters, 0, 1)
	// The gain of 1/8 is that of TCP's round-trip time estimate, RFC 6298.
	took := min(now.Sub(grant.Start), maxRTT)
	q.rtt += (min(took, q.pace.Most) - q.rtt) / 8
	q.took += (took - q.took) / 8
	q.reset()
	q.keep()
	q.wins++
	q.keptFrom(grant.Start, q.wins == 1)
	q.trying = false
	q.heldUntil = grant.end()
	return q.next(now)
}

// keep records that this process has the lock.
func (q *Queue[W]) keep() {
	for i := range q.nodes {
		q.nodes[i].noTTLFrom = time.Time{} // changes are not followed while we hold the lock
	}
	q.seen, q.yieldUntil = "", time.Time{}
}

// reset drops what the rounds before have shown.
func (q *Queue[W]) reset() {
	q.splitVotes, q.polls, q.spuriousWakes, q.yielding, q.notBefore = 0, 0, 0, false, time.Time{}
	q.strangers.rounds = 0
}

// Lost records that the head has lost its round. All nodes have to be observed, unless the lock was released for us
// during the round, or others poll: then another follows at once.
func (q *Queue[W]) Lost(now time.Time) Actions {
	q.heldUntil = time.Time{}
	q.missed()
	if q.free(now) || q.again(now) {
		return q.try()
	}
	q.trying = false
	q.notBefore, q.pollAt, q.observeAt = q.pace.backOff(now, q.splitVotes), q.pace.backOff(now, q.polls), now
	q.splitVotes++
	q.polls++
	actions := q.next(now)
	actions.Listen = true
	return actions
}

// Unlocked records that this process's release has been sent to the nodes. What is sent now comes behind it.
func (q *Queue[W]) Unlocked(now time.Time) Actions {
	q.heldUntil, q.passing, q.unlocked = time.Time{}, false, now
	switch {
	case q.trying:
		for i := range q.nodes {
			q.nodes[i].freed()
		}
		return Actions{}
	case len(q.waiters) > 0 && !q.keptLong(now) && (q.wins < maxWins || q.wins < maxLoneWins && len(q.peers) == 0 && !q.contend(now)):
		return q.try()
	case len(q.waiters)+len(q.peers) == 0:
		return Actions{Listen: q.wins >= maxWins || q.keptLong(now)} // peers that cannot reach us would never get it
	}
	turn := q.passTurn()
	q.reset()
	for i := range q.nodes {
		q.nodes[i].forget()
		q.nodes[i].changed = true
	}
	if turn != nil { // observe before the first round
		q.spuriousWakes, q.yielding = 1, true
	}
	q.yieldUntil = now.Add(q.yieldDelay())
	q.wins, q.notBefore, q.observeAt = 0, q.yieldUntil, now.Add(observeEvery)
	actions := q.next(now)
	actions.PassTurn, actions.Listen = turn, true
	return actions
}

// Detached records that the holder has left the lock on the nodes, for another process to release. The waiters watch the nodes
// from now on, as they do with any lock of another process.
func (q *Queue[W]) Detached(now time.Time) Actions {
	q.heldUntil, q.passing, q.wins = time.Time{}, false, 0
	if q.trying || len(q.waiters) == 0 { // whose round finds out, as the first of those who come later will
		return Actions{}
	}
	q.reset()
	q.observeAt = now
	actions := q.next(now)
	actions.Listen = true
	return actions
}

// Observed takes the answer to an observation.
func (q *Queue[W]) Observed(now time.Time, node int, seen KeyState) Actions {
	n := &q.nodes[node]
	n.observing = false
	switch {
	case q.unattended():
		n.update(now, seen)
		return q.heal(now)
	case !q.watching(): // the round finds out
		return Actions{}
	}
	changed, token := n.changed, q.seen
	if n.update(now, seen) {
		q.strangers.tookTurn(now)
	}
	if q.blocked((*nodeState).isForeign) {
		return Actions{Hopeless: true}
	}
	contend := q.contend(now)
	if seen.Held && !seen.Foreign {
		q.seen = seen.Token
	}
	if seen.Held && !seen.Foreign && q.majority(func(n *nodeState) bool { return n.Held && n.Token == seen.Token }) {
		if q.splitVotes > 0 && !contend { // the round was lost to a holder, not to a split vote
			q.splitVotes, q.notBefore = 0, now
		}
		if seen.Owner != q.self {
			q.wins = 0
		}
	}
	switch {
	case !changed || contend:
	case q.seen != token: // the lock goes from hand to hand
		q.notBefore = now.Add(min(q.pace.double(q.spuriousWakes), q.pace.Most/8))
		q.spuriousWakes++
		q.polls, q.yielding = 0, true
	case n.free(now) && q.yielding: // a peer may be about to take it
		q.yielding, q.notBefore = false, now.Add(q.yieldDelay())
	}
	actions := q.next(now)
	if q.seen != token && seen.Owner != "" && seen.Owner != q.self {
		actions.Announce = &Announce{node, seen.Owner}
	}
	return actions
}

// Healed takes the answer to the deletion of a key without a TTL. done is false if it was not deleted, or nobody knows.
func (q *Queue[W]) Healed(now time.Time, node int, done bool) Actions {
	n := &q.nodes[node]
	n.observing = false
	if done {
		n.noTTLFrom = time.Time{}
	}
	if q.trying || len(q.waiters) > 0 && !q.watching() {
		return Actions{}
	}
	n.freed()
	n.Answered, n.toObserve = done, !done
	return q.next(now)
}

// Awaits reports whether Invalidated would change anything.
func (q *Queue[W]) Awaits(node int) bool {
	n := &q.nodes[node]
	return n.hasNoTTL() || !n.observing && q.watching()
}

// Invalidated takes the push that the key has changed on a node. Pushes come in order with the replies of that node. So a
// push that comes before the answer to an observation is about what happened before it, and that answer is current.
func (q *Queue[W]) Invalidated(now time.Time, node int) Actions {
	n := &q.nodes[node]
	n.noTTLFrom = time.Time{}
	if n.observing || !q.watching() {
		return Actions{}
	}
	n.Tracked, n.changed = false, true
	if soon := now.Add(q.pace.First); q.pollAt.Before(soon) { // others may follow
		q.pollAt = soon
	}
	return q.next(now)
}

// TrackingActive records that a node pushes changes from now on, or that every key may have changed there. What was
// observed before has to be observed again. The answer to an observation that is under way comes afterwards, so it is
// current.
func (q *Queue[W]) TrackingActive(now time.Time, node int) Actions {
	q.nodes[node].untracked()
	q.nodes[node].toObserve = true
	return q.next(now)
}

// TrackingLost records that changes on a node may be missed, as its connection has ended.
func (q *Queue[W]) TrackingLost(now time.Time, node int) Actions {
	q.nodes[node].untracked()
	return q.next(now)
}

// Tick is called when the time of WakeAt has come.
func (q *Queue[W]) Tick(now time.Time) Actions { return q.next(now) }
