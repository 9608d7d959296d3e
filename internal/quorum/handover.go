package quorum

import "slices"

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
func (q *Queue[W]) handOver() Actions {
	if len(q.peers) == 0 {
		return Actions{}
	}
	h := &HandOver{To: q.peers[0], Peers: q.peers[1:]}
	q.peers = nil
	return Actions{HandOver: h}
}

// PeerWaits takes the message of another process that it waits for the lock.
func (q *Queue[W]) PeerWaits(who string) {
	if who != q.self && !slices.Contains(q.peers, who) && len(q.peers) < maxPeers {
		q.peers = append(q.peers, who)
	}
}

// HandedOver takes the message of another process that it has handed the lock to this one, as it arrives through a node. The
// message follows the release on each node, so the round begins when a majority of the nodes has delivered it.
func (q *Queue[W]) HandedOver(node int, peers []string) Actions {
	if !q.heldUntil.IsZero() {
		return Actions{} // this process has got the lock already
	}
	q.handedOver[node] = true
	count := 0
	for _, is := range q.handedOver {
		if is {
			count++
		}
	}
	if count != Majority(len(q.handedOver)) {
		return Actions{}
	}
	for _, who := range peers {
		q.PeerWaits(who)
	}
	if len(q.waiters) == 0 {
		clear(q.handedOver)
		return q.handOver()
	}
	if q.trying {
		q.tryAgain = true
		return Actions{}
	}
	return q.try()
}
