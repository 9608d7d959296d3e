package lock

import (
	"slices"
)

// MaxPeers bounds the peers that are remembered, and so the length of a message. Others wait until the lock looks free.
const MaxPeers = 256

// PeersWait takes the message of another process that some wait for the lock.
func (n *Name) PeersWait(peers []string) {
	q := n.queue
	if q == nil {
		return
	}
	for _, who := range peers {
		if who != q.rules.Self && !slices.Contains(q.peers, who) && len(q.peers) < MaxPeers {
			q.peers = append(q.peers, who)
		}
	}
}

// TurnPassed takes the message of another process, as it arrives through a node, that it has passed the turn to this one. first
// reports that no other node has delivered it before.
//
// The message follows the release on each node, so the round begins when a majority of the nodes has delivered it.
func (n *Name) TurnPassed(acts []Act, node int, peers []string) (_ []Act, first bool) {
	q, now := n.queue, n.rules.Clock.Now()
	switch {
	case q == nil: // nobody waits here any more
		if len(peers) > 0 {
			acts = append(acts, Act{What: Publish, Message: &Message{What: Yours, To: peers[0], Peers: peers[1:], Node: node}})
		}
		return acts, false
	case q.holds(now): // the turn has been taken already
		return acts, false
	}
	first, q.turnCame = !q.turnCame, true
	q.nodes[node].freed()
	if !q.free(now) {
		return acts, first
	}
	n.PeersWait(peers)
	q.over(now)
	switch {
	case q.state == trying: // lost begins another
		return acts, first
	case len(q.calls) == 0:
		q.forget()
		return q.passTurn(acts), first
	}
	return q.try(acts), first
}
