package redlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// QuorumError is returned if a majority of nodes did not do what it was asked to. It unwraps to its Reason and to every
// node's error. Its message is one line; the verb %+v prints a line for each node.
type QuorumError struct {
	Op   string // as of a LockError
	Name string // the lock's; "" of Ping
	// Names are those that others hold, of a call for several ([Locker.LockAll]), in order; Name is the first that they hold on too many
	// nodes. It is nil for any other call.
	Names []string
	Need  int // how many nodes make the majority
	// Reason matches ErrTaken, ErrForeign, ErrNoQuorum, ErrNotHeld or ErrLost: compare with errors.Is, as it may add details. Beside
	// ErrNoQuorum it matches nodeerr.ErrUnanswered if the call ended while the answers of other nodes could still have decided.
	Reason error
	// Nodes[i] is about the i-th node given to New or Open. There is one for each.
	Nodes []NodeError
}

// NodeError is one node's part in a QuorumError.
type NodeError struct {
	Addr string
	// Err is why the node did not do what it was asked to; nil if it did. It matches an error of package nodeerr, or its text alone is
	// the reason why the node was not asked or does not count.
	Err error
}

var (
	// errFences is about a lock that a majority holds with different fencing tokens, or in different slots, so that it is unknown which.
	errFences = fmt.Errorf("%w for its fencing token, or its slot: the numbers differ until the holder extends it", ErrNoQuorum)
	// errMaxWait is why a wait is over, if it is not that the caller's context has ended.
	errMaxWait = errors.New("MaxWait has ended")
	// errReleaseRefused is about a release that too many nodes have refused for a majority.
	errReleaseRefused = fmt.Errorf("%w: the release was refused and is not sent again; the key stays until its TTL", ErrNoQuorum)
	// errNoValidity is about a lock that a majority holds, but for so short a time that it cannot be relied on.
	errNoValidity = fmt.Errorf("%w: no validity is left of it", ErrNotHeld)
	// errTooLate is the reason of an operation that a majority has done after the deadline.
	errTooLate = fmt.Errorf("%w: majority reached too late", ErrNoQuorum)
	// errDeadline is that of an extension that the deadline has ended before a majority had done it.
	errDeadline = fmt.Errorf("%w: no majority before the deadline", ErrNoQuorum)
)

// errUnanswered is the reason of an operation that ended before the nodes had decided, though faults alone did not prevent a majority.
var errUnanswered error = unanswered{}

type unanswered struct{}

func (unanswered) Error() string {
	return ErrNoQuorum.Error() + ": the call ended before enough nodes had answered"
}

func (unanswered) Unwrap() []error { return []error{ErrNoQuorum, nodeerr.ErrUnanswered} }

// reasons[op][outcome] is the Reason of a QuorumError.
var reasons = map[event.Op]map[quorum.Outcome]error{
	event.OpAcquire: {quorum.Denied: ErrTaken, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errTooLate},
	event.OpExtend:  {quorum.Denied: ErrLost, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errTooLate},
	event.OpUnlock:  {quorum.Denied: ErrNotHeld, quorum.NoQuorum: ErrNoQuorum},
	event.OpAttach:  {quorum.Denied: ErrNotHeld, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errNoValidity},
}

// prevented reports whether too many nodes have one of the errors for a majority of the others.
func (e *QuorumError) prevented(by ...error) bool {
	return e.preventedBy(func(err error) bool {
		return slices.ContainsFunc(by, func(one error) bool { return errors.Is(err, one) })
	})
}

// preventedBy is prevented for the errors for which is returns true.
func (e *QuorumError) preventedBy(is func(error) bool) bool {
	others := 0
	for i := range e.Nodes {
		if !is(e.Nodes[i].Err) {
			others++
		}
	}
	return others < e.Need
}

