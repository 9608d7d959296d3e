package lock

import (
	"slices"
	"time"
)

// While a process keeps the lock to its own calls, each change of the holder costs one round trip. Others wait meanwhile. See
// docs/adr/0006-waiting.md.
const (
	// maxWins is how many times in a row a process takes the lock while peers wait.
	maxWins = 6
	// maxLoneWins is the same while no peer and no client of another library is known to want the lock. Such clients cannot announce
	// themselves: they get a gap of a few round trips.
	maxLoneWins = 48
	// MaxPeers bounds the peers that are remembered, and so the length of a message. Others wait until the lock looks free.
	MaxPeers = 256
)

// turn is how the lock goes from one process to another. A peer is another process that waits for it.
type turn struct {
	wins    int       // how many times in a row this process has taken the lock
	from    time.Time // since when it has kept the lock to its own calls
	freedAt time.Time // when it released the lock last
	passing bool      // the lock has gone from hand to hand in memory since it was taken
	until   time.Time // until then it is for others to take it
	peers   []string  // the first is the next
	came    bool      // a peer has passed the turn to this process since the last round that was won
}

// keptFrom records when this process took the lock, after others or not. If the lock was free for longer than a release waits, others have
// had their turn too.
func (t *turn) keptFrom(at time.Time, others bool, rtt time.Duration) {
	if others || at.Sub(t.freedAt) >= 4*rtt {
		t.from = at
	}
}

// keptLong reports whether this process has kept the lock to its own calls for so long that it is the turn of others. A handoff of 0 means never.
func (t *turn) keptLong(now time.Time, handoff time.Duration) bool {
	return t.wins > 0 && handoff > 0 && now.Sub(t.from) >= handoff
}

// again reports whether this process may take the lock once more before others do.
func (t *turn) again(contended bool) bool {
	return t.wins < maxWins || t.wins < maxLoneWins && len(t.peers) == 0 && !contended
}

// pass passes the turn to the peer that has waited for the longest, if one is known.
func (t *turn) pass(acts []Act) []Act {
	if len(t.peers) > 0 {
		acts = append(acts, Act{What: Publish, Message: PassTo(t.peers, AllNodes)})
		t.peers = nil
	}
	return acts
}

// PassTo is the message that passes the turn to the first of the peers.
func PassTo(peers []string, node int) *Message {
	return &Message{What: Yours, To: peers[0], Peers: peers[1:], Node: node}
}

// PeersWait takes the message of another process that some wait for the lock.
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

// TurnPassed takes the message of another process, as it arrives through a node, that it has passed the turn to this one. first
// reports that no other node has delivered it before.
//
// The message follows the release on each node, so the round begins when a majority of the nodes has delivered it.
func (n *Name) TurnPassed(acts []Act, node int, peers []string) (_ []Act, first bool) {
	q, now := n.told(), n.rules.Clock.Now()
	switch {
	case q == nil: // nobody waits here
		if len(peers) > 0 {
			acts = append(acts, Act{What: Publish, Message: PassTo(peers, node)})
		}
		return acts, false
	case q.holds(now): // the turn has been taken already
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
	case trying: // lost begins another
		return acts, first
	case idle:
		q.view.forget()
		return q.turn.pass(acts), first
	}
	return q.try(acts), first
}
