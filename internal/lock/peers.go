package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Processes that wait for a lock are in a list, which goes from holder to holder. A process that waits tells the holder
// ([Waits]). A holder that gives up its turn passes it to the first of the list ([Yours]), with the rest of the list. A
// process that has sent its list forgets it, so that each process is in one list.

// Message is a message to another process about the name. A message that is lost costs only time.
type Message struct {
	What  string // Waits or Yours
	To    string // the owner part of the tokens of the receiving process
	Peers []Peer // other processes, see What
	Node  int    // the node to publish it through, or AllNodes
}

// AllNodes is the Node of a message that is published through every node.
const AllNodes = -1

// The values of What in a Message.
const (
	Waits = "waits" // to the holder, or the process that comes first: the Peers wait
	Yours = "yours" // to the next process: the lock was released for it, and the Peers wait after it
)

// Peer is another process that waits for the lock.
type Peer struct {
	Owner string        // the owner part of its tokens
	RTT   time.Duration // how long its rounds take
}

const (
	// MaxPeers is how many peers are remembered at most. So it bounds the length of a message. Other peers wait until the
	// lock looks free.
	MaxPeers = 256
	// maxLag bounds how much time a peer that is far away gets to take the lock: twice this time.
	maxLag = 50 * time.Millisecond
)

// hear records that processes wait, but for one of them.
func (t *turn) hear(peers []Peer, but string) {
	if len(peers) > 0 {
		t.slowest -= t.slowest / 8
	}
	for _, p := range peers {
		t.slowest = max(t.slowest, min(p.RTT, maxLag))
		same := func(o Peer) bool { return o.Owner == p.Owner }
		if p.Owner != but && len(t.peers) < MaxPeers && !slices.ContainsFunc(t.peers, same) {
			t.peers = append(t.peers, p)
		}
	}
}

// pass passes the turn to the peer that has waited for the longest, if one is known.
func (t *turn) pass(acts []Act) []Act {
	if len(t.peers) > 0 {
		acts = publish(acts, passTo(t.peers, AllNodes))
		t.passedTo, t.peers = t.peers[0].Owner, nil
	}
	return acts
}

// passTo returns the message that passes the turn to the first of the peers.
func passTo(peers []Peer, node int) *Message {
	return &Message{What: Yours, To: peers[0].Owner, Peers: peers[1:], Node: node}
}

// announces appends the message to the holder that this process waits, and the peers after it. The answer is for
// [Name.Answered].
func (t *turn) announces(acts []Act, self Peer, holder string, node int) []Act {
	t.announce++
	t.place = placeUnknown
	m := &Message{What: Waits, To: holder, Peers: []Peer{self}, Node: node}
	for _, p := range t.peers {
		if p.Owner != holder && len(m.Peers) < MaxPeers {
			m.Peers = append(m.Peers, p)
		}
	}
	t.peers = nil
	tag := wire.Tag{What: Announce, Serial: t.announce, Node: uint16(node)} //nolint:gosec // there are few nodes
	return append(acts, Act{What: Publish, Message: m, Tag: tag})
}

// announced handles the answer to a message to the holder. heard reports that the holder gets messages.
func (t *turn) announced(serial uint32, heard bool) {
	if serial == t.announce && heard && t.place == placeUnknown {
		t.place = placeBehind
	}
}

// comesBack appends the message that this process waits again, to the one that it has passed the turn to a moment ago.
func (t *turn) comesBack(acts []Act, self Peer, node int) []Act {
	if t.passedTo == "" {
		return acts
	}
	return publish(acts, &Message{What: Waits, To: t.passedTo, Peers: []Peer{self}, Node: node})
}

// entrust gives the list of the peers to the first of them, which comes first from then on. A process that shares the
// lock does so, because nobody can see that it has the lock. So does one that waits to share it, and is kept out.
func (t *turn) entrust(acts []Act) []Act {
	if len(t.peers) > 1 {
		acts = publish(acts, &Message{What: Waits, To: t.peers[0].Owner, Peers: t.peers[1:], Node: AllNodes})
	}
	t.peers = nil
	return acts
}

// Forward returns the message of another process in the form in which it goes on, because no call here waits for the
// lock or has it. It goes to the next process of its list, but not back to the one that sent it. Forward returns nil if
// there is no such process.
func Forward(what string, peers []Peer, node int) *Message {
	switch {
	case what == Yours && len(peers) > 0:
		return passTo(peers, node)
	case what == Waits && len(peers) > 1: // the first may be the sender
		return &Message{What: Waits, To: peers[1].Owner, Peers: slices.Delete(slices.Clone(peers), 1, 2), Node: node}
	}
	return nil
}

// publish appends a message, unless m is nil.
func publish(acts []Act, m *Message) []Act {
	if m == nil {
		return acts
	}
	return append(acts, Act{What: Publish, Message: m})
}

// PeersWait handles the message of another process that peers wait for the lock. The message has arrived through a
// node. If no call here waits for the lock or has it, the message goes on. If it cannot, a queue that is still there
// keeps the list: a call may take the lock again soon.
func (n *Name) PeersWait(acts []Act, node int, peers []Peer) []Act {
	q, now := n.told(), n.rules.Clock.Now()
	if q == nil {
		m := Forward(Waits, peers, node)
		if m == nil && n.queue != nil {
			n.queue.turn.hear(peers, n.rules.Self)
		}
		return publish(acts, m)
	}
	q.turn.hear(peers, q.rules.Self)
	if n.has(now) || now.Before(q.turn.until) { // the sender does not know of the release yet
		return acts
	}
	q.turn.place = placeNext
	q.pace.comesFirst()
	return q.next(acts, now)
}

// TurnPassed handles the message of another process that it has passed the turn to this one. The message has arrived
// through a node. first reports that no other node has delivered it before.
//
// The message follows the release on each node, so the round begins when a majority of the nodes has delivered it.
func (n *Name) TurnPassed(acts []Act, node int, peers []Peer) (_ []Act, first bool) {
	q, now := n.told(), n.rules.Clock.Now()
	if q == nil {
		return publish(acts, Forward(Yours, peers, node)), false
	}
	q.turn.hear(peers, q.rules.Self)
	if n.has(now) { // this process has taken its turn already
		return acts, false
	}
	first, q.turn.came = !q.turn.came, true
	q.view.nodes[node].freed()
	if !q.view.free(now) {
		return acts, first
	}
	if q.over(now); q.state == trying { // lost begins another round
		return acts, first
	}
	return q.try(acts), first
}

// told returns the queue for a message of another process. It returns nil if the message is of no use: no call here
// waits for the lock or has it.
func (n *Name) told() *queue {
	now := n.rules.Clock.Now()
	if n.queue != nil {
		n.queue.expire(now)
	}
	if n.first || n.queue != nil && n.queue.state != idle || n.has(now) {
		return n.queued()
	}
	return nil
}

// has reports whether this process has a lock of the name that nobody shares.
func (n *Name) has(now time.Time) bool {
	if n.queue != nil && n.queue.holds(now) {
		return true
	}
	for l := range n.Leases {
		if !l.shared() && l.At(now) == quorum.NotEnded {
			return true
		}
	}
	return false
}
