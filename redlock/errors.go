package redlock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/internal/engine"
	wrong "github.com/quorumlock/quorumlock/internal/invalid"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Calls return these errors within a [QuorumError] or a [LockError]: compare with [errors.Is]. The reason of a single
// node is an error of package nodeerr.
var (
	// ErrTaken means that others hold too many nodes for this caller to win a majority. Waiting may help.
	ErrTaken = errors.New("redlock: lock is taken")
	// ErrForeign means that nobody can take the lock. Data of another program, without a TTL, is under its name on too
	// many nodes for a majority. Waiting does not help. Choose another name or prefix, or delete the data. Data with a
	// TTL is ErrTaken.
	ErrForeign = errors.New("redlock: data of another program is in the way of the lock")
	// ErrDeadlock means that the caller already holds the lock and would wait for itself. With [Reentrant] the caller
	// gets another handle, unless its lock does not cover the kind that it asks for. [Locker.Shutdown] also returns
	// ErrDeadlock if a function of Do calls it with its own context, because that function would wait for itself.
	ErrDeadlock = errors.New("redlock: the caller holds the lock already and would wait for itself")
	// ErrNoQuorum means that too few nodes answered, or answered too late, or that the call ended before they had
	// answered. The Reason of the [QuorumError] says which. A call that waited behind others in its Locker, and so does
	// not know the reason, returns it too.
	ErrNoQuorum = errors.New("redlock: no quorum of nodes")
	// ErrNotHeld means that this handle, or this token, does not hold the lock. Every end of a lock matches it:
	// ErrReleased, ErrLost, ErrExpired and ErrGone.
	ErrNotHeld = errors.New("redlock: lock is not held")
	// ErrReleased means that the holder released the lock.
	ErrReleased error = ending("redlock: lock is released")
	// ErrLost means that the lock ended before its holder released it. Every loss is ErrExpired or ErrGone, which match
	// it.
	ErrLost error = ending("redlock: lock is lost")
	// ErrExpired means that the lock's deadline has passed.
	ErrExpired error = loss("redlock: lock has expired")
	// ErrGone means that the nodes no longer held the lock, before its deadline or within its [Grace].
	ErrGone error = loss("redlock: lock is gone")
	// ErrNotRun means that Do or TryDo has not run its function. The error also matches the reason.
	ErrNotRun = errors.New("redlock: the function has not run")
	// ErrInvalid means that a name, an option or another argument is out of range, or that the call has no use for it.
	// The message names it. Nothing was sent, except if the error is about a token of a [TokenSource] for a later round
	// of the call.
	ErrInvalid = wrong.Err
	// ErrClosed means that the Locker has been closed.
	ErrClosed = errors.New("redlock: locker is closed")
)

// These are the operations that package event has no Op for.
const (
	opDo          = "do"
	opDetach      = "detach"
	opInspect     = "inspect"
	opForceUnlock = "force unlock"
	opPing        = "ping"
)

// errWithin is the ErrDeadlock of Shutdown.
var errWithin error = deadlock("redlock: shutdown: a function of Do that waits for it would wait for itself")

type deadlock string

func (d deadlock) Error() string { return string(d) }

func (deadlock) Is(target error) bool { return target == ErrDeadlock }

// invalid makes an ErrInvalid whose message names the fault.
func invalid(format string, args ...any) error { return wrong.Errorf("redlock: "+format, args...) }

// ending is an error that matches ErrNotHeld too.
type ending string

func (e ending) Error() string { return string(e) }

func (e ending) Is(target error) bool { return target == ErrNotHeld }

// loss is an error that matches ErrLost and ErrNotHeld too.
type loss string

func (e loss) Error() string { return string(e) }

func (e loss) Is(target error) bool { return target == ErrLost || target == ErrNotHeld }

// endings[how] is the error of a lease that ended in that way.
var endings = [...]error{quorum.Released: ErrReleased, quorum.Gone: ErrGone, quorum.Expired: ErrExpired}

// LockError is an error about one lock. [errors.As] finds one in every error of a Lock and of a call about a name,
// including a [QuorumError]. It finds none in an error of Do that is only the error of its function. If the function
// held several locks, the error has a LockError for each lock that was lost.
type LockError struct {
	// Op is the operation: "acquire", "do", "extend", "unlock", "attach", "detach", "inspect", "force unlock", or
	// "ping". It is "" if the error is about no operation, like the error of [Lock.Err].
	Op   string
	Name string // the lock's
	Err  error
}

func failed(op event.Op, name string, err error) error { return &LockError{string(op), name, err} }

func (e *LockError) Error() string { return head(e.Op, e.Name) + text(e.Err) }

// Unwrap returns Err.
func (e *LockError) Unwrap() error { return e.Err }

// head returns the beginning of the message of an error: the operation and the name of the lock, if there are any.
func head(op, name string) string {
	if len(name) > engine.MaxName {
		name = name[:32] + "..."
	}
	switch {
	case name == "":
		return fmt.Sprintf("redlock: %s: ", op)
	case op == "":
		return fmt.Sprintf("redlock: %q: ", name)
	}
	return fmt.Sprintf("redlock: %s %q: ", op, name)
}

var prefixes = strings.NewReplacer("redlock: ", "", "pool: ", "", "nodeerr: ", "")

// text returns the message of an error for use within the message of another one. It leaves out the prefixes, because
// that message has one already.
func text(err error) string { return prefixes.Replace(err.Error()) }
