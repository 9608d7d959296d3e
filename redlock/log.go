package redlock

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// lines is the log.
type lines struct{ logger *slog.Logger }

// log writes the line of an event, if it has one. Tokens are not logged.
func (l lines) log(what event.Event) {
	switch v := what.(type) {
	case event.Round:
		if v.Err != nil {
			level, message := refusalLine(v)
			l.line(v.At, level, message, "op", v.Op, "name", v.Name, "took", v.Took, "split", v.Split, "error", v.Err.Error())
		}
	case event.End:
		if !errors.Is(v.Err, ErrReleased) {
			l.line(v.Start.Add(v.Held), slog.LevelWarn, "redlock: a lock is lost", "name", v.Name, "held", v.Held, "error", v.Err)
		}
	case event.NodeDown:
		switch { // a connection that breaks is no news before it cannot be replaced
		case errors.Is(v.Err, nodeerr.ErrClosed):
		case v.Failed == 0:
			l.line(v.At, slog.LevelDebug, "redlock: a connection broke", "node", v.Addr, "error", v.Err)
		case v.Failed == 1:
			l.line(v.At, slog.LevelWarn, "redlock: a node is down", "node", v.Addr, "error", v.Err)
		}
	case event.NodeUp:
		switch {
		case v.Quarantined:
			l.line(v.At, slog.LevelWarn, "redlock: a node does not vote, as it may have forgotten locks", "node", v.Addr, "for", v.Left)
		case v.Failed > 0:
			l.line(v.At, slog.LevelInfo, "redlock: a node is up again", "node", v.Addr, "down", v.Down)
		}
	case event.Stuck:
		l.line(v.At, slog.LevelWarn, "redlock: waits for a key that has no TTL", "name", v.Name, "nodes", v.Addrs, "unchanged", v.Unchanged)
	case logOnly:
		l.line(v.at, v.level, v.message, v.args...)
	case event.Heal:
		l.line(v.At, slog.LevelWarn, "redlock: a key that had no TTL has been deleted", "name", v.Name, "node", v.Addr)
	case event.ForceUnlock:
		l.line(v.At, slog.LevelWarn, "redlock: lock released by force", "name", v.Name, "nodes", v.Nodes, "metadata", v.Metadata)
	}
}

// logOnly is a line of the log about something that no Observer is notified of.
type logOnly struct {
	event.Event // nil: it makes this one too
	at          time.Time
	level       slog.Level
	message     string
	args        []any
}

// logsRefusal reports whether a round that was refused is logged.
func (l lines) logsRefusal(v event.Round) bool {
	level, _ := refusalLine(v)
	return l.logs(level)
}

// refusalLine returns how a round that was refused is logged. A loss has a line of its own, and so has a node that is down. The
// outcome of the release that Do makes is in no error.
func refusalLine(v event.Round) (level slog.Level, message string) {
	if v.Op == event.OpUnlock && errors.Is(v.Err, ErrNoQuorum) {
		return slog.LevelInfo, "redlock: too few nodes confirmed a release, which is sent again"
	}
	return slog.LevelDebug, "redlock: refused"
}

// line writes a line with the time of its event.
func (l lines) line(at time.Time, level slog.Level, message string, args ...any) {
	if l.logs(level) {
		r := slog.NewRecord(at, level, message, 0)
		r.Add(args...)
		_ = l.logger.Handler().Handle(context.Background(), r) // as slog itself does
	}
}

// logs reports whether what is logged at a level is wanted.
func (l lines) logs(level slog.Level) bool { return l.logger.Enabled(context.Background(), level) }

// mayLog is logs without asking the handler, which is user code: it may ask a lock how it stands, whose mutex the caller may have.
func (l lines) mayLog() bool { return l.logger.Handler() != slog.DiscardHandler }
