package lock

import (
	"slices"
	"time"
)

// While a process keeps the lock to its own calls, each change of the holder costs one round trip. Other processes wait
// meanwhile. See docs/adr/0006-waiting.md.
const (
	// maxWins is how many times in a row a process takes the lock while peers wait.
	maxWins = 6
	// maxLoneWins is the same while no peer and no client of another library is known to want the lock. Such clients
	// cannot announce themselves, so they get a gap of a few round trips.
	maxLoneWins = 48
	// MaxPeers is how many peers are remembered at most. So it bounds the length of a message. Other peers wait until the
	// lock looks free.
	MaxPeers = 256
)

// turn is the state of the turns in which processes take the lock. A peer is another process that waits for it.
type turn struct {
	wins    int       // how many times in a row this process has taken the lock
	from    time.Time // since when this process has kept the lock to its own calls
	freedAt time.Time // when it released the lock last
	passing bool      // the lock has gone from hand to hand in memory since it was taken
	until   time.Time // until then it is the turn of other processes
	peers   []string  // the owner parts of the peers; the first is the next
	came    bool      // a peer has passed the turn to this process since the last round that was won
}

// keptFrom records that this process has kept the lock to its own calls since at, if others had it before. If the lock
// was free for longer than a release waits, others have had their turn too.
func (t *turn) keptFrom(at time.Time, others bool, rtt time.Duration) {
	if others || at.Sub(t.freedAt) >= 4*rtt {
		t.from = at
	}
}

// keptLong reports whether this process has kept the lock to its own calls for at least handoff. Then it is the turn of
// others. A handoff of 0 means never.
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
