package lock

import "slices"

// Message is a message to another process about the name. A message that is lost costs only time.
type Message struct {
	What  string   // Waits or Yours
	To    string   // the owner part of the tokens of the receiving process
	Peers []string // the owner parts of other processes, see What
	Node  int      // the node to publish it through, or AllNodes
}

// AllNodes is the Node of a message that is published through every node.
const AllNodes = -1

// The values of What in a Message.
const (
	Waits = "waits" // to the holder: the Peers wait
	Yours = "yours" // to the next process: the lock was released for it, and the Peers wait after it
)

// MaxPeers is how many peers are remembered at most. So it bounds the length of a message. Other peers wait until the
// lock looks free.
const MaxPeers = 256

// pass passes the turn to the peer that has waited for the longest, if one is known.
func (t *turn) pass(acts []Act) []Act {
	if len(t.peers) > 0 {
		acts = append(acts, Act{What: Publish, Message: PassTo(t.peers, AllNodes)})
		t.peers = nil
	}
	return acts
}

// PassTo returns the message that passes the turn to the first of the peers.
func PassTo(peers []string, node int) *Message {
	return &Message{What: Yours, To: peers[0], Peers: peers[1:], Node: node}
}

// PeersWait handles the message of another process that peers wait for the lock.
func (n *Name) PeersWait(peers []string) {
	q := n.told()
	if q == nil {
		return
	}
	t := &q.turn
	for _, who := range peers {
		if who != q.rules.Self && !slices.Contains(t.peers, who) && len(t.peers) < MaxPeers {
			t.peers = append(t.peers, who)
		}
	}
}

// TurnPassed handles the message of another process that it has passed the turn to this one. The message has arrived
// through a node. first reports that no other node has delivered it before.
//
// The message follows the release on each node, so the round begins when a majority of the nodes has delivered it.
func (n *Name) TurnPassed(acts []Act, node int, peers []string) (_ []Act, first bool) {
	q, now := n.told(), n.rules.Clock.Now()
	switch {
	case q == nil: // no call here waits or has the lock
		if len(peers) > 0 {
			acts = append(acts, Act{What: Publish, Message: PassTo(peers, node)})
		}
		return acts, false
	case q.holds(now): // this process has taken its turn already
		return acts, false
	}
	first, q.turn.came = !q.turn.came, true
	q.view.nodes[node].freed()
	if !q.view.free(now) {
		return acts, first
	}
	n.PeersWait(peers)
	q.over(now)
	switch q.state {
	case trying: // lost begins another round
		return acts, first
	case idle:
		q.view.forget()
		return q.turn.pass(acts), first
	}
	return q.try(acts), first
}

// told returns the queue for a message of another process. It returns nil if the message is of no use: there is no
// queue, and no first call tries or has the lock.
func (n *Name) told() *queue {
	if n.queue == nil && !n.first && n.won() == nil {
		return nil
	}
	return n.queued()
}
