package redlock

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// log writes the line of an event, if it has one. Tokens are not logged.
func (e *events) log(event Event) {
	switch v := event.(type) {
	case VerdictEvent:
		if v.Err != nil {
			e.line(v.At, refusalLevel(v), "redlock: refused", "op", v.Op, "name", v.Name, "took", v.Took, "split", v.Split, "error", v.Err.Error())
		}
	case EndEvent:
		if !errors.Is(v.Err, ErrReleased) {
			e.line(v.Start.Add(v.Held), slog.LevelWarn, "redlock: a lock is lost", "name", v.Name, "held", v.Held, "error", v.Err)
		}
	case NodeDownEvent:
		switch { // a connection that breaks is no news before it cannot be replaced
		case errors.Is(v.Err, nodeerr.ErrClosed):
		case v.Failed == 0:
			e.line(v.At, slog.LevelDebug, "redlock: a connection broke", "node", v.Addr, "error", v.Err)
		case v.Failed == 1:
			e.line(v.At, slog.LevelWarn, "redlock: a node is down", "node", v.Addr, "error", v.Err)
		}
	case NodeUpEvent:
		switch {
		case v.Quarantined:
			e.line(v.At, slog.LevelWarn, "redlock: a node does not vote, as it may have forgotten locks", "node", v.Addr, "for", v.Left)
		case v.Failed > 0:
			e.line(v.At, slog.LevelInfo, "redlock: a node is up again", "node", v.Addr, "down", v.Down)
		}
	case StuckEvent:
		e.line(v.At, slog.LevelWarn, "redlock: waits for a key that has no TTL", "name", v.Name, "nodes", v.Addrs, "unchanged", v.Unchanged)
	case blockedEvent:
		what := "a key without a TTL"
		if errors.Is(v.refusal.Reason, ErrForeign) {
			what = "somebody's data"
		}
		e.line(v.at, slog.LevelWarn, "redlock: "+what+" is in the way of a lock", "name", v.refusal.Name, "error", v.refusal.Error())
	case HealEvent:
		e.line(v.At, slog.LevelWarn, "redlock: a key that had no TTL has been deleted", "name", v.Name, "node", v.Addr)
	case ForceUnlockEvent:
		e.line(v.At, slog.LevelWarn, "redlock: lock released by force", "name", v.Name, "nodes", v.Nodes, "metadata", v.Metadata)
	}
}

// refusalLevel returns the level at which a refused round is logged. A loss has a line of its own, and so has a node that is
// down. The outcome of the release that Do makes is in no error.
func refusalLevel(v VerdictEvent) slog.Level {
	if v.Op == OpUnlock && errors.Is(v.Err, ErrNoQuorum) {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// line writes a line with the time of its event.
func (e *events) line(at time.Time, level slog.Level, message string, args ...any) {
	if e.logs(level) {
		r := slog.NewRecord(at, level, message, 0)
		r.Add(args...)
		_ = e.logger.Handler().Handle(context.Background(), r) // as slog itself does
	}
}
