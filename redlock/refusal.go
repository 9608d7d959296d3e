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

// QuorumError is the error of a call that no majority of the nodes carried out. It unwraps to the Reason and each
// node's error. %+v prints a line for each node.
type QuorumError struct {
	Op   string // as in a LockError
	Name string // of the lock; "" for Ping
	// Names are the names that others hold, in order, if the call was for several. Name is the first of them.
	Names []string
	Need  int // the majority
	// Reason matches ErrTaken, ErrForeign, ErrNoQuorum, ErrNotHeld or ErrGone, and nodeerr.ErrUnanswered if the call ended
	// too early to know.
	Reason error
	// Nodes[i] is about the i-th node given to New or Open.
	Nodes []NodeError
}

// NodeError is one node's part in a QuorumError.
type NodeError struct {
	Addr string
	// Err is nil if the node did its part. Else it is an error of package nodeerr, or says why the node was not asked or
	// does not count.
	Err error
}

var (
	// errFences is the reason if a majority holds the lock, but with different fencing tokens or slots: the right one is
	// unknown.
	errFences = fmt.Errorf(
		"%w for its fencing token, or its slot: the numbers differ until the holder extends it", ErrNoQuorum)
	// errMaxWait is the cause of the end of a wait that MaxWait has ended, and not the caller's context.
	errMaxWait = errors.New("MaxWait has ended")
	// errReleaseRefused is the reason if too many nodes refused a release for a majority of the others.
	errReleaseRefused = fmt.Errorf(
		"%w: the release was refused and is not sent again; the key stays until its TTL", ErrNoQuorum)
	// errNoValidity is the reason if a majority holds the lock, but for too short a time to rely on it.
	errNoValidity = fmt.Errorf("%w: no validity is left of it", ErrNotHeld)
	// errTooLate is the reason if a majority did the operation, but only after the deadline.
	errTooLate = fmt.Errorf("%w: majority reached too late", ErrNoQuorum)
	// errDeadline is the reason if the deadline ended an extension before a majority had done it.
	errDeadline = fmt.Errorf("%w: no majority before the deadline", ErrNoQuorum)
)

// errUnanswered is the reason if an operation ended before the nodes had decided, and faults alone did not prevent a
// majority.
var errUnanswered error = unanswered{}

type unanswered struct{}

func (unanswered) Error() string {
	return ErrNoQuorum.Error() + ": the call ended before enough nodes had answered"
}

func (unanswered) Unwrap() []error { return []error{ErrNoQuorum, nodeerr.ErrUnanswered} }

// reasons[op][outcome] is the Reason of a QuorumError.
var reasons = map[event.Op]map[quorum.Outcome]error{
	event.OpAcquire: {quorum.Denied: ErrTaken, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errTooLate},
	event.OpExtend:  {quorum.Denied: ErrGone, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errTooLate},
	event.OpUnlock:  {quorum.Denied: ErrNotHeld, quorum.NoQuorum: ErrNoQuorum},
	event.OpAttach:  {quorum.Denied: ErrNotHeld, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errNoValidity},
}

// prevented reports whether the nodes that have one of the errors leave no majority of other nodes.
func (e *QuorumError) prevented(by ...error) bool {
	return e.preventedBy(func(err error) bool {
		return slices.ContainsFunc(by, func(one error) bool { return errors.Is(err, one) })
	})
}

// preventedBy is prevented for all errors for which the function is returns true.
func (e *QuorumError) preventedBy(is func(error) bool) bool {
	others := 0
	for i := range e.Nodes {
		if !is(e.Nodes[i].Err) {
			others++
		}
	}
	return others < e.Need
}

// blame makes the reason more exact, by the answers of the nodes. If a call ended before the nodes had decided, the
// reason is errUnanswered, unless faults had decided. An acquire has ErrForeign if the nodes with data of another
// program leave no majority. It has ErrNoQuorum in the place of ErrTaken if no node refused because of another caller.
func (e *QuorumError) blame() {
	unanswered := func(n NodeError) bool { return errors.Is(n.Err, nodeerr.ErrUnanswered) }
	switch {
	case e.Op == string(event.OpUnlock) && e.Reason == ErrNoQuorum && //nolint:errorlint // the very error is meant
		e.preventedBy(keepsKey):
		e.Reason = errReleaseRefused
	case e.Reason == errTooLate && //nolint:errorlint // the very error is meant
		e.preventedBy(func(err error) bool { return err != nil }):
		e.Reason = errDeadline
	case e.Reason == ErrNoQuorum && //nolint:errorlint // not if it is too late
		slices.ContainsFunc(e.Nodes, unanswered) && !e.preventedBy(isFault):
		e.Reason = errUnanswered
	case e.Op != string(event.OpAcquire) ||
		e.Reason != ErrTaken && e.Reason != ErrNoQuorum: //nolint:errorlint // not if it is too late
	case e.prevented(nodeerr.ErrForeign):
		e.Reason = ErrForeign
	case e.Reason == ErrTaken && //nolint:errorlint // the very error is meant
		!slices.ContainsFunc(e.Nodes, func(n NodeError) bool { return isTaken(n.Err) }):
		e.Reason = ErrNoQuorum
	}
}

