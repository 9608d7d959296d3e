package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
)

// While a process keeps the lock to its own calls, each change of the holder costs one round trip. Others wait meanwhile. See
// docs/adr/0006-waiting.md.
const (
	// maxWins is how many times in a row a process takes the lock while peers wait.
	maxWins = 6
	// maxLoneWins is the same while neither a peer nor a client of another library is known to want the lock. Those clients
	// cannot announce themselves: they get a gap of a few round trips.
	maxLoneWins = 48
)

// queue has the calls that wait for a name. The first contends for the lock, and the others get their turn when it has got the lock
// or gives up.
//
// A lock that is released in this process goes to the first call: its round follows the release on the same connections. After some
// wins in a row the turn passes to another process: to the peer that has waited for the longest, if any have announced themselves.
type queue struct {
	key   string
	rules *Rules
	nodes []nodeState
	calls []*Call

	arrivals uint64  // of calls
	beside   []*Call // that have a round beside the queue, in no order
	width    int     // how many of those that want a permit are let go there behind one that has got it

	state  state
	holder *Term     // that this process has, in state ours
	since  time.Time // when that was, or when it was over
	floor  uint64    // the highest number that a lost round was granted since the last that was won

	wins       int       // how many times in a row this process has taken the lock
	first      time.Time // since when it has kept the lock to its own calls
	unlocked   time.Time // when it has released the lock last
	passing    bool      // the lock has been passed on in memory since it was taken
	yieldUntil time.Time // until then it is for others to take it

	peers    []string // other processes that wait; the first is the next
	seen     string   // the token that was observed last; its holder has been told that some wait here
	turnCame bool     // another process has passed the turn to this one since the last round that was won

	splitVotes    int           // rounds in a row that nobody has won
	polls         int           // rounds in a row that were lost to the same holder or to failing nodes
	spuriousWakes int           // wake-ups that did not lead to the lock
	yielding      bool          // a peer may be about to take the lock: what looks free is left to it for a moment
	rtt           time.Duration // smoothed duration of a round
	took          time.Duration // likewise, of those that were won, from 0 on
	strangers     strangers     // the clients of other libraries
	warned        bool          // that keys without a TTL are in the way
	wanting       bool          // those who would share the lock have been told that a writer waits
	healAt        time.Time     // when a call that does not wait has all nodes observed

	notBefore time.Time // of the next round, and of an observation of what has changed
	pollAt    time.Time // when a round begins though no node would push a change
	observeAt time.Time // when all nodes are observed
	wantAt    time.Time // when they are told again
	leftAt    time.Time // when a permit that was released here was left to others, though calls wait
}

// queued returns the queue, and makes it if there is none.
func (n *Name) queued() *queue {
	if n.queue == nil {
		n.queue = &queue{key: n.key, rules: n.rules, nodes: make([]nodeState, n.rules.Nodes), rtt: min(n.rules.Pace.First, maxRTT)}
	}
	return n.queue
}

// Wait has a call wait for the lock, behind those that wait already. It has its turn with an [Offer], and leaves with Won, Pass, Leave
// or a [Refuse].
func (n *Name) Wait(acts []Act, c *Call) []Act {
	q, now := n.queued(), n.rules.Clock.Now()
	c.waits, c.arrived = true, q.arrivals
	q.arrivals++
	if len(q.calls) == 0 && !q.holds(now) {
		q.over(now)
	}
	if c.shares() && q.state == idle && !now.Before(q.yieldUntil) {
		return q.goBeside(acts, c)
	}
	q.calls = append(q.calls, c)
	switch {
	case len(q.calls) > 1:
		return append(acts, Act{What: Listen})
	case q.state == ours:
		return q.next(acts, now)
	case now.Before(q.yieldUntil):
		q.become(watching)
		return q.next(acts, now)
	}
	q.reset()
	if c.Lost {
		return q.watch(acts, now)
	}
	return q.try(acts)
}

