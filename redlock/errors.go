package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// The errors that calls return, alone or within a [QuorumError]: compare with
// [errors.Is].
var (
	// ErrTaken means that a majority of nodes answered, and that others hold too many nodes for this caller to win a majority.
	ErrTaken = errors.New("redlock: lock is taken")
	// ErrNoQuorum means that too few nodes answered, or answered too late.
	ErrNoQuorum = errors.New("redlock: no quorum of nodes")
	// ErrNotHeld means that the lock was no longer ours when it was released.
	ErrNotHeld = errors.New("redlock: lock is not held")
	// ErrLost means that the nodes did not hold the lock any more, before its deadline.
	ErrLost = errors.New("redlock: lock is lost")
	// ErrExpired means that the lock's deadline has passed.
	ErrExpired = errors.New("redlock: lock has expired")
	// ErrReleased means that the holder released the lock.
	ErrReleased = errors.New("redlock: lock is released")
	// ErrDeadlock means that the caller already holds the lock, and would wait for itself. It comes with ErrTaken.
	ErrDeadlock = errors.New("redlock: the caller holds it already and would wait for itself (Reentrant takes it again)")
	// ErrReentered means that other handles hold the lock too.
	ErrReentered = errors.New("redlock: other handles hold the lock too")
	// ErrClosed means that the Locker has been closed.
	ErrClosed = errors.New("redlock: locker is closed")
)

// QuorumError is returned if a majority of nodes did not do what it was asked to. It unwraps to its Reason and to every
// node's error.
type QuorumError struct {
	Op     Op
	Name   string // the lock's
	Need   int    // how many nodes make the majority
	Reason error  // ErrTaken (with ErrForeign if somebody's data is why), ErrNoQuorum, ErrNotHeld or ErrLost; of ForceUnlock also ErrForeign
	// Nodes[i] is about the i-th node given to New or Open.
	Nodes []NodeError
}

// NodeError is one node's part in a QuorumError.
type NodeError struct {
	Addr string
	// Err is why the node did not do what it was asked to; nil if it did. It is one of the errors of package pool, ErrPending,
	// ErrSameServer, ErrNoExpiry, ErrForeign or ErrQueued, or only says why the node was not asked or does not count.
	Err error
}

// Reasons of single nodes, beside those of package pool.
var (
	// ErrPending means that the node had not answered yet when the outcome was certain without it, or when the context ended.
	ErrPending = errors.New("redlock: no answer before the outcome was certain")
	// ErrSameServer means that the server behind this node votes for another node already.
	ErrSameServer = errors.New("redlock: the node is the same server as")
	// ErrNoExpiry means that the key has no TTL, so that whoever set it has to release it. It comes with pool.ErrHeld.
	ErrNoExpiry = node.ErrNoExpiry
	// ErrForeign means that the key holds what cannot be a lock: a value of another type than a string, or of more than 1024
	// bytes. It is somebody's data under the lock's name, and nothing deletes it. With fencing, the error of a single node also
	// means that what its counter's key holds is no counter.
	ErrForeign = node.ErrForeign
	// ErrQueued means that the node was not asked, because another call of this Locker holds the lock or waits for it.
	ErrQueued = errors.New("redlock: not asked: other calls in this process are first")
)

var (
	// errNeverAcquired is about a node that is not asked to extend or release, because it cannot hold the lock.
	errNeverAcquired = fmt.Errorf("%w: the acquire never got there", pool.ErrAbsent)
	// errAhead is about a node that has granted the lock with a higher number than the token on which the others agreed.
	errAhead = errors.New("granted, with another number than the fencing token of the others")
	// errFences is about a lock that a majority holds with different fencing tokens, so that its token is unknown.
	errFences = fmt.Errorf("%w for its fencing token: the numbers differ until the holder extends it", ErrNoQuorum)
	// errMaxWait is why a wait is over, if it is not that the caller's context has ended.
	errMaxWait = errors.New("MaxWait has ended")
	// errMaybeRecreated is about a node that holds the lock, but maybe not since it was taken.
	errMaybeRecreated = fmt.Errorf("%w, or may have been", pool.ErrRecreated)
	// errOver is about a node that is not asked to extend, because the lock has ended meanwhile.
	errOver = errors.New("not asked: the lock is over")
	// errNoValidity is about a lock that a majority holds, but for so short a time that it cannot be relied on.
	errNoValidity = fmt.Errorf("%w: no validity is left of it", ErrNotHeld)
	// errData is the reason of an acquire that nobody can win, whoever releases what.
	errData = fmt.Errorf("%w: %w", ErrTaken, ErrForeign)
	// errTooLate is the reason of an operation that a majority has done after the deadline.
	errTooLate = fmt.Errorf("%w: a majority came when no validity was left", ErrNoQuorum)
)

