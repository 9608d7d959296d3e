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

// HandOver is a message to another process, published through every node: the lock is released for it.
type HandOver struct {
	To    string
	Peers []string // the processes that wait after it
}

// handOver hands the lock to the peer that has waited for the longest, if one is known.
func (q *Queue[W]) handOver() (h *HandOver) {
	if len(q.peers) > 0 {
		h = &HandOver{To: q.peers[0], Peers: q.peers[1:]}
		q.peers = nil
	}
	return h
}

// PeerWaits takes the message of another process that it waits for the lock.
func (q *Queue[W]) PeerWaits(who string) {
	if who != q.self && !slices.Contains(q.peers, who) && len(q.peers) < MaxPeers {
		q.peers = append(q.peers, who)
	}
}

// HandedOver takes the message of another process that it has handed the lock to this one, as it arrives through a node. The
// message follows the release on each node, so the round begins when a majority of the nodes has delivered it.
func (q *Queue[W]) HandedOver(now time.Time, node int, peers []string) Actions {
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
		return Actions{HandOver: q.handOver()}
	}
	return q.try()
}