// Leave has a call wait no more, which gives up. If it had a round under way, that has been stopped, and the round of the next call
// follows its release.
func (n *Name) Leave(acts []Act, c *Call) []Act {
	q, now := n.queue, n.rules.Clock.Now()
	q.back(c)
	i := slices.Index(q.calls, c)
	if i < 0 {
		return acts
	}
	q.calls = slices.Delete(q.calls, i, i+1)
	if i == 0 && q.state == trying {
		q.missed()
	}
	if i == 0 && (len(q.calls) == 0 || q.calls[0].shares()) {
		acts = q.unwant(acts)
	}
	switch {
	case len(q.calls) == 0:
		if q.state != ours {
			q.settle()
		}
		q.forget()
		if q.holds(now) {
			return acts
		}
		return q.passTurn(acts)
	case i == 0 && q.state == trying:
		return q.try(acts)
	case i == 0 && q.calls[0].Want.sight() != c.Want.sight(): // which has seen the nodes otherwise
		q.reset()
		q.forget()
		q.observeAt = now
	}
	return q.next(acts, now)
}

// Tick takes it that the time of a [Wake] has come.
func (n *Name) Tick(acts []Act) []Act { return n.queue.next(acts, n.rules.Clock.Now()) }

// refuse ends all waits, as the lock cannot become free.
func (q *queue) refuse(acts []Act) []Act {
	for _, c := range q.calls {
		acts = append(acts, Act{What: Refuse, Call: c})
	}
	q.calls = nil
	q.settle()
	return q.unwant(acts)
}

// won takes it that a call has won its round: the first, unless it went beside the queue. It leaves the queue, and has the lock.
func (q *queue) won(acts []Act, now time.Time, c *Call, t *Term) []Act {
	if q.back(c) != nil {
		return acts
	}
	q.calls = slices.Delete(q.calls, 0, 1)
	// The gain of 1/8 is that of TCP's round-trip time estimate, RFC 6298.
	took := min(now.Sub(t.Start()), maxRTT)
	q.rtt += (min(took, q.rules.Pace.Most) - q.rtt) / 8
	q.took += (took - q.took) / 8
	q.reset()
	q.turnCame = false
	if c.shares() {
		q.wins, q.observeAt = 0, now
		acts = q.follow(acts, c.Want.Kind)
		q.settle()
		return q.next(acts, now)
	}
	q.wins++
	q.keptFrom(t.Start(), q.wins == 1)
	q.floor = 0
	q.acquired(now, t)
	return q.next(q.unwant(acts), now)
}

// reset drops what the rounds before have shown.
func (q *queue) reset() {
	q.splitVotes, q.polls, q.spuriousWakes, q.yielding, q.notBefore = 0, 0, 0, false, time.Time{}
	q.strangers.rounds = 0
}

// lost takes it that a call has lost its round. If it is the first, all nodes have to be observed, unless the lock was released for it
// during the round, or others poll: then another follows at once.
func (q *queue) lost(acts []Act, now time.Time, c *Call) []Act {
	q.width = 0
	if own := q.back(c); own != nil {
		if !q.rejoin(own) {
			return append(acts, Act{What: Listen})
		}
		if q.holds(now) { // a writer that came later has got the lock
			return append(q.next(acts, now), Act{What: Listen})
		}
		acts = q.unwant(acts) // a writer that came later has said that, and has seen the nodes otherwise
		q.forget()
	}
	q.over(now)
	q.missed()
	if q.free(now) || q.again(now) {
		return q.try(acts)
	}
	return q.watch(acts, now)
}

// watch has all nodes observed, as a round was lost.
func (q *queue) watch(acts []Act, now time.Time) []Act {
	pace := &q.rules.Pace
	q.become(watching)
	q.notBefore, q.pollAt, q.observeAt = pace.backOff(now, q.splitVotes), pace.backOff(now, q.polls), now
	q.splitVotes++
	q.polls++
	return append(q.next(acts, now), Act{What: Listen})
}

// released takes it that this process's release has been sent to the nodes. What is sent now comes behind it.
func (q *queue) released(acts []Act, now time.Time) []Act {
	q.over(now)
	q.passing, q.unlocked = false, now
	switch {
	case q.state == trying:
		for i := range q.nodes {
			q.nodes[i].freed()
		}
		return acts
	case len(q.calls) > 0 && !q.keptLong(now) && (q.wins < maxWins || q.wins < maxLoneWins && len(q.peers) == 0 && !q.contend(now)):
		return q.try(acts)
	case len(q.calls)+len(q.peers) == 0:
		if q.wins >= maxWins || q.keptLong(now) { // peers that cannot reach us would never get it
			acts = append(acts, Act{What: Listen})
		}
		return acts
	}
	q.reset()
	for i := range q.nodes {
		q.nodes[i].forget()
		q.nodes[i].changed = true
	}
	if len(q.peers) > 0 { // observe before the first round
		q.spuriousWakes, q.yielding = 1, true
	}
	q.yieldUntil = now.Add(q.yieldDelay())
	q.wins, q.notBefore, q.observeAt = 0, q.yieldUntil, now.Add(observeEvery)
	return append(q.next(q.passTurn(acts), now), Act{What: Listen})
}

