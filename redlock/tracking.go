package redlock

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Lockers of different processes that want the same lock send messages to each other, over a channel for each
// Locker. A message is a hint: one that is lost or wrong costs time. Its lines are one of these words, the key, and the
// owner parts of Lockers; with holds it is another key.
//
// They are those of package lock, and holds: to the holder, for its log, that a call of the sender which waits holds the lock of the
// other key.
const holds = "holds"

const (
	maxKey = len("\n") + 2*maxNameBytes
	// maxMessage is the length of the longest message.
	maxMessage = len(lock.Waits) + maxKey + max(maxKey, lock.MaxPeers*(len("\n")+token.OwnerChars))
)

const _ = uint(wire.MaxPushed - maxMessage) // nodes drop what is longer than that

func channel(owner string) string { return "quorumlock:" + owner }

// Invalidated implements [node.Listener].
func (s *names) Invalidated(node int, key string) {
	if e := s.find(key); e != nil {
		e.doLocked(e.name.Changed(nil, node))
		e.unlock()
	}
}

// TrackingActive implements [node.Listener].
func (s *names) TrackingActive(node int) {
	s.each(func(e *entry) { e.doLocked(e.name.TrackingActive(nil, node)) })
	s.locker.observeAll(node)
}

// TrackingLost implements [node.Listener].
func (s *names) TrackingLost(node int) {
	s.each(func(e *entry) { e.doLocked(e.name.TrackingLost(nil, node)) })
}

// Message implements [node.Listener] for what a peer has published.
func (s *names) Message(node int, text string) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 {
		return
	}
	what, key, owners := lines[0], lines[1], lines[2:]
	if what == holds && len(owners) == 1 && s.locker.events.logs(slog.LevelWarn) {
		s.locker.opposed(key, owners[0])
		return
	}
	if slices.ContainsFunc(owners, func(owner string) bool { return len(owner) != token.OwnerChars }) {
		return // not one of ours
	}
	e := s.find(key)
	switch {
	case e == nil && what == lock.Yours && len(owners) > 0: // nobody waits here any more
		s.locker.publish(&lock.Message{What: lock.Yours, To: owners[0], Peers: owners[1:], Node: node}, key)
	case e == nil:
	case what == lock.Waits:
		e.name.PeersWait(owners)
		e.unlock()
	case what == lock.Yours:
		acts, first := e.name.TurnPassed(nil, node, owners)
		e.doLocked(acts)
		e.unlock()
		if events := &s.locker.events; first && events.wants(kindTurns) {
			events.emit(event.Turn{At: time.Now(), Name: s.locker.nameOf(key), Received: true, Waiting: len(owners)})
		}
	default:
		e.unlock()
	}
}

// publish sends a message about a key to another Locker.
func (l *Locker) publish(m *lock.Message, key string) {
	message := node.Publish(channel(m.To), strings.Join(append([]string{m.What, key}, m.Peers...), "\n"))
	since := time.Now()
	for i, n := range l.nodes {
		if m.Node == lock.AllNodes || m.Node == i {
			_ = n.Send(since, message, nil, wire.Tag{})
		}
	}
}
