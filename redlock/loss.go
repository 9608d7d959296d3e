package redlock

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// lossError is the end of a lock, together with the last extension before it, which failed. It matches the end and the
// reasons of the nodes. It does not match the reason of the extension: ErrNoQuorum tells a holder that it may try
// again, and this lock is over.
type lossError struct {
	end     error // ErrExpired or ErrGone
	last    *QuorumError
	before  time.Duration // how long before the end the extension began
	renewal bool
}

// Error returns the end of the lock, and the failure of the last extension before it.
func (e *lossError) Error() string {
	what := "extension"
	if e.renewal {
		what = "renewal"
	}
	line := e.last.line()
	// The counts in line say as much as one of these reasons alone. A reason that wraps one of them says more.
	if e.last.Reason == ErrNoQuorum || e.last.Reason == ErrGone { //nolint:errorlint // the very errors are meant
		line = strings.TrimPrefix(line, text(e.last.Reason)+": ")
	}
	return fmt.Sprintf("%v; last %s, %v before: %s", e.end, what, e.before.Round(time.Millisecond), line)
}

func (e *lossError) Unwrap() []error { return e.last.unwrap(e.end) }

// As supports [errors.As] for the [QuorumError] of the extension.
func (e *lossError) As(target any) bool {
	found, ok := target.(**QuorumError)
	if ok {
		*found = e.last
	}
	return ok
}

// LogValue returns one line, like that of a QuorumError.
func (e *lossError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// endLocked returns the error of a lock that has ended. It returns the same error each time.
func (l *Locker) endLocked(h *engine.Held, how quorum.Ending) error {
	if how != quorum.Gone && how != quorum.Expired {
		return endings[how]
	}
	if h.Loss == nil {
		loss := l.lossLocked(h, how)
		h.Loss = &loss
	}
	return *h.Loss
}

// lossLocked makes the error of a lock that was lost or has expired. It has the last extension, if that failed or is
// still under way.
func (l *Locker) lossLocked(h *engine.Held, how quorum.Ending) error {
	r, began, renewal := h.FailedLocked()
	if r == nil {
		return endings[how]
	}
	e := &lossError{end: endings[how], before: h.Now().Sub(began), renewal: renewal}
	if how == quorum.Expired {
		e.before = h.Lease.Deadline().Sub(began)
	}
	reason := ErrNoQuorum // while the extension is under way
	if outcome := r.Outcome(); outcome != quorum.Undecided {
		reason = reasons[event.OpExtend][outcome]
	}
	e.last = l.refusal(event.OpExtend, l.nameOf(h.Name.Key()), reason, r.Why)
	return e
}

// end is endLocked for a caller that does not have the mutex.
func (l *Locker) end(h *engine.Held, how quorum.Ending) error {
	h.Enter()
	defer h.Exit()
	return l.endLocked(h, how)
}
