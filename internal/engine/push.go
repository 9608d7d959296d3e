package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Engines of different processes that want the same lock send messages to each other, over a channel for each
// Engine. A message is a hint: one that is lost or wrong costs time. Its lines are one of these words, the key, and the
// owner parts of Engines; with holds it is another key.
//
// They are those of package lock, and holds: to the holder, for its log, that a call of the sender which waits holds the lock of the
// other key.
const holds = "holds"

// MaxName is how many bytes a name may have, and as many the prefix that makes it a key.
const MaxName = 512

const (
	maxKeyLine = len("\n") + 2*MaxName
	// maxMessage is the length of the longest message.
	maxMessage = len(lock.Waits) + maxKeyLine + max(maxKeyLine, lock.MaxPeers*(len("\n")+token.OwnerChars))
)

const _ = uint(wire.MaxPushed - maxMessage) // nodes drop what is longer than that

func channel(owner string) string { return "quorumlock:" + owner }

// listen has the nodes report changes and messages, from the first wait or renewal on.
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
		n.Listen(g, i, channel(g.Self))
	}
}

// Invalidated implements [node.Listener].
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

// Changed implements [node.Listener]. As a rule a round of this Engine has changed the key, and knows the entry, which need not be looked up.
func (g *Engine) Changed(node int, key string, by wire.Receiver) {
	r, ok := by.(*Round)
	if !ok || r.entry.engine != g || r.entry.Name.Key() != key || !r.entry.changed(node) {
		g.Invalidated(node, key)
	}
}

// changed takes a change of the key by this process, unless the Engine has discarded the entry.
func (e *Entry) changed(node int) bool {
	e.Enter()
	defer e.Exit()
	if e.gone {
		return false
	}
	e.engine.watches.changed(e.Name.Key())
	e.doLocked(e.Name.Changed(nil, node))
	return true
}

// TrackingActive implements [node.Listener].
func (g *Engine) TrackingActive(node int) {
	g.watches.tracking(node, true)
	g.names.each(func(e *Entry) { e.doLocked(e.Name.TrackingActive(nil, node)) })
	g.sweep(node)
}

// TrackingLost implements [node.Listener].
func (g *Engine) TrackingLost(node int) {
	g.watches.tracking(node, false)
	g.names.each(func(e *Entry) { e.doLocked(e.Name.TrackingLost(nil, node)) })
}

// Message implements [node.Listener] for what a peer has published.
func (g *Engine) Message(node int, text string) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 {
		return
	}
	what, key, owners := lines[0], lines[1], lines[2:]
	if what == holds && len(owners) == 1 {
		g.Events.Opposed(key, owners[0])
		return
	}
	if slices.ContainsFunc(owners, func(owner string) bool { return len(owner) != token.OwnerChars }) {
		return // not one of ours
	}
	e := g.Find(key)
	switch {
	case e == nil && what == lock.Yours && len(owners) > 0: // nobody waits here
		g.publish(lock.PassTo(owners, node), key)
	case e == nil:
	case what == lock.Waits:
		e.Name.PeersWait(owners)
		e.Exit()
	case what == lock.Yours:
		acts, first := e.Name.TurnPassed(nil, node, owners)
		e.doLocked(acts)
		e.Exit()
		if first {
			g.Events.Turn(key, len(owners), true)
		}
	default:
		e.Exit()
	}
}

// Oppose tells the holder of a key, another process, that a call which waits for it holds the lock of another key.
func (g *Engine) Oppose(holder, key, other string) {
	g.publish(&lock.Message{What: holds, To: holder, Peers: []string{other}, Node: lock.AllNodes}, key)
}

// publish sends a message about a key to another Engine.
func (g *Engine) publish(m *lock.Message, key string) {
	message := node.Publish(channel(m.To), strings.Join(append([]string{m.What, key}, m.Peers...), "\n"))
	since := time.Now()
	for i, n := range g.Nodes {
		if m.Node == lock.AllNodes || m.Node == i {
			_ = n.Send(since, message, nil, wire.Tag{})
		}
	}
}

// maxObserving bounds the observations of one node that follow the loss of all that was known of it.
const maxObserving = 512

// sweep observes every key on a node, some at a time, as any of them may have changed. If that is under way, it is done
// once more afterwards.
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

// sweep finds out whether a node still holds the lock, unless an answer that will show it is under way. done is received from then.
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

// swept receives an observation that is one of many.
type swept struct {
	*Held
	done <-chan struct{}
}

// Reply implements [wire.Receiver].
func (s *swept) Reply(tag wire.Tag, reply *wire.Reply) {
	s.Held.Reply(tag, reply)
	if !reply.Late {
		<-s.done
	}
}