// detached takes it that the holder has left the lock on the nodes, for another process to release. The calls watch the nodes from now
// on, as they do with any lock of another process.
func (q *queue) detached(acts []Act, now time.Time) []Act {
	q.over(now)
	q.passing, q.wins = false, 0
	if len(q.calls) == 0 { // the first of those who come later finds out
		return acts
	}
	q.reset()
	q.observeAt = now
	return append(q.next(acts, now), Act{What: Listen})
}

// idle reports whether the queue can be discarded: nobody waits, nobody holds what he got in this queue, and others have had the time to
// take it. A lock that has expired may never be unlocked.
func (q *queue) idle(now time.Time) bool {
	return len(q.calls)+len(q.beside) == 0 && !q.holds(now) && !now.Before(q.yieldUntil)
}

// Waiting returns the calls that wait, in the order in which they came. The caller does not change it.
func (n *Name) Waiting() []*Call {
	if n.queue == nil {
		return nil
	}
	return n.queue.calls
}

// Taken reports whether others, here or elsewhere, are known to have had the lock since an instant, or to have it: one of them has been
// seen to hold a node, or it is their turn. Something waits, or has waited.
func (n *Name) Taken(since time.Time) bool {
	q, now := n.queue, n.rules.Clock.Now()
	return q.holder != nil || !q.since.Before(since) || now.Before(q.yieldUntil) ||
		q.count(func(n *nodeState) bool { return n.Held && !n.stays() }) > 0
}

// Holder returns the owner part of the holder's token and its metadata: of this process, or as a node has shown them last.
func (n *Name) Holder() (owner, metadata string) {
	q := n.queue
	if q == nil {
		return "", ""
	}
	if q.holder != nil && q.holder.At(n.rules.Clock.Now()) == quorum.Held {
		return n.rules.Self, token.Metadata(q.holder.token)
	}
	for i := range q.nodes {
		if seen := &q.nodes[i]; seen.Held {
			return seen.Owner, token.Metadata(seen.Token)
		}
	}
	return "", ""
}

// block returns how many numbers to ask for in the round that begins: one for every two microseconds that rounds take. A process
// asks for no more in all, also in rounds that it does not win, than half the microseconds that the rounds took which it has won,
// as the estimate begins with 0 and lags. Rounds that win a name overlap by one at most, so that counters do not run ahead of the
// clocks; see docs/safety.md.
func (q *queue) block() uint64 {
	if q.rules.Pace.Handoff == 0 || len(q.calls) < 2 {
		return 1
	}
	return uint64(min(max(q.took.Microseconds()/2, 1), quorum.MaxBlock))
}

// missed takes it that a round was not won. The numbers that it asked for are used up where they were granted.
func (q *queue) missed() { q.took -= q.took / 8 }

// keptFrom takes it that this process has taken the lock. anew means that it was not the last to have it. So do others have had
// their turn if it has been free since for longer than a release waits for them.
func (q *queue) keptFrom(at time.Time, anew bool) {
	if anew || at.Sub(q.unlocked) >= 4*q.rtt {
		q.first = at
	}
}

// keptLong reports whether this process has kept the lock to its own calls for so long that it is the turn of others.
func (q *queue) keptLong(now time.Time) bool {
	handoff := q.rules.Pace.Handoff
	return q.wins > 0 && handoff > 0 && now.Sub(q.first) >= handoff
}

// passTurn passes the turn to the peer that has waited for the longest, if one is known.
func (q *queue) passTurn(acts []Act) []Act {
	if len(q.peers) > 0 {
		acts = append(acts, Act{What: Publish, Message: &Message{What: Yours, To: q.peers[0], Peers: q.peers[1:], Node: AllNodes}})
		q.peers = nil
	}
	return acts
}
