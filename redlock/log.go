package redlock

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/journal"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// logbook writes the log. Only the goroutine that passes on the events uses its journal.
type logbook struct {
	journal *journal.Journal
	logger  *slog.Logger // nil stands for slog.Default() from level Warn on, looked up for each line
	clock   clock.Clock
	waiting func() int // how many calls wait for a lock
	look    func()     // makes the goroutine call write
	timer   clock.Timer
}

// openLog prepares the log of a new Locker.
func (l *Locker) openLog() {
	b := &l.logbook
	addrs := make([]string, len(l.settings.Nodes))
	for i, n := range l.settings.Nodes {
		addrs[i] = n.Addr()
	}
	b.journal, b.clock = journal.New(addrs), l.settings.Clock
	b.waiting = func() int { return int(l.waiting.Load()) }
	b.look = func() { l.events.emit(looking{}) }
}

// log adds the log line of an event, if it has one. A line never has a token.
func (b *logbook) log(what event.Event) {
	if !b.mayLog() {
		return
	}
	switch v := what.(type) {
	case protocol.Round:
		if v.Err == nil {
			return
		}
		b.refused(v)
	case event.End:
		b.ended(v)
	case event.NodeDown:
		b.down(v)
	case event.NodeUp:
		if b.up(event.Quarantine{
			At: v.At, Node: v.Node, Addr: v.Addr, Quarantined: v.Quarantined, Left: v.Left, Err: v.Err,
		}) {
			b.line(v.At, slog.LevelInfo, "redlock: a node is up again", "node", v.Addr, "down", v.Down)
		}
	case event.Quarantine:
		if b.up(v) {
			b.line(v.At, slog.LevelInfo, "redlock: a node votes again", "node", v.Addr)
		}
	case event.Stuck:
		b.line(v.At, slog.LevelWarn, "redlock: waits for a key that has no TTL",
			"name", v.Name, "nodes", v.Addrs, "unchanged", v.Unchanged)
	case logOnly:
		b.add(v.line)
	case event.Heal:
		b.line(v.At, slog.LevelWarn, "redlock: a key that had no TTL has been deleted", "name", v.Name, "node", v.Addr)
	case event.ForceUnlock:
		if v.Nodes > 0 { // otherwise there was no lock
			b.line(v.At, slog.LevelWarn, "redlock: lock released by force",
				append([]any{"name", v.Name, "nodes", v.Nodes}, known("metadata", v.Metadata)...)...)
		}
	case event.Drop:
		b.line(time.Now(), slog.LevelWarn, "redlock: events were dropped, as an Observer or the log is slow",
			"count", v.Count)
	case closing:
		b.journal.Close(b.clock.Now())
	case looking:
	default:
		return
	}
	b.write()
}

// refused adds the line of a round that was refused.
func (b *logbook) refused(r protocol.Round) {
	level, message := refusalLine(r)
	b.add(journal.Line{
		At: r.At, Level: level, Message: message, Outage: level == slog.LevelInfo, // a release that is sent again
		Args: []any{"op", r.Op, "name", r.Name, "took", r.Took, "split", r.Split, "error", r.Err.Error()},
	})
}

// ended adds the line of a lock that was lost.
func (b *logbook) ended(end event.End) {
	if errors.Is(end.Err, ErrReleased) {
		return
	}
	expired := errors.Is(end.Err, ErrExpired)
	b.add(journal.Line{
		At: end.Start.Add(end.Held), Level: slog.LevelWarn, Message: "redlock: a lock is lost",
		Args: []any{"name", end.Name, "held", end.Held, "error", end.Err}, Outage: expired, Lost: expired,
	})
}

// down records that a node has no connection.
func (b *logbook) down(d event.NodeDown) {
	if errors.Is(d.Err, nodeerr.ErrClosed) {
		return
	}
	why := text(d.Err)
	if d.Failed == 0 {
		b.line(d.At, slog.LevelDebug, "redlock: a connection broke", "node", d.Addr, "error", why)
	}
	b.out(d.Node, d.At, why, "redlock: a node is down", "node", d.Addr, "error", why)
}

// up records whether a node that answers votes. It reports whether the node does, and a line said that it did not.
func (b *logbook) up(q event.Quarantine) (again bool) {
	const message = "redlock: a node is quarantined, as it may have forgotten locks"
	switch {
	case q.Err != nil:
		why := text(q.Err)
		b.out(q.Node, q.At, "quarantined, as it may have forgotten locks: "+why, message, "node", q.Addr, "error", why)
	case q.Quarantined:
		why := "quarantined for " + q.Left.String() + ", as it may have forgotten locks"
		b.out(q.Node, q.At, why, message, "node", q.Addr, "for", q.Left)
	default:
		return b.journal.In(b.clock.Now(), q.Node, b.waiting())
	}
	return false
}

// out records that a node does not vote.
func (b *logbook) out(node int, at time.Time, reason, message string, args ...any) {
	line := journal.Line{At: at, Level: slog.LevelWarn, Message: message, Args: args}
	b.journal.Out(b.clock.Now(), node, journal.Out{Line: line, Reason: reason})
}

// known returns a key and its value, or nothing if there is no value.
func known(key, value string) []any {
	if value == "" {
		return nil
	}
	return []any{key, value}
}

// logOnly is a log line without an event for observers.
type logOnly struct {
	event.Event // always nil; it only makes logOnly an Event
	line        journal.Line
}

// closing is the end of the Locker, and looking is the time to look into the journal. Both are for the log only.
type (
	closing struct{ event.Event }
	looking struct{ event.Event }
)

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

// line adds a line that no outage has caused.
func (b *logbook) line(at time.Time, level slog.Level, message string, args ...any) {
	b.add(journal.Line{At: at, Level: level, Message: message, Args: args})
}

// add adds a line, if its level is logged.
func (b *logbook) add(line journal.Line) {
	if b.logs(line.Level) {
		b.journal.Add(b.clock.Now(), line)
	}
}

// write writes the lines that are due, and sets a timer for the next ones.
func (b *logbook) write() {
	lines, again := b.journal.Lines(b.clock.Now())
	for _, line := range lines {
		if b.logs(line.Level) {
			r := slog.NewRecord(line.At, line.Level, line.Message, 0)
			r.Add(line.Args...)
			_ = b.to().Handler().Handle(context.Background(), r) // as slog itself does
		}
	}
	switch d := again.Sub(b.clock.Now()); {
	case again.IsZero() || !b.logs(slog.LevelWarn):
		if b.timer != nil {
			b.timer.Stop()
		}
	case b.timer == nil:
		b.timer = b.clock.AfterFunc(d, b.look)
	default:
		b.timer.Reset(d)
	}
}

// to returns the logger for a line.
func (b *logbook) to() *slog.Logger {
	if b.logger == nil {
		return slog.Default()
	}
	return b.logger
}

// logs reports whether lines of a level are logged.
func (b *logbook) logs(level slog.Level) bool {
	return (b.logger != nil || level >= slog.LevelWarn) && b.to().Enabled(context.Background(), level)
}

// mayLog reports whether there is a log handler at all. Unlike logs it does not ask the handler, which is user code.
// The handler might call a method of a lock whose mutex the caller of mayLog already has.
func (b *logbook) mayLog() bool { return b.logger == nil || b.logger.Handler() != slog.DiscardHandler }
