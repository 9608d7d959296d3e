package redlock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// The errors that calls return, within a [QuorumError] or a [LockError]: compare with [errors.Is]. Why a single node did not do
// what it was asked to is an error of package nodeerr.
var (
	// ErrTaken means that others hold too many nodes for this caller to win a majority. Waiting may help.
	ErrTaken = errors.New("redlock: lock is taken")
	// ErrForeign means that nobody can take the lock: so many nodes hold data of another program under its name that the others are
	// no majority. Waiting does not help. Choose another name or prefix, or delete the data.
	ErrForeign = errors.New("redlock: data of another program is in the way of the lock")
	// ErrDeadlock means that the caller already holds the lock, and would wait for itself. [Reentrant] takes it again.
	ErrDeadlock = errors.New("redlock: the caller holds the lock already and would wait for itself")
	// ErrNoQuorum means that too few nodes answered, or answered too late. A call that waited behind others in its Locker, so that it
	// does not know the reason, returns it too.
	ErrNoQuorum = errors.New("redlock: no quorum of nodes")
	// ErrNotHeld means that the lock is not held by this handle, or by this token. It stands alone if only the nodes' answers to a
	// release or to [Locker.Attach] showed that. ErrLost, ErrExpired and ErrReleased match it too.
	ErrNotHeld = errors.New("redlock: lock is not held")
	// ErrLost means that the nodes did not hold the lock any more, before its deadline.
	ErrLost error = ending("redlock: lock is lost")
	// ErrExpired means that the lock's deadline has passed.
	ErrExpired error = ending("redlock: lock has expired")
	// ErrReleased means that the holder released the lock.
	ErrReleased error = ending("redlock: lock is released")
	// ErrNotRun means that Do or TryDo has not run its function. It comes with the reason.
	ErrNotRun = errors.New("redlock: the function has not run")
	// ErrInvalid means that a name, an option or another argument is out of range, or that the call has no use for it. The message
	// names it. Nothing was sent, except if it is about a token of a [TokenSource] for a later round of the call.
	ErrInvalid = node.ErrInvalid
	// ErrClosed means that the Locker has been closed.
	ErrClosed = errors.New("redlock: locker is closed")
)

// The operations of which there are no events.
const (
	opDo          = "do"
	opDetach      = "detach"
	opInspect     = "inspect"
	opForceUnlock = "force unlock"
	opPing        = "ping"
)

// invalid makes an ErrInvalid that says what is wrong.
func invalid(format string, args ...any) error { return node.Invalid("redlock: "+format, args...) }

// ending is an error that ErrNotHeld stands for.
type ending string

func (e ending) Error() string { return string(e) }

func (e ending) Is(target error) bool { return target == ErrNotHeld }

// endings[how] is what Lock.Err returns for a lease that ended.
var endings = [...]error{quorum.Released: ErrReleased, quorum.Lost: ErrLost, quorum.Expired: ErrExpired}

// LockError is an error about one lock. [errors.As] finds one in every error of a Lock, and of a call about a name, a [QuorumError]
// included; except in an error of Do that is only that of its function. A Do whose function held several locks returns an error that
// names each.
type LockError struct {
	// Op is the operation: "acquire", "do", "extend", "unlock", "attach", "detach", "inspect", "force unlock", or "ping". It is "" if the
	// error is about none, as that of [Lock.Err].
	Op   string
	Name string // the lock's
	Err  error
}

func failed(op event.Op, name string, err error) error { return &LockError{string(op), name, err} }

func (e *LockError) Error() string { return head(e.Op, e.Name) + text(e.Err) }

// Unwrap returns Err.
func (e *LockError) Unwrap() error { return e.Err }

// head is how the message of an error about a lock begins.
func head(op, name string) string {
	if len(name) > maxNameBytes {
		name = name[:32] + "..."
	}
	switch op {
	case "":
		return fmt.Sprintf("redlock: %q: ", name)
	case opPing:
		return "redlock: ping: "
	}
	return fmt.Sprintf("redlock: %s %q: ", op, name)
}

// QuorumError is returned if a majority of nodes did not do what it was asked to. It unwraps to its Reason and to every
// node's error. Its message is one line; the verb %+v prints a line for each node.
type QuorumError struct {
	Op   string // as of a LockError
	Name string // the lock's; "" of Ping
	Need int    // how many nodes make the majority
	// Reason matches ErrTaken, ErrForeign, ErrNoQuorum, ErrNotHeld or ErrLost: compare with errors.Is, as it may add details.
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
	// errFences is about a lock that a majority holds with different fencing tokens, so that its token is unknown.
	errFences = fmt.Errorf("%w for its fencing token: the numbers differ until the holder extends it", ErrNoQuorum)
	// errMaxWait is why a wait is over, if it is not that the caller's context has ended.
	errMaxWait = errors.New("MaxWait has ended")
	// errNoValidity is about a lock that a majority holds, but for so short a time that it cannot be relied on.
	errNoValidity = fmt.Errorf("%w: no validity is left of it", ErrNotHeld)
	// errTooLate is the reason of an operation that a majority has done after the deadline.
	errTooLate = fmt.Errorf("%w: majority reached too late", ErrNoQuorum)
)

