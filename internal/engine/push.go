package engine

import (
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Engines of different processes that want the same lock send messages to each other. Each Engine has a channel. A
// message is a hint: one that is lost or wrong only costs time.
//
// The first line of a message is a word: lock.Waits, lock.Yours or holds. The second line is a key. Behind lock.Waits
// and lock.Yours, each other line is about an Engine: the owner part of its tokens, a space, and how long its rounds
// take, in microseconds. Behind holds, the third line is another key.
//
// holds is for the log of the holder of the first key. It says that a call of the sender waits for that key, and holds
// the lock of the other key.
const holds = "holds"

// MaxName is how many bytes a name may have. The prefix of its key may have the same number of bytes.
const MaxName = 512

const (
	maxKeyLine = len("\n") + 2*MaxName
	// maxMessage is the length of the longest message.
	maxMessage = len(lock.Waits) + maxKeyLine + max(maxKeyLine, lock.MaxPeers*(len("\n ")+token.OwnerChars+maxDigits))
	maxDigits  = 10 // of a time
)

const _ = uint(wire.MaxPushed - maxMessage) // this does not compile if nodes would drop the longest message

// listen makes the nodes report changes and messages, from the first wait or renewal on.
func (g *Engine) listen() {
	if g.listening.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listening.Load() || g.closing.Err() != nil {
		return
	}
	g.listening.Store(true)
	for i, n := range g.Nodes {
		n.Listen(g, i, form.OwnerChannel(g.Self))
	}
}

// Invalidated handles the push that a key may have changed, or the demand of a waiting process. It implements
// [node.Listener].
func (g *Engine) Invalidated(node int, key string) {
	of, wanted := form.Wanted(key)
	g.watches.changed(of)
	e := g.Find(of)
	switch {
	case e == nil:
		return
	case wanted:
		e.doLocked(e.Name.WantChanged(nil, node))
	default:
		e.doLocked(e.Name.Changed(nil, node))
	}
	e.Exit()
}

// Changed handles a change of a key by a command of this process. It implements [node.Listener]. Usually a round of
// this Engine has changed the key. The round knows the entry, so it need not be looked up, and the change and the reply
// take its mutex once.
func (g *Engine) Changed(node int, key string, by wire.Receiver, tag wire.Tag, reply *wire.Reply) (replied bool) {
	r, ok := by.(*Round)
	if !ok || r.entry.engine != g || r.entry.Name.Key() != key {
		g.Invalidated(node, key)
		return false
	}
	e := r.entry
	e.Enter()
	if e.gone {
		e.Exit()
		g.Invalidated(node, key)
		return false
	}
	g.watches.changed(key)
	e.doLocked(e.Name.Changed(nil, node))
	if reply != nil {
		r.replyLocked(tag, reply)
	}
	e.Exit()
	return reply != nil
}

// TrackingActive observes the keys on a node again, because they may have changed unnoticed. It implements
// [node.Listener].
func (g *Engine) TrackingActive(node int) {
	g.watches.tracking(node, true)
	g.names.each(func(e *Entry) { e.doLocked(e.Name.TrackingActive(nil, node)) })
	g.sweep(node)
}

// TrackingLost records for all names that changes on a node may go unnoticed. It implements [node.Listener].
func (g *Engine) TrackingLost(node int) {
	g.watches.tracking(node, false)
	g.names.each(func(e *Entry) { e.doLocked(e.Name.TrackingLost(nil, node)) })
}

// Message handles the message of another Engine. It implements [node.Listener].
func (g *Engine) Message(node int, text string) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 {
		return
	}
	what, key, rest := lines[0], lines[1], lines[2:]
	if what == holds && len(rest) == 1 {
		g.Events.Opposed(key, rest[0])
		return
	}
	peers, ok := parsePeers(rest)
	if !ok {
		return // not a message of an Engine
	}
	e := g.Find(key)
	if e == nil { // no call here waits for the lock or has it
		if m := lock.Forward(what, peers, node); m != nil {
			g.publish(m, key, nil, wire.Tag{})
		}
		return
	}
	acts, turn := []lock.Act(nil), false
	switch what {
	case lock.Waits:
		acts = e.Name.PeersWait(nil, node, peers)
	case lock.Yours:
		acts, turn = e.Name.TurnPassed(nil, node, peers)
	}
	e.doLocked(acts)
	e.Exit()
	if turn {
		g.Events.Turn(key, len(peers), true)
	}
}

