package redlock

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// log writes the log line of an event, if it has one. It never logs a token.
func (a *audience) log(what event.Event) {
	switch v := what.(type) {
	case protocol.Round:
		if v.Err != nil {
			level, message := refusalLine(v)
			a.line(v.At, level, message, "op", v.Op, "name", v.Name, "took", v.Took, "split", v.Split, "error", v.Err.Error())
		}
	case event.End:
		if !errors.Is(v.Err, ErrReleased) {
			a.line(v.Start.Add(v.Held), slog.LevelWarn, "redlock: a lock is lost",
				"name", v.Name, "held", v.Held, "error", v.Err)
		}
	case event.NodeDown:
		switch { // a connection that breaks is no news until it cannot be replaced
		case errors.Is(v.Err, nodeerr.ErrClosed):
		case v.Failed == 0:
			a.line(v.At, slog.LevelDebug, "redlock: a connection broke", "node", v.Addr, "error", v.Err)
		case v.Failed == 1:
			a.line(v.At, slog.LevelWarn, "redlock: a node is down", "node", v.Addr, "error", v.Err)
		}
	case event.NodeUp:
		if v.Failed > 0 && !v.Quarantined {
			a.line(v.At, slog.LevelInfo, "redlock: a node is up again", "node", v.Addr, "down", v.Down)
		}
		a.quarantined(v.At, v.Addr, v.Quarantined, v.Left, v.Err)
	case event.Quarantine:
		a.quarantined(v.At, v.Addr, v.Quarantined, v.Left, v.Err)
		if !v.Quarantined {
			a.line(v.At, slog.LevelInfo, "redlock: a node votes again", "node", v.Addr)
		}
	case event.Stuck:
		a.line(v.At, slog.LevelWarn, "redlock: waits for a key that has no TTL",
			"name", v.Name, "nodes", v.Addrs, "unchanged", v.Unchanged)
	case logOnly:
		a.line(v.at, v.level, v.message, v.args...)
	case event.Heal:
		a.line(v.At, slog.LevelWarn, "redlock: a key that had no TTL has been deleted", "name", v.Name, "node", v.Addr)
	case event.ForceUnlock:
		a.line(v.At, slog.LevelWarn, "redlock: lock released by force",
			"name", v.Name, "nodes", v.Nodes, "metadata", v.Metadata)
	}
}

// quarantined logs that a node does not vote, if that is so.
func (a *audience) quarantined(at time.Time, addr string, is bool, left time.Duration, err error) {
	const message = "redlock: a node does not vote, as it may have forgotten locks"
	switch {
	case err != nil:
		a.line(at, slog.LevelWarn, message, "node", addr, "error", err)
	case is:
		a.line(at, slog.LevelWarn, message, "node", addr, "for", left)
	}
}

// logOnly is a log line without an event for observers.
type logOnly struct {
	event.Event // always nil; it only makes logOnly an Event
	at          time.Time
	level       slog.Level
	message     string
	args        []any
}

// refusalLine returns the level and the message of the log line about a refused round. A loss has a line of its own,
// and so has a node that is down. A release that too few nodes confirmed has a higher level: Do returns an error for it
// only if the nodes refused it.
func refusalLine(v protocol.Round) (level slog.Level, message string) {
	var refusal *QuorumError
	switch {
	case v.Op != event.OpUnlock || !errors.Is(v.Err, ErrNoQuorum) || !errors.As(v.Err, &refusal):
		return slog.LevelDebug, "redlock: refused"
	case slices.ContainsFunc(refusal.Nodes, func(n NodeError) bool { return keepsKey(n.Err) }):
		return slog.LevelWarn, "redlock: a release was refused and is not sent again there; the key stays until its TTL"
	}
	return slog.LevelInfo, "redlock: too few nodes confirmed a release, which is sent again when they are back"
}

// line writes a log line with the time of its event.
func (a *audience) line(at time.Time, level slog.Level, message string, args ...any) {
	if a.logs(level) {
		r := slog.NewRecord(at, level, message, 0)
		r.Add(args...)
		_ = a.logger.Handler().Handle(context.Background(), r) // as slog itself does
	}
}

// logs reports whether lines of a level are logged.
func (a *audience) logs(level slog.Level) bool { return a.logger.Enabled(context.Background(), level) }

// mayLog reports whether there is a log handler at all. Unlike logs it does not ask the handler, which is user code.
// The handler might call a method of a lock whose mutex the caller of mayLog already has.
func (a *audience) mayLog() bool { return a.logger.Handler() != slog.DiscardHandler }
