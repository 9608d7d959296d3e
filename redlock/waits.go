package redlock

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/token"
)

const (
	longWait   = 10 * time.Second // a wait that is longer is logged
	waitPeriod = time.Minute      // and then once in it, while anybody waits for the name
	maxWaits   = 1024             // names that are logged in it; others are counted
)

// longWaits bounds how many lines there are about long waits.
type longWaits struct {
	mu     sync.Mutex
	from   time.Time // the period
	logged int       // names in it
	more   int       // that were not logged
}

// add reports whether one more name is to be logged, and if a period has ended, how many were not in it.
func (n *longWaits) add(now time.Time) (logs bool, before int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.from) >= waitPeriod {
		n.from, n.logged, before, n.more = now, 0, n.more, 0
	}
	if n.logged == maxWaits {
		n.more++
		return false, before
	}
	n.logged++
	return true, before
}

// logLongWait writes a line about a long wait for the name of a queue, if the level is logged and there are not too many.
func (l *Locker) logLongWait(level slog.Level, message string, args ...any) {
	if !l.events.logs(level) {
		return
	}
	logs, more := l.longWaits.add(l.clock.Now())
	if more > 0 {
		l.events.logLine(slog.LevelWarn, "redlock: more locks were waited for than are logged", "names", more)
	}
	if logs {
		l.events.logLine(level, message, args...)
	}
}

// noteWait sets the timer of logWait for a call that has joined the queue, unless it is set.
func (q *queue) noteWait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.noting:
		return
	case q.notice == nil:
		q.notice = q.locker.clock.AfterFunc(longWait, q.logWait)
	default:
		q.notice.Reset(longWait)
	}
	q.noting = true
}

// logWait logs the wait of the call that has waited for the longest, if that is long. If the call holds other locks, it looks for a
// call that has taken two of them in opposite order.
func (q *queue) logWait() {
	l := q.locker
	q.mu.Lock()
	now := l.clock.Now()
	w, waits := q.machine.Head()
	if q.noting = waits; !waits {
		q.mu.Unlock()
		return
	}
	waited := now.Sub(w.since)
	if waited < longWait {
		q.notice.Reset(longWait - waited)
		q.mu.Unlock()
		return
	}
	q.notice.Reset(waitPeriod)
	refusal, waiting := q.lastLocked(now, w, nil), q.machine.Len()
	owner, metadata := q.holderLocked()
	q.mu.Unlock()

	held := l.namesHeld(w.ctx)
	level := slog.LevelInfo
	if !errors.Is(refusal.Reason, ErrTaken) {
		level = slog.LevelWarn
	}
	l.logLongWait(level, "redlock: waits for a lock", "name", w.req.name, "waited", waited, "calls", waiting,
		"holder", metadata, "holds", held, "error", refusal)
	for _, name := range held {
		if l.waitsHolding(l.prefix+name, w.req.name) {
			l.logOpposed(q, name, "a call of this Locker")
		}
		if owner != "" && owner != l.self { // its process looks for a call of its own
			l.publish(owner, l.nodes, holds, q.key, l.prefix+name)
		}
	}
}

// holderLocked returns the owner part of the holder's token and its metadata: of this Locker, or as a node has shown them last.
func (q *queue) holderLocked() (owner, metadata string) {
	if q.holder != nil && q.holder.err() == nil {
		return q.locker.self, q.holder.first.req.metadata
	}
	for i := range q.locker.nodes {
		if seen := q.machine.Seen(i); seen.Held {
			return seen.Owner, token.Metadata(seen.Token)
		}
	}
	return "", ""
}

// opposed takes the message that a call of another process waits for one key, and holds another: a call of this Locker may have
// taken the two in opposite order.
func (l *Locker) opposed(wanted, held string) {
	if q := l.queues.find(held); q != nil && l.waitsHolding(held, l.nameOf(wanted)) {
		l.logOpposed(q, l.nameOf(wanted), "another process")
	}
}

// logOpposed logs that a call that holds the lock of a name waits in a queue, and another the other way round. The message of another
// process comes through every node, so there is one line in a while.
func (l *Locker) logOpposed(q *queue, name, other string) {
	now := l.clock.Now()
	q.mu.Lock()
	again := !q.opposed.IsZero() && now.Sub(q.opposed) < waitPeriod
	if !again {
		q.opposed = now
	}
	q.mu.Unlock()
	if !again {
		l.logLongWait(slog.LevelWarn, "redlock: two locks were taken in opposite order: each call waits for what the other holds",
			"holds", name, "name", l.nameOf(q.key), "other", other)
	}
}

// waitsHolding reports whether a call that waits for a key in this Locker holds the lock of a name.
func (l *Locker) waitsHolding(key, name string) bool {
	q := l.queues.find(key)
	if q == nil {
		return false
	}
	var waiting []context.Context
	q.mu.Lock()
	for _, w := range q.machine.Waiters() {
		waiting = append(waiting, w.ctx)
	}
	q.mu.Unlock()
	return slices.ContainsFunc(waiting, func(ctx context.Context) bool { return slices.Contains(l.namesHeld(ctx), name) })
}

// namesHeld returns the names of the locks of this Locker that the bearer of a context holds.
func (l *Locker) namesHeld(ctx context.Context) (names []string) {
	inner, _ := ctx.Value(contextLockKey{}).(*contextLock)
	for ; inner != nil; inner = inner.outer {
		if h := inner.held; h.locker == l && h.heldBy(inner.holder) {
			names = append(names, h.first.req.name)
		}
	}
	return names
}