// parsePeers parses the lines about Engines in a message.
func parsePeers(lines []string) (peers []lock.Peer, ok bool) {
	for _, line := range lines {
		owner, rtt, _ := strings.Cut(line, " ")
		us, err := strconv.ParseUint(rtt, 10, 32)
		if err != nil || len(owner) != token.OwnerChars {
			return nil, false
		}
		peers = append(peers, lock.Peer{Owner: owner, RTT: time.Duration(us) * time.Microsecond})
	}
	return peers, true
}

// Oppose sends a message to the holder of a key, another process. It says that a call of this process waits for the
// key, and holds the lock of another key.
func (g *Engine) Oppose(holder, key, other string) {
	g.cast(message(holder, holds, key, other), lock.AllNodes, nil, wire.Tag{})
}

// publish sends a message about a key to another Engine. The replies are for to, unless that is nil.
func (g *Engine) publish(m *lock.Message, key string, to wire.Receiver, tag wire.Tag) {
	var lines []string
	for _, p := range m.Peers {
		lines = append(lines, p.Owner+" "+strconv.FormatInt(p.RTT.Microseconds(), 10))
	}
	g.cast(message(m.To, m.What, key, lines...), m.Node, to, tag)
}

// message returns the command that sends a message to an Engine.
func message(to, what, key string, lines ...string) *wire.Command {
	return node.Publish(form.OwnerChannel(to), strings.Join(append([]string{what, key}, lines...), "\n"))
}

// cast sends a command to a node, or to all nodes ([lock.AllNodes]). The replies are for to, unless that is nil. Nobody
// is told that a node does not accept the command.
func (g *Engine) cast(c *wire.Command, node int, to wire.Receiver, tag wire.Tag) {
	since := time.Now()
	for i, n := range g.Nodes {
		if node == lock.AllNodes || node == i {
			_ = n.Send(since, c, to, tag)
		}
	}
}

// maxObserving bounds the observations of one node that a sweep has under way at a time.
const maxObserving = 512

// sweep observes each tracked key on a node, maxObserving at a time, because any of them may have changed. If a sweep
// of the node is under way, it begins once more when it has ended.
func (g *Engine) sweep(node int) {
	wanted := &g.sweeps[node]
	if wanted.Add(1) > 1 || !g.Begin() {
		return
	}
	go func() {
		defer g.End()
		observing := make(chan struct{}, maxObserving)
		for more := true; more; {
			before := wanted.Load()
			var all []*Held
			g.names.each(func(e *Entry) {
				for l := range e.Name.Leases {
					if l.Tracked {
						all = append(all, l.To().(*Held))
					}
				}
			})
			for _, h := range all {
				select {
				case observing <- struct{}{}:
					h.sweep(node, observing)
				case <-g.closing.Done():
					return
				}
			}
			more = !wanted.CompareAndSwap(before, 0)
		}
	}()
}

// sweep asks a node whether it still holds the lock, unless an answer that will show this is under way. It receives
// from done when the observation has ended, or at once if there is none.
func (h *Held) sweep(node int, done <-chan struct{}) {
	h.Enter()
	acts := h.Lease.Changed(nil, node)
	if len(acts) == 0 {
		<-done
	}
	for i := range acts {
		acts[i].To = &swept{h, done}
	}
	h.doLocked(acts)
	h.Exit()
}

// swept is the receiver of one observation of a sweep.
type swept struct {
	*Held
	done <-chan struct{}
}

// Reply hands the answer to the lock. Unless the answer is late, it also receives from done. It implements
// [wire.Receiver].
func (s *swept) Reply(tag wire.Tag, reply *wire.Reply) {
	s.Held.Reply(tag, reply)
	if !reply.Late {
		<-s.done
	}
}
