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

// Calls return these errors in a [QuorumError] or a [LockError]: compare with [errors.Is]. Any call may return
// ErrInvalid or ErrClosed. If ctx ends, the error matches ctx.Err(), which alone means that no node was asked.
var (
	// ErrTaken means that others hold too many nodes for a majority. Waiting may help.
	ErrTaken = errors.New("redlock: lock is taken")
	// ErrForeign means that data of another program, without a TTL, is under the name on too many nodes. Choose another
	// name or prefix. Data with a TTL is ErrTaken, and so is a string of up to 1024 bytes.
	ErrForeign = errors.New("redlock: data of another program is in the way of the lock")
	// ErrDeadlock means that the caller holds the lock already ([Reentrant]), or that a function of Do waits for itself
	// ([Locker.Shutdown]).
	ErrDeadlock = errors.New("redlock: the caller holds the lock already and would wait for itself")
	// ErrNoQuorum means that too few nodes answered in time, or that the call ended first: see [QuorumError].
	ErrNoQuorum = errors.New("redlock: no quorum of nodes")
	// ErrNotHeld means that the handle or token does not hold the lock. ErrReleased, ErrLost, ErrExpired and ErrGone match
	// it.
	ErrNotHeld = errors.New("redlock: lock is not held")
	// ErrReleased means that the holder released the lock.
	ErrReleased error = ending("redlock: lock is released")
	// ErrLost means that the lock ended before its release. ErrExpired and ErrGone match it.
	ErrLost error = ending("redlock: lock is lost")
	// ErrExpired means that the deadline has passed.
	ErrExpired error = loss("redlock: lock has expired")
	// ErrGone means that the nodes lost the lock, before its deadline or within its [Grace].
	ErrGone error = loss("redlock: lock is gone")
	// ErrNotRun means that Do did not run its function.
	ErrNotRun = errors.New("redlock: the function has not run")
	// ErrInvalid means that an argument is out of range, or that the call has no use for it. Nothing was sent, unless a
	// [TokenSource] failed in a later round.
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

// LockError is an error about one lock. [errors.As] finds one in every error about a lock, also in a [QuorumError].
type LockError struct {
	// Op is the operation, such as "acquire" or "force unlock"; "" for [Lock.Err].
	Op   string
	Name string // the lock's
	Err  error
}

func failed(op event.Op, name string, err error) error { return &LockError{string(op), name, err} }

func (e *LockError) Error() string { return head(e.Op, e.Name) + text(e.Err) }

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
