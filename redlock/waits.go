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

// longWaits bounds how many long waits are logged.
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

// noteWait has the waits of a queue looked at, now that w has joined it.
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

// logWait logs the wait of the call that has waited for the longest, if it has for long.
func (q *queue) logWait() {
	l := q.locker
	now := l.clock.Now()
	q.mu.Lock()
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
	refusal, waiting, holder := q.lastLocked(now, w, nil), q.machine.Len(), q.holderLocked()
	q.mu.Unlock()

	held := l.namesHeld(w.ctx)
	logs, more := l.longWaits.add(now)
	if more > 0 {
		l.events.logLine(slog.LevelInfo, "redlock: more locks were waited for than are logged", "names", more)
	}
	if logs {
		level := slog.LevelInfo
		if !errors.Is(refusal.Reason, ErrTaken) {
			level = slog.LevelWarn
		}
		l.events.logLine(level, "redlock: waits for a lock", "name", w.req.name, "waited", waited, "calls", waiting,
			"holder", holder, "holds", held, "error", refusal)
	}
	for _, name := range held {
		if opposes, where := l.opposes(name, q); opposes {
			l.events.logLine(slog.LevelWarn, "redlock: two locks were taken in opposite order: each call waits for what the other holds",
				"holds", name, "name", w.req.name, "other", where)
		}
	}
}

// holderLocked returns the metadata of the holder: of this Locker, or as a node has shown it last.
func (q *queue) holderLocked() string {
	if q.holder != nil {
		return q.holder.first.req.metadata
	}
	for i := range q.locker.nodes {
		if seen := q.machine.Seen(i); seen.Held {
			return token.Metadata(seen.Token)
		}
	}
	return ""
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

// opposes reports whether the holder of the lock of a queue waits for the lock of a name, and where: a call of this Locker that
// holds the first, or another process, which may have several calls. That process is told once more that this one waits, so that it
// finds out too: the message before may have come too early.
func (l *Locker) opposes(name string, wanted *queue) (opposes bool, where string) {
	other := l.queues.find(l.prefix + name)
	if other == nil {
		return false, ""
	}
	other.mu.Lock()
	var waiting []context.Context
	for _, w := range other.machine.Waiters() {
		waiting = append(waiting, w.ctx)
	}
	other.mu.Unlock()
	for _, ctx := range waiting {
		if slices.Contains(l.namesHeld(ctx), l.nameOf(wanted.key)) {
			return true, "a call of this Locker"
		}
	}
	wanted.mu.Lock()
	owner := ""
	for i := range l.nodes {
		if seen := wanted.machine.Seen(i); seen.Held {
			owner = seen.Owner
		}
	}
	wanted.mu.Unlock()
	if owner == "" {
		return false, ""
	}
	l.publish(owner, l.nodes, waits, wanted.key, []string{l.self})
	other.mu.Lock()
	defer other.mu.Unlock()
	return other.machine.PeerIsWaiting(owner), "another process"
}