// blame corrects the reason. A call that ended before the nodes had decided has no quorum for that reason, unless their faults had
// decided. Of an acquire somebody's data is the reason if it is on so many nodes that the others are no majority; and nobody has taken
// the lock if the nodes that granted nothing had other reasons.
func (e *QuorumError) blame() {
	unanswered := func(n NodeError) bool { return errors.Is(n.Err, nodeerr.ErrUnanswered) }
	switch {
	case e.Op == string(event.OpUnlock) && e.Reason == ErrNoQuorum && e.preventedBy(keepsKey): //nolint:errorlint // the very error is meant
		e.Reason = errReleaseRefused
	case e.Reason == errTooLate && e.preventedBy(func(err error) bool { return err != nil }): //nolint:errorlint // the very error is meant
		e.Reason = errDeadline
	case e.Reason == ErrNoQuorum && slices.ContainsFunc(e.Nodes, unanswered) && !e.preventedBy(isFault): //nolint:errorlint // not if it is too late
		e.Reason = errUnanswered
	case e.Op != string(event.OpAcquire) || e.Reason != ErrTaken && e.Reason != ErrNoQuorum: //nolint:errorlint // not if it is too late
	case e.prevented(nodeerr.ErrForeign):
		e.Reason = ErrForeign
	case e.Reason == ErrTaken && !slices.ContainsFunc(e.Nodes, func(n NodeError) bool { return isTaken(n.Err) }): //nolint:errorlint // ditto
		e.Reason = ErrNoQuorum
	}
}

// isFailure reports whether a node has not granted the lock, though nobody is in the way there. That its answer is missing is no
// failure of a node that nobody has waited for.
func isFailure(err error) bool {
	return err != nil && !isTaken(err) && !errors.Is(err, nodeerr.ErrUnneeded) && !errors.Is(err, nodeerr.ErrUnanswered)
}

// isFault reports whether a node has failed to answer, whatever it was asked.
func isFault(err error) bool {
	return isFailure(err) && !errors.Is(err, nodeerr.ErrAbsent) && !errors.Is(err, nodeerr.ErrRecreated) && !errors.Is(err, nodeerr.ErrForeign)
}

// keepsKey reports whether a node has refused a release, or not taken it, so that it is not sent again there.
func keepsKey(err error) bool {
	return isFault(err) && !engine.SentAgain(err) && !errors.Is(err, nodeerr.ErrSameServer) // it is released under the other name
}

// isTaken reports whether another holds the node, or is ahead.
func isTaken(err error) bool {
	return errors.Is(err, nodeerr.ErrHeld) || errors.Is(err, nodeerr.ErrQueued)
}

func (e *NodeError) Error() string {
	if e.Err == nil {
		return e.Addr + ": yes"
	}
	return e.Addr + ": " + text(e.Err)
}

// Unwrap returns Err.
func (e *NodeError) Unwrap() error { return e.Err }

// Error returns what was refused and why, and behind a colon what each node answered.
func (e *QuorumError) Error() string {
	return head(e.Op, e.Name) + e.line()
}

// line is the message without what it is about.
func (e *QuorumError) line() string {
	message, nodes := e.parts()
	if len(nodes) == 0 {
		return message
	}
	return message + ": " + strings.Join(nodes, "; ")
}

// Format implements [fmt.Formatter]: %+v prints the answer of each node on a line of its own.
func (e *QuorumError) Format(s fmt.State, verb rune) {
	if verb == 'v' && s.Flag('+') {
		message, nodes := e.parts()
		_, _ = io.WriteString(s, head(e.Op, e.Name)+strings.Join(append([]string{message}, nodes...), "\n\t"))
		return
	}
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), e.Error())
}

