package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// listener wakes the waiters of a Locker: nodes report to it what changes, and what peers publish.
type listener struct{ locker *Locker }

// Invalidated implements [node.Listener].
func (l listener) Invalidated(node int, key string) {
	if q := l.locker.queues.find(key); q != nil {
		q.do(func(now time.Time) quorum.Actions { return q.machine.Invalidated(now, node) })
	}
}

// TrackingActive implements [node.Listener].
func (l listener) TrackingActive(node int) {
	l.locker.queues.each(func(q *queue, now time.Time) quorum.Actions { return q.machine.TrackingActive(now, node) })
}

// TrackingLost implements [node.Listener].
func (l listener) TrackingLost(node int) {
	l.locker.queues.each(func(q *queue, now time.Time) quorum.Actions { return q.machine.TrackingLost(now, node) })
}

// Message implements [node.Listener].
func (l listener) Message(node int, text string) { l.locker.message(node, text) }
