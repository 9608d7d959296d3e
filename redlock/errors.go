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

// The errors that calls return, within a [QuorumError] or a [LockError]: compare with [errors.Is]. Why a single node did not do
// what it was asked to is an error of package nodeerr.
var (
	// ErrTaken means that others hold too many nodes for this caller to win a majority. Waiting may help.
	ErrTaken = errors.New("redlock: lock is taken")
	// ErrForeign means that nobody can take the lock: so many nodes hold data of another program, without a TTL, under its name that the
	// others are no majority. Waiting does not help. Choose another name or prefix, or delete the data. Data with a TTL is ErrTaken.
	ErrForeign = errors.New("redlock: data of another program is in the way of the lock")
	// ErrDeadlock means that the caller already holds the lock, and would wait for itself. [Reentrant] takes it again. A function of Do
	// that calls [Locker.Shutdown] gets it too.
	ErrDeadlock = errors.New("redlock: the caller holds the lock already and would wait for itself")
	// ErrNoQuorum means that too few nodes answered, or answered too late, or that the call ended before they had answered, which
	// the Reason of the [QuorumError] says. A call that waited behind others in its Locker, so that it does not know the reason, returns it too.
	ErrNoQuorum = errors.New("redlock: no quorum of nodes")
	// ErrNotHeld means that the lock is not held by this handle, or by this token. It stands alone if only the nodes' answers to a
	// release or to [Locker.Attach] showed that. ErrLost, ErrExpired and ErrReleased match it too.
	ErrNotHeld = errors.New("redlock: lock is not held")
	// ErrLost means that the nodes no longer held the lock, before its deadline.
	ErrLost error = ending("redlock: lock is lost")
	// ErrExpired means that the lock's deadline has passed.
	ErrExpired error = ending("redlock: lock has expired")
	// ErrReleased means that the holder released the lock.
	ErrReleased error = ending("redlock: lock is released")
	// ErrNotRun means that Do or TryDo has not run its function. It comes with the reason.
	ErrNotRun = errors.New("redlock: the function has not run")
	// ErrInvalid means that a name, an option or another argument is out of range, or that the call has no use for it. The message
	// names it. Nothing was sent, except if it is about a token of a [TokenSource] for a later round of the call.
	ErrInvalid = wrong.Err
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

// errWithin is the ErrDeadlock of Shutdown.
var errWithin error = deadlock("redlock: shutdown: a function of Do that waits for it would wait for itself")

type deadlock string

func (d deadlock) Error() string { return string(d) }

func (deadlock) Is(target error) bool { return target == ErrDeadlock }

// invalid makes an ErrInvalid that says what is wrong.
func invalid(format string, args ...any) error { return wrong.Errorf("redlock: "+format, args...) }

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
	if len(name) > engine.MaxName {
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

var prefixes = strings.NewReplacer("redlock: ", "", "pool: ", "", "nodeerr: ", "")

// text is the message of an error within another one, which has the prefix already.
func text(err error) string { return prefixes.Replace(err.Error()) }
