package redlock

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

const (
	maxBlocked    = 1024        // names that are remembered
	blockedPeriod = time.Minute // in which a name is logged once
)

// blocked are the names of which the log has said lately that they are blocked.
type blocked struct {
	mu    sync.Mutex
	names map[string]bool
	order []blockedName // the same names, oldest first
}

type blockedName struct {
	name string
	at   time.Time
}

// add reports whether a name is to be logged: it was not within blockedPeriod. While it remembers maxBlocked names, no other one
// is, so that a program that makes up names cannot fill the log either.
func (b *blocked) add(name string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.order) > 0 && now.Sub(b.order[0].at) >= blockedPeriod {
		delete(b.names, b.order[0].name)
		b.order = b.order[1:]
	}
	if b.names[name] || len(b.order) >= maxBlocked {
		return false
	}
	if b.names == nil {
		b.names = map[string]bool{}
	}
	b.names[name] = true
	b.order = append(b.order, blockedName{name, now})
	return true
}

// logBlocked logs that a call was refused because of keys that no holder will release, so that trying again does not help; or that too
// few nodes answered.
func (l *Locker) logBlocked(err error) {
	var refusal *QuorumError
	if !l.events.logs(slog.LevelWarn) || !errors.As(err, &refusal) {
		return
	}
	switch now := l.clock.Now(); {
	case refusal.prevented(nodeerr.ErrForeign, nodeerr.ErrNoExpiry):
		if l.blocked.add(refusal.Name, now) {
			what := "a key without a TTL"
			if errors.Is(refusal.Reason, ErrForeign) {
				what = "data of another program"
			}
			l.events.logLine(slog.LevelWarn, "redlock: "+what+" is in the way of a lock", "name", refusal.Name, "error", refusal)
		}
	case refusal.failed() > len(refusal.Nodes)-refusal.Need:
		if l.blocked.add("", now) { // no name is empty
			l.events.logLine(slog.LevelWarn, "redlock: too few nodes grant locks", "name", refusal.Name, "error", refusal)
		}
	}
}
