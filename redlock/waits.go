package redlock

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
)

const (
	maxLogged = 1024             // the number of things that are remembered as logged
	maxRing   = 64               // the number of names that the search for a ring looks at
	longWait  = 10 * time.Second // a wait that is longer is logged
	logPeriod = time.Minute      // how often a long wait is logged again, and a blocked name at most
)

// throttle limits the number of log lines about a name.
type throttle struct {
	mu     sync.Mutex
	logged map[string]time.Time // the things that were logged in the last period, and when
}

// logs reports whether the log needs a line about something. While maxLogged things are remembered, nothing else is
// logged. So a program that makes up names cannot fill the log.
func (t *throttle) logs(about string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := func(_ string, at time.Time) bool { return now.Sub(at) >= logPeriod }
	if at, known := t.logged[about]; known && !over(about, at) {
		return false
	}
	if maps.DeleteFunc(t.logged, over); len(t.logged) >= maxLogged {
		return false
	}
	t.logged[about] = now
	return true
}

// noteWait schedules WaitsLong for when the call has waited for long, unless warnings are not logged.
func (w *waiter) noteWait() {
	if w.locker.events.logs(slog.LevelWarn) {
		w.entry.NoteWait(longWait)
	}
}

// WaitsLong logs the wait of the call that has waited the longest for a name, if that wait is long.
func (p program) WaitsLong(e *engine.Entry) {
	l := p.Locker
	e.Enter()
	first, n := e.WaitersLocked()
	if first == nil {
		e.Exit()
		return
	}
	w := first.By.(*waiter)
	waited := l.engine.Clock.Now().Sub(w.Since)
	if waited < longWait {
		e.NoteAgainLocked(longWait - waited)
		e.Exit()
		return
	}
	e.NoteAgainLocked(logPeriod)
	refusal := w.lastLocked(nil)
	_, metadata := e.Name.Holder()
	e.Exit()

	level := slog.LevelInfo
	if !errors.Is(refusal.Reason, ErrTaken) {
		level = slog.LevelWarn
	}
	args := append([]any{"name", w.req.name, "waited", waited, "calls", n}, known("holder", metadata)...)
	if holds := l.namesHeld(w.ctx); len(holds) > 0 {
		args = append(args, "holds", holds)
	}
	outage := errors.Is(refusal.Reason, ErrNoQuorum)
	l.events.logLine(level, outage, "redlock: waits for a lock", append(args, "error", refusal)...)
	w.logRing()
}

// logRing logs the ring of calls that wait for each other, if w is part of one. If a ring spans several processes, each
// process finds only its own part, which has to be one call.
func (w *waiter) logRing() {
	l, e := w.locker, w.entry
	if !l.events.logs(slog.LevelWarn) {
		return
	}
	held := l.namesHeld(w.ctx)
	if len(held) == 0 {
		return
	}
	if ring := l.ring(held, w.req.name); ring != nil {
		l.logRingOnce(e, ring, "calls of this Locker")
	}
	e.Enter()
	owner, _ := e.Name.Holder()
	e.Exit()
	for _, name := range held {
		if owner != "" && owner != l.engine.Self {
			l.engine.Oppose(owner, e.Name.Key(), l.prefix+name)
		}
	}
}

// ring returns the names of a ring of calls of this Locker that wait for each other; nil if there is no ring. The call
// that waits for wanted holds the first name. Each further name is held by a call that waits for the name before it.
// The last name is wanted.
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

// Opposed handles a message of another process: a call there waits for one key, and holds another. A call of this
// Locker may have taken the two in opposite order; then Opposed logs the ring.
func (p program) Opposed(wanted, held string) {
	if !p.events.logs(slog.LevelWarn) {
		return
	}
	name := p.nameOf(wanted)
	for _, ctx := range p.waitingFor(p.nameOf(held)) {
		if slices.Contains(p.namesHeld(ctx), name) {
			if e := p.engine.Find(held); e != nil {
				e.Exit()
				p.logRingOnce(e, []string{name, p.nameOf(held)}, "another process")
			}
			return
		}
	}
}

// logRingOnce logs a ring that a call waiting for the name of e is part of, once in a period. Otherwise there would be
// many lines: the message of another process comes through every node, and all calls of a ring find the same ring.
func (l *Locker) logRingOnce(e *engine.Entry, ring []string, others string) {
	e.Enter()
	now := l.engine.Clock.Now()
	q := e.Waiting
	again := q == nil || !q.RingNoted.IsZero() && now.Sub(q.RingNoted) < logPeriod
	if !again {
		q.RingNoted = now
	}
	_, metadata := e.Name.Holder()
	e.Exit()
	if !again {
		args := []any{"names", ring, "name", ring[len(ring)-1], "holds", ring[0], "others", others}
		l.events.logLine(slog.LevelWarn, false, "redlock: calls wait for each other, as they took locks in different orders",
			append(args, known("holder", metadata)...)...)
	}
}

// waitingFor returns the contexts of the calls that wait for a name in this Locker.
func (l *Locker) waitingFor(name string) (waiting []context.Context) {
	e := l.engine.Find(l.prefix + name)
	if e == nil {
		return nil
	}
	defer e.Exit()
	for _, c := range e.Name.Waiting() {
		waiting = append(waiting, c.Of.(*engine.Waiter).By.(*waiter).ctx)
	}
	return waiting
}

// namesHeld returns the names of the locks of this Locker that the bearer of a context holds, the last one first.
func (l *Locker) namesHeld(ctx context.Context) (names []string) {
	inner, _ := ctx.Value(contextLockKey{}).(*contextLock)
	for ; inner != nil; inner = inner.outer {
		if in := inner.lock; in.locker == l && in.held.Has(in.holder) {
			names = append(names, in.Name())
		}
	}
	return names
}
