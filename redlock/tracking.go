package redlock

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Lockers of different processes that want the same lock send messages to each other, over a channel for each
// Locker. A message is a hint: one that is lost or wrong costs time. Its lines are one of these words, the key, and the
// owner parts of Lockers; with holds it is another key.
const (
	waits = "waits" // to the holder: the sender waits
	yours = "yours" // to the next: the lock was released for it, and these wait after it
	holds = "holds" // to the holder, for its log: a call of the sender that waits holds the lock of the other key
)

const (
	maxKey = len("\n") + 2*maxNameBytes
	// maxMessage is the length of the longest message.
	maxMessage = len(waits) + maxKey + max(maxKey, quorum.MaxPeers*(len("\n")+token.OwnerChars))
)

const _ = uint(wire.MaxPushed - maxMessage) // nodes drop what is longer than that

func channel(owner string) string { return "quorumlock:" + owner }

// Invalidated implements [node.Listener].
func (s *queues) Invalidated(node int, key string) {
	if q := s.find(key); q != nil && q.awaits(node) {
		q.do(func(now time.Time) quorum.Actions { return q.machine.Invalidated(now, node) })
	}
	s.locker.watched.invalidated(node, key)
}

// TrackingActive implements [node.Listener].
func (s *queues) TrackingActive(node int) {
	s.each(func(q *queue, now time.Time) quorum.Actions { return q.machine.TrackingActive(now, node) })
	s.locker.observeAll(node)
}

// TrackingLost implements [node.Listener].
func (s *queues) TrackingLost(node int) {
	s.each(func(q *queue, now time.Time) quorum.Actions { return q.machine.TrackingLost(now, node) })
	s.locker.watched.trackingLost(node)
}

// Message implements [node.Listener] for what a peer has published.
func (s *queues) Message(node int, text string) {
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
	q := s.find(key)
	switch {
	case what == waits && q != nil:
		q.do(func(time.Time) quorum.Actions {
			for _, owner := range owners {
				q.machine.PeerWaits(owner)
			}
			return quorum.Actions{}
		})
	case what == yours && q != nil:
		received := false
		q.do(func(now time.Time) quorum.Actions {
			if q.holder == nil || q.holder.err() != nil { // else the turn has been taken already
				received, q.turnCame = !q.turnCame, true // the message comes from every node
			}
			return q.machine.TurnPassed(now, node, owners)
		})
		if e := &s.locker.events; received && e.wants(kindTurns) {
			e.emit(event.Turn{At: time.Now(), Name: s.locker.nameOf(key), Received: true, Waiting: len(owners)})
		}
	case what == yours && len(owners) > 0: // nobody waits here any more
		s.locker.publish(owners[0], s.locker.nodes[node:node+1], yours, key, owners[1:]...)
	}
}

// publish sends a message to another Locker through some nodes.
func (l *Locker) publish(to string, nodes []*node.Node, what, key string, more ...string) {
	message := node.Publish(channel(to), strings.Join(append([]string{what, key}, more...), "\n"))
	since := time.Now()
	for _, n := range nodes {
		_ = n.Send(since, message, nil, wire.Tag{})
	}
}
