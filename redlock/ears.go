package redlock

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// ears are told by the nodes what changes.
type ears Locker

// Changed implements [pool.Listener].
func (e *ears) Changed(node int, key string) {
	if q := e.queues.find(key); q != nil {
		q.do(func(now time.Time) quorum.Moves { return q.machine.Changed(now, node) })
	}
}

// Hearing implements [pool.Listener].
func (e *ears) Hearing(node int) {
	e.queues.each(func(q *queue, now time.Time) quorum.Moves { return q.machine.Hearing(now, node) })
}

// Deaf implements [pool.Listener].
func (e *ears) Deaf(node int) {
	e.queues.each(func(q *queue, now time.Time) quorum.Moves { return q.machine.Deaf(now, node) })
}

// Lockers of different processes that want the same lock tell each other so, over a channel
// for each Locker. A message is a hint: one that is lost or wrong costs time. Its lines are what it says, the
// key, and the owner parts of Lockers.
const (
	waits = "waits" // to the holder: the sender waits
	yours = "yours" // to the next: it has been released for you, and these wait after you
)

func channel(owner string) string { return "quorumlock:" + owner }

// Message implements [pool.Listener].
func (e *ears) Message(node int, text string) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 {
		return
	}
	what, key, owners := lines[0], lines[1], lines[2:]
	if slices.ContainsFunc(owners, func(owner string) bool { return len(owner) != ownerChars }) {
		return // not one of ours
	}
	q := e.queues.find(key)
	switch {
	case what == waits && q != nil:
		q.do(func(time.Time) quorum.Moves {
			for _, owner := range owners {
				q.machine.Heard(owner)
			}
			return quorum.Moves{}
		})
	case what == yours && q != nil:
		q.do(func(time.Time) quorum.Moves { return q.machine.Told(node, owners) })
	case what == yours && len(owners) > 0: // nobody waits here any more
		(*Locker)(e).tell(owners[0], []int{node}, yours, key, owners[1:])
	}
}

func (l *Locker) announce(key string, a *quorum.Announce) {
	l.tell(a.To, []int{a.Node}, waits, key, []string{l.self})
}

func (l *Locker) pass(key string, p *quorum.Pass) {
	all := make([]int, len(l.nodes))
	for i := range all {
		all[i] = i
	}
	l.tell(p.To, all, yours, key, p.Rivals)
}

// tell sends a message to another Locker through some nodes.
func (l *Locker) tell(to string, nodes []int, what, key string, owners []string) {
	message := pool.Publish(channel(to), strings.Join(append([]string{what, key}, owners...), "\n"))
	since := time.Now()
	for _, i := range nodes {
		l.nodes[i].Send(since, message, nil, i)
	}
}
