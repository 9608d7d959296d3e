// Package outcome classifies events: these words are values of attributes in traces and of labels of metrics.
package outcome

import (
	"context"
	"errors"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// Outcomes, of calls, rounds and held locks.
const (
	Acquired = "acquired"
	Taken    = "taken"
	Foreign  = "foreign"
	NoQuorum = "no_quorum"
	// Unanswered is a round that its caller gave up, and a call whose MaxWait ended in one, while enough nodes might still have answered.
	Unanswered = "unanswered"
	Deadlock   = "deadlock"
	Closed     = "closed"
	Canceled   = "canceled"
	NotHeld    = "not_held"
	Done       = "done"
	Gone       = "gone"
	Expired    = "expired"
	Released   = "released"
	Detached   = "detached"
	Error      = "error"
)

// Calls that take a lock.
const (
	Lock    = "lock"
	TryLock = "try_lock"
	Attach  = "attach"
)

// Kinds are those of locks, as events have them.
var Kinds = []string{string(redlock.KindExclusive), string(redlock.KindShared), string(redlock.KindSlot)}

// Groups are all groups of events: traces and metrics are complete with all of them only.
func Groups() []event.Group {
	return []event.Group{event.Calls, event.Ends, event.Nodes, event.Keys, protocol.Rounds, protocol.Votes, protocol.Turns}
}

// Directions of a turn.
const (
	Sent     = "sent"
	Received = "received"
)

// Acquire classifies the error of an acquire or Attach, as its event has it. If the caller gave up, the rest of the error says
// only how things stood. The end of MaxWait is no such thing: it is an answer to a caller who has asked with a limit.
func Acquire(err error) string {
	switch {
	case err == nil:
		return Acquired
	case errors.Is(err, redlock.ErrClosed):
		return Closed
	case errors.Is(err, redlock.ErrDeadlock):
		return Deadlock
	case GaveUp(err) != nil:
		return Canceled
	case errors.Is(err, redlock.ErrForeign):
		return Foreign
	case errors.Is(err, redlock.ErrTaken):
		return Taken
	case errors.Is(err, redlock.ErrNotHeld):
		return NotHeld
	case unanswered(err):
		return Unanswered
	case errors.Is(err, redlock.ErrNoQuorum):
		return NoQuorum
	}
	return Error
}

// unanswered reports whether the call ended before the nodes had decided. An outage of so many that they have decided is none of that.
func unanswered(err error) bool {
	var refusal *redlock.QuorumError
	return errors.As(err, &refusal) && errors.Is(refusal.Reason, nodeerr.ErrUnanswered)
}

// Extend classifies the error of an extension. A loss stays a loss if the caller gave up. A renewal that the release of its
// lock has overtaken is canceled.
func Extend(err error) string {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, redlock.ErrGone):
		return Gone
	case errors.Is(err, redlock.ErrExpired):
		return Expired
	case GaveUp(err) != nil, unanswered(err):
		return Canceled
	case errors.Is(err, redlock.ErrNoQuorum):
		return NoQuorum
	}
	return Error
}

// Unlock classifies the error of Unlock.
func Unlock(err error) string {
	switch {
	case err == nil:
		return Released
	case errors.Is(err, redlock.ErrNotHeld):
		return NotHeld
	case GaveUp(err) != nil:
		return Canceled
	case errors.Is(err, redlock.ErrNoQuorum):
		return NoQuorum
	}
	return Error
}

// Round classifies the error of a round.
func Round(err error) string {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, redlock.ErrForeign):
		return Foreign
	case errors.Is(err, redlock.ErrTaken):
		return Taken
	case errors.Is(err, redlock.ErrGone):
		return Gone
	case errors.Is(err, redlock.ErrNotHeld):
		return NotHeld
	case unanswered(err):
		return Unanswered
	}
	return NoQuorum
}

// End classifies the end of a lock.
func End(e event.End) string {
	switch {
	case e.Detached:
		return Detached
	case errors.Is(e.Err, redlock.ErrGone):
		return Gone
	case errors.Is(e.Err, redlock.ErrExpired):
		return Expired
	}
	return Released
}

// GaveUp returns context.Canceled or context.DeadlineExceeded if the caller's context ended with it, and nil otherwise.
func GaveUp(err error) error {
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return ended
		}
	}
	return nil
}

// Call returns which call an acquire was.
func Call(e event.Acquire) string {
	switch {
	case e.Op == event.OpAttach:
		return Attach
	case e.Try:
		return TryLock
	}
	return Lock
}

// Direction returns which way a turn passed.
func Direction(e protocol.Turn) string {
	if e.Received {
		return Received
	}
	return Sent
}