// isFailure reports whether a node has not granted the lock, though no other caller is in the way there. A missing
// answer is no failure of the node if nobody waited for it.
func isFailure(err error) bool {
	return err != nil && !isTaken(err) && !errors.Is(err, nodeerr.ErrUnneeded) && !errors.Is(err, nodeerr.ErrUnanswered)
}

// isFault reports whether a node failed to answer, whatever it was asked.
func isFault(err error) bool {
	return isFailure(err) && !errors.Is(err, nodeerr.ErrAbsent) &&
		!errors.Is(err, nodeerr.ErrRecreated) && !errors.Is(err, nodeerr.ErrForeign)
}

// keepsKey reports whether a node keeps the key. Such a node refused or did not accept the release, and the release is
// not sent to it again. A server that votes for another node already is released under the name of that node.
func keepsKey(err error) bool {
	return isFault(err) && !engine.SentAgain(err) && !errors.Is(err, nodeerr.ErrSameServer)
}

// isTaken reports whether another caller holds the node, or is ahead.
func isTaken(err error) bool {
	return errors.Is(err, nodeerr.ErrHeld) || errors.Is(err, nodeerr.ErrQueued)
}

func (e *NodeError) Error() string {
	if e.Err == nil {
		return e.Addr + ": yes"
	}
	return e.Addr + ": " + text(e.Err)
}

func (e *NodeError) Unwrap() error { return e.Err }

func (e *QuorumError) Error() string {
	return head(e.Op, e.Name) + e.line()
}

// line returns the message without the operation and the name.
func (e *QuorumError) line() string {
	message, nodes := e.parts()
	if len(nodes) == 0 {
		return message
	}
	return message + ": " + strings.Join(nodes, "; ")
}

// Format implements [fmt.Formatter].
func (e *QuorumError) Format(s fmt.State, verb rune) {
	if verb == 'v' && s.Flag('+') {
		message, nodes := e.parts()
		_, _ = io.WriteString(s, head(e.Op, e.Name)+strings.Join(append([]string{message}, nodes...), "\n\t"))
		return
	}
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), e.Error())
}

// LogValue implements [slog.LogValuer]: one line.
func (e *QuorumError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// parts returns the reason with the counts, and the answers of the nodes; nil if no node was asked.
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
	case yes < e.Need: // otherwise the count is not the reason
		message += fmt.Sprintf(": %d of %d nodes %s, %d needed", yes, len(e.Nodes), did, e.Need)
	}
	return message, nodes
}

// As finds a LockError.
func (e *QuorumError) As(target any) bool {
	found, ok := target.(**LockError)
	if ok {
		*found = &LockError{e.Op, e.Name, e}
	}
	return ok
}

func (e *QuorumError) Unwrap() []error { return e.unwrap(e.Reason) }

// unwrap returns a reason, and the errors of the nodes that have one.
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

// givenUp returns the error of a call that ctx ended, or that the nodes refused. It never returns ErrClosed, so it is
// also for calls that may be made after Close.
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

// overError is the error of a call whose context ended, with the answers that the nodes gave until then.
type overError struct {
	ended   error
	answers *QuorumError
}

func (e *overError) Error() string { return e.ended.Error() + ": " + e.answers.Error() }

func (e *overError) Unwrap() []error { return []error{e.ended, e.answers} }

// LogValue returns one line, like that of the QuorumError.
func (e *overError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Format passes %+v on to the QuorumError.
func (e *overError) Format(s fmt.State, verb rune) {
	if verb == 'v' && s.Flag('+') {
		_, _ = fmt.Fprintf(s, "%v: %+v", e.ended, e.answers)
		return
	}
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), e.Error())
}

// ended returns the error of a context that has ended, with its cause. If the cause is the end of another lock or of
// another Locker, only its text is included. The error must not match as the end of this one.
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

// outageError is the cause with which an outage ends the context of a wait.
type outageError struct{ *QuorumError }

// says reports whether an error, or a part of it, matches what and is about the lock of a name. A part that is about
// another lock does not count.
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

// notRun is an error that also matches ErrNotRun.
type notRun struct{ disguise }

func (e *notRun) Is(target error) bool { return target == ErrNotRun }

func (e *notRun) Unwrap() error { return e.error }

// ran is an error that does not match ErrNotRun, although a part of it does. So it must not have the method Unwrap.
type ran struct{ disguise }

func (e *ran) Is(target error) bool { return target != ErrNotRun && errors.Is(e.error, target) }

func (e *ran) As(target any) bool { return errors.As(e.error, target) }

// disguise is an error that prints like the error in it.
type disguise struct{ error }

// LogValue returns one line, like that of a QuorumError.
func (e disguise) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Format passes %+v on to a QuorumError.
func (e disguise) Format(s fmt.State, verb rune) {
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), e.error)
}
