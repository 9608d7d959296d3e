package redlock

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
)

const (
	longWait   = 10 * time.Second // a wait that is longer is logged
	waitPeriod = time.Minute      // and then once in it, while anybody waits for the name
	maxWaits   = 1024             // names that are logged in it; others are counted
	maxRing    = 64               // names that are looked at for a ring
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
func (e *entry) noteWait() {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch q := e.waiting; {
	case q.noting:
		return
	case q.notice == nil:
		q.notice = e.locker.clock.AfterFunc(longWait, e.logWait)
	default:
		q.notice.Reset(longWait)
	}
	e.waiting.noting = true
}

// logWait logs the wait of the call that has waited for the longest, if that is long.
func (e *entry) logWait() {
	l := e.locker
	e.mu.Lock()
	now, q, waiting := l.clock.Now(), e.waiting, e.name.Waiting()
	if q.noting = len(waiting) > 0; !q.noting {
		e.mu.Unlock()
		return
	}
	w := waiting[0].Of.(*waiter)
	waited := now.Sub(w.since)
	if waited < longWait {
		q.notice.Reset(longWait - waited)
		e.mu.Unlock()
		return
	}
	q.notice.Reset(waitPeriod)
	refusal, calls := e.lastLocked(w, nil), len(waiting)
	_, metadata := e.name.Holder()
	e.mu.Unlock()

	level := slog.LevelInfo
	if !errors.Is(refusal.Reason, ErrTaken) {
		level = slog.LevelWarn
	}
	l.logLongWait(level, "redlock: waits for a lock", "name", w.req.name, "waited", waited, "calls", calls,
		"holder", metadata, "holds", l.namesHeld(w.ctx), "error", refusal)
	e.logRing(w)
}

// logRing logs the ring of calls that wait for each other, if w is part of one. Of a ring over several processes each looks for its
// own part, which has to be one call.
func (e *entry) logRing(w *waiter) {
	l := e.locker
	held := l.namesHeld(w.ctx)
	if len(held) == 0 {
		return
	}
	if ring := l.ring(held, w.req.name); ring != nil {
		e.logRingOnce(ring, "calls of this Locker")
	}
	e.mu.Lock()
	owner, _ := e.name.Holder()
	e.mu.Unlock()
	for _, name := range held {
		if owner != "" && owner != l.self {
			l.publish(&lock.Message{What: holds, To: owner, Peers: []string{l.prefix + name}, Node: lock.AllNodes}, e.name.Key())
		}
	}
}

// ring returns the names of the locks of calls of this Locker that wait for each other, nil if there is no ring: the call that waits for
// wanted holds the first, and each other is held by a call that waits for the one before it; wanted is the last.
func (l *Locker) ring(held []string, wanted string) []string {
	next, seen := map[string]string{}, slices.Clone(held)
	for i := 0; i < len(seen) && i < maxRing; i++ {
		for _, ctx := range l.waitingFor(seen[i]) {
			for _, name := range l.namesHeld(ctx) {
				if name == wanted {
					ring := []string{wanted}
					for name := seen[i]; name != ""; name = next[name] {
						ring = append(ring, name)
					}
					slices.Reverse(ring)
					return ring
				}
				if !slices.Contains(seen, name) {
					next[name], seen = seen[i], append(seen, name)
				}
			}
		}
	}
	return nil
}

// opposed takes the message that a call of another process waits for one key, and holds another: a call of this Locker may have
// taken the two in opposite order.
func (l *Locker) opposed(wanted, held string) {
	name := l.nameOf(wanted)
	for _, ctx := range l.waitingFor(l.nameOf(held)) {
		if slices.Contains(l.namesHeld(ctx), name) {
			if e := l.names.find(held); e != nil {
				e.mu.Unlock()
				e.logRingOnce([]string{name, l.nameOf(held)}, "another process")
			}
			return
		}
	}
}

// logRingOnce logs a ring of which a call of the queue is part. The message of another process comes through every node, and calls of
// a ring find the same, so there is one line in a while.
func (e *entry) logRingOnce(ring []string, others string) {
	e.mu.Lock()
	now, q := e.locker.clock.Now(), e.waiting
	again := q == nil || !q.ringLogged.IsZero() && now.Sub(q.ringLogged) < waitPeriod
	if !again {
		q.ringLogged = now
	}
	_, metadata := e.name.Holder()
	e.mu.Unlock()
	if !again {
		e.locker.logLongWait(slog.LevelWarn, "redlock: calls wait for each other, as they took locks in different orders",
			"names", ring, "name", ring[len(ring)-1], "holds", ring[0], "others", others, "holder", metadata)
	}
}

// waitingFor returns the contexts of the calls that wait for a name in this Locker.
func (l *Locker) waitingFor(name string) (waiting []context.Context) {
	e := l.names.find(l.prefix + name)
	if e == nil {
		return nil
	}
	defer e.mu.Unlock()
	for _, c := range e.name.Waiting() {
		waiting = append(waiting, c.Of.(*waiter).ctx)
	}
	return waiting
}

// namesHeld returns the names of the locks of this Locker that the bearer of a context holds.
func (l *Locker) namesHeld(ctx context.Context) (names []string) {
	inner, _ := ctx.Value(contextLockKey{}).(*contextLock)
	for ; inner != nil; inner = inner.outer {
		if h := inner.held; h.locker == l && h.heldBy(inner.holder) {
			names = append(names, h.called())
		}
	}
	return names
}
