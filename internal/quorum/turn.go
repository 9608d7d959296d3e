package quorum

import (
	"slices"
	"time"
)

// Announce is a message to the process that holds the lock: a peer waits in this one.
type Announce struct {
	Node int // to publish it through
	To   string
}

// Turn is a message to another process, published through every node: it is its turn, as the lock is released for it.
type Turn struct {
	To    string
	Peers []string // the processes that wait after it
}

// passTurn passes the turn to the peer that has waited for the longest, if one is known.
func (q *Queue[W]) passTurn() (t *Turn) {
	if len(q.peers) > 0 {
		t = &Turn{To: q.peers[0], Peers: q.peers[1:]}
		q.peers = nil
	}
	return t
}

// PeerWaits takes the message of another process that it waits for the lock.
func (q *Queue[W]) PeerWaits(who string) {
	if who != q.self && !slices.Contains(q.peers, who) && len(q.peers) < MaxPeers {
		q.peers = append(q.peers, who)
	}
}

// TurnPassed takes the message of another process that it has passed the turn to this one, as it arrives through a node. The
// message follows the release on each node, so the round begins when a majority of the nodes has delivered it.
func (q *Queue[W]) TurnPassed(now time.Time, node int, peers []string) Actions {
	if !q.heldUntil.IsZero() {
		return Actions{} // this process has got the lock already
	}
	q.nodes[node].freed()
	if !q.free(now) {
		return Actions{}
	}
	for _, who := range peers {
		q.PeerWaits(who)
	}
	switch {
	case q.trying: // Lost begins another
		return Actions{}
	case len(q.waiters) == 0:
		q.forget()
		return Actions{PassTurn: q.passTurn()}
	}
	return q.try()
}