// reasons[op][outcome] is the Reason of a QuorumError.
var reasons = map[Op]map[quorum.Outcome]error{
	OpAcquire: {quorum.Denied: ErrTaken, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errTooLate},
	OpExtend:  {quorum.Denied: ErrLost, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errTooLate},
	OpUnlock:  {quorum.Denied: ErrNotHeld, quorum.NoQuorum: ErrNoQuorum},
	OpAttach:  {quorum.Denied: ErrNotHeld, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errNoValidity},
}

// refusal makes a QuorumError. err returns why a node did not do what it was asked to.
func (l *Locker) refusal(op Op, name string, reason error, err func(node int) error) *QuorumError {
	e := &QuorumError{Op: op, Name: name, Need: quorum.Majority(len(l.nodes)), Reason: reason, Nodes: make([]NodeError, len(l.nodes))}
	for i, n := range l.nodes {
		e.Nodes[i] = NodeError{Addr: n.Addr(), Err: err(i)}
	}
	e.blame()
	return e
}

// prevented reports whether so many nodes have one of the errors that the others are no majority.
func (e *QuorumError) prevented(by ...error) bool {
	others := 0
	for i := range e.Nodes {
		if !slices.ContainsFunc(by, func(err error) bool { return errors.Is(e.Nodes[i].Err, err) }) {
			others++
		}
	}
	return others < e.Need
}

// closed reports whether so many nodes have been closed that no majority is possible any more.
func (e *QuorumError) closed() bool { return e.prevented(pool.ErrClosed) }

// blame makes somebody's data the reason of an acquire that found it on so many nodes that the others are no majority.
func (e *QuorumError) blame() {
	if e.Op == OpAcquire && e.Reason == ErrTaken && e.prevented(ErrForeign) { //nolint:errorlint // not if it is said
		e.Reason = errData
	}
}

var prefixes = strings.NewReplacer("redlock: ", "", "pool: ", "")

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

// Error returns what was refused and why, and the answer of each node on a line of its own.
func (e *QuorumError) Error() string {
	yes, queued, did := 0, 0, "said yes"
	if e.Op == OpInspect {
		did = "answered"
	}
	for i := range e.Nodes {
		switch err := e.Nodes[i].Err; {
		case err == nil, e.Op == OpInspect && (errors.Is(err, node.ErrAbsent) || errors.Is(err, ErrForeign)):
			yes++
		case errors.Is(err, ErrQueued):
			queued++
		}
	}
	head := fmt.Sprintf("redlock: %s %q: %s", e.Op, e.Name, text(e.Reason))
	switch {
	case queued == len(e.Nodes):
		return head + ": held by this process, or other calls in it are first"
	case yes < e.Need: // otherwise the reason is another
		head += fmt.Sprintf(": %d of %d nodes %s, %d needed", yes, len(e.Nodes), did, e.Need)
	}
	for i := range e.Nodes {
		head += "\n\t" + e.Nodes[i].Error()
	}
	return head
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

// opError is the error of an operation for which no node was asked, or which no node's answer decides.
type opError struct {
	op   Op
	name string
	errs []error
}

func failed(op Op, name string, errs ...error) error { return &opError{op, name, errs} }

func (e *opError) Error() string {
	message := fmt.Sprintf("redlock: %s %q", e.op, e.name)
	for _, err := range e.errs {
		message += ": " + text(err)
	}
	return message
}

func (e *opError) Unwrap() []error { return e.errs }

// refused is the error of a call that the nodes have refused, or had not answered when it was given up.
func (l *Locker) refused(ctx context.Context, answers *QuorumError) error {
	if l.closing.Err() != nil {
		return ErrClosed
	}
	return givenUp(ctx, answers)
}

// givenUp is refused for a call that may be made after Close.
func givenUp(ctx context.Context, answers *QuorumError) error {
	cause := context.Cause(ctx)
	switch {
	case ctx.Err() == nil:
		return answers
	case cause != ctx.Err(): //nolint:errorlint // the very error is meant
		return fmt.Errorf("%w (%w): %w", ctx.Err(), cause, answers)
	}
	return fmt.Errorf("%w: %w", ctx.Err(), answers)
}

// endings[how] is what Lock.Err returns for a lease that ended.
var endings = [...]error{quorum.Released: ErrReleased, quorum.Lost: ErrLost, quorum.Expired: ErrExpired}