// reasons[op][outcome] is the Reason of a QuorumError.
var reasons = map[event.Op]map[quorum.Outcome]error{
	event.OpAcquire: {quorum.Denied: ErrTaken, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errTooLate},
	event.OpExtend:  {quorum.Denied: ErrLost, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errTooLate},
	event.OpUnlock:  {quorum.Denied: ErrNotHeld, quorum.NoQuorum: ErrNoQuorum},
	event.OpAttach:  {quorum.Denied: ErrNotHeld, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errNoValidity},
}

// refusal makes a QuorumError. err returns why a node did not do what it was asked to.
func (l *Locker) refusal(op event.Op, name string, reason error, err func(node int) error) *QuorumError {
	e := &QuorumError{Op: string(op), Name: name, Need: quorum.Majority(len(l.nodes)), Reason: reason, Nodes: make([]NodeError, len(l.nodes))}
	for i, n := range l.nodes {
		e.Nodes[i] = NodeError{Addr: n.Addr(), Err: err(i)}
	}
	e.blame()
	return e
}

// prevented reports whether so many nodes have one of the errors that the others are no majority.
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

// hopeless reports whether so many nodes have faults that do not end by themselves that the others are no majority. What only an
// operator mends counts as such a fault until the nodes have served this Locker: later it may be a password that is being changed.
func (e *QuorumError) hopeless(served bool) bool {
	return e.preventedBy(func(err error) bool {
		return errors.Is(err, nodeerr.ErrClosed) || errors.Is(err, nodeerr.ErrForeign) || !served && needsOperator(err)
	})
}

// needsOperator reports whether a node refuses its service because of something that an operator has to mend: a password, a
// permission, a certificate, a version, or a URL. A server that starts or fails over does not.
func needsOperator(err error) bool {
	var refusal *nodeerr.ServerError
	if errors.As(err, &refusal) {
		transient := slices.Contains([]string{"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "READONLY"}, refusal.Code) ||
			strings.Contains(refusal.Message, "max number of clients")
		return refusal.Code == "NOPERM" || refusal.Code == "NOAUTH" || errors.As(err, new(*nodeerr.ConnectError)) && !transient
	}
	return errors.Is(err, nodeerr.ErrOldServer) || errors.Is(err, nodeerr.ErrSameServer) ||
		errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.AlertError)) || errors.As(err, new(tls.RecordHeaderError))
}

// blame corrects the reason of an acquire. Somebody's data is the reason if it is on so many nodes that the others are no majority; and
// nobody has taken the lock if the nodes that granted nothing had other reasons.
func (e *QuorumError) blame() {
	switch {
	case e.Op != string(event.OpAcquire) || e.Reason != ErrTaken && e.Reason != ErrNoQuorum: //nolint:errorlint // not if it is too late
	case e.prevented(nodeerr.ErrForeign):
		e.Reason = ErrForeign
	case e.Reason == ErrTaken && !slices.ContainsFunc(e.Nodes, isTaken): //nolint:errorlint // as above
		e.Reason = ErrNoQuorum
	}
}

// failed counts the nodes that nobody is in the way on, and that have not granted the lock either.
func (e *QuorumError) failed() (n int) {
	for _, node := range e.Nodes {
		if node.Err != nil && !isTaken(node) && !errors.Is(node.Err, nodeerr.ErrPending) {
			n++
		}
	}
	return n
}

// isTaken reports whether another holds the node, or is ahead.
func isTaken(n NodeError) bool {
	return errors.Is(n.Err, nodeerr.ErrHeld) || errors.Is(n.Err, nodeerr.ErrQueued)
}

var prefixes = strings.NewReplacer("redlock: ", "", "pool: ", "", "nodeerr: ", "")

// text is the message of an error within another one, which has the prefix already.
func text(err error) string { return prefixes.Replace(err.Error()) }

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
		_, _ = io.WriteString(s, strings.Join(append([]string{message}, nodes...), "\n\t"))
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
	message = head(e.Op, e.Name) + text(e.Reason)
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
func (e *QuorumError) Unwrap() []error {
	var nodes *multierror.Error
	for i := range e.Nodes {
		if e.Nodes[i].Err != nil {
			nodes = multierror.Append(nodes, &e.Nodes[i])
		}
	}
	if nodes == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, nodes}
}

// refused is the error of a call that the nodes have refused, or had not answered when it was given up.
func (l *Locker) refused(ctx context.Context, answers *QuorumError) error {
	if l.closing.Err() != nil {
		return &LockError{answers.Op, answers.Name, ErrClosed}
	}
	return givenUp(ctx, answers)
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