// LogValue implements [slog.LogValuer]: one line, also where the handler prints errors with %+v.
func (e *QuorumError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// parts returns what was refused and why, and the answers of the nodes, none if no node was asked.
func (e *QuorumError) parts() (message string, nodes []string) {
	yes, queued, did := 0, 0, "said yes"
	if e.Op == opInspect {
		did = "answered"
	}
	for i := range e.Nodes {
		switch err := e.Nodes[i].Err; {
		case err == nil, e.Op == opInspect && (errors.Is(err, nodeerr.ErrAbsent) || errors.Is(err, nodeerr.ErrForeign)):
			yes++
		case errors.Is(err, nodeerr.ErrQueued):
			queued++
		}
		nodes = append(nodes, e.Nodes[i].Error())
	}
	message = text(e.Reason)
	switch {
	case queued == len(e.Nodes):
		return message + ": other calls hold it, or are ahead", nil
	case yes < e.Need: // otherwise the reason is another
		message += fmt.Sprintf(": %d of %d nodes %s, %d needed", yes, len(e.Nodes), did, e.Need)
	}
	return message, nodes
}

// As supports [errors.As] for a [LockError].
func (e *QuorumError) As(target any) bool {
	found, ok := target.(**LockError)
	if ok {
		*found = &LockError{e.Op, e.Name, e}
	}
	return ok
}

// Unwrap returns the Reason and the errors of the nodes that did not say yes.
func (e *QuorumError) Unwrap() []error { return e.unwrap(e.Reason) }

func (e *QuorumError) unwrap(reason error) []error {
	var nodes *multierror.Error
	for i := range e.Nodes {
		if e.Nodes[i].Err != nil {
			nodes = multierror.Append(nodes, &e.Nodes[i])
		}
	}
	if nodes == nil {
		return []error{reason}
	}
	return []error{reason, nodes}
}

// givenUp is refused for a call that may be made after Close.
func givenUp(ctx context.Context, answers *QuorumError) error {
	var outage *outageError
	switch cause := context.Cause(ctx); {
	case ctx.Err() == nil, errors.Is(cause, errMaxWait):
		return answers
	case errors.As(cause, &outage):
		return outage.QuorumError
	}
	return &overError{ended(ctx), answers}
}

// overError is the error of a call whose context ended, with what the nodes had answered until then.
type overError struct {
	ended   error
	answers *QuorumError
}

func (e *overError) Error() string { return e.ended.Error() + ": " + e.answers.Error() }

func (e *overError) Unwrap() []error { return []error{e.ended, e.answers} }

// LogValue is as that of the QuorumError.
func (e *overError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Format has %+v reach the QuorumError.
func (e *overError) Format(s fmt.State, verb rune) {
	if verb == 'v' && s.Flag('+') {
		_, _ = fmt.Fprintf(s, "%v: %+v", e.ended, e.answers)
		return
	}
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), e.Error())
}

// ended is the error of a context that has ended, with its cause. That may be the end of another lock, or of another Locker, which
// must not be taken for the end of this one.
func ended(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case cause == ctx.Err(): //nolint:errorlint // the very error is meant
		return cause
	case errors.As(cause, new(*LockError)), errors.Is(cause, ErrClosed):
		return fmt.Errorf("%w (%v)", ctx.Err(), cause) //nolint:errorlint // see above
	default:
		return fmt.Errorf("%w (%w)", ctx.Err(), cause)
	}
}

// outageError is the cause of the context of a wait that an outage has ended.
type outageError struct{ *QuorumError }

// says reports whether an error, or a part of it, says what has become of a lock, and does not say it of another one.
func says(err error, name string, what error) bool {
	switch err := err.(type) { //nolint:errorlint // the tree is walked here
	case *LockError:
		return err.Name == name && errors.Is(err.Err, what)
	case *QuorumError:
		return err.Name == name && errors.Is(err.Reason, what)
	case *ran:
		return says(err.error, name, what)
	case interface{ Unwrap() error }:
		return says(err.Unwrap(), name, what)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(err.Unwrap(), func(part error) bool { return says(part, name, what) })
	}
	return errors.Is(err, what)
}

// notRun is an error that matches ErrNotRun too.
type notRun struct{ disguise }

func (e *notRun) Is(target error) bool { return target == ErrNotRun }

func (e *notRun) Unwrap() error { return e.error }

// ran is an error that does not match ErrNotRun, although a part of it does. So it must not have an Unwrap.
type ran struct{ disguise }

func (e *ran) Is(target error) bool { return target != ErrNotRun && errors.Is(e.error, target) }

func (e *ran) As(target any) bool { return errors.As(e.error, target) }

// disguise is an error that prints as the one within.
type disguise struct{ error }

// LogValue is as that of a QuorumError.
func (e disguise) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Format passes %+v on to a QuorumError.
func (e disguise) Format(s fmt.State, verb rune) {
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), e.error)
}
