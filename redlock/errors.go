package redlock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/go-multierror"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// The errors that calls return, alone or within a [QuorumError]: compare with
// [errors.Is].
var (
	// ErrTaken: a majority of nodes answered, and others hold so many of them that none is possible.
	ErrTaken = errors.New("lock is taken")
	// ErrNoQuorum: too few nodes answered, or too late.
	ErrNoQuorum = errors.New("no quorum of nodes")
	// ErrNotHeld: the lock was not ours any more when it was released.
	ErrNotHeld = errors.New("lock is not held")
	// ErrLost: the nodes do not hold the lock any more, before its deadline.
	ErrLost = errors.New("lock is lost")
	// ErrExpired: the lock's deadline went by.
	ErrExpired = errors.New("lock has expired")
	// ErrReleased: the lock was released by its holder.
	ErrReleased = errors.New("lock is released")
	// ErrDeadlock: the caller holds the lock already, and would wait for itself. It comes with ErrTaken.
	ErrDeadlock = errors.New("the caller holds it already and would wait for itself (Reentrant takes it again)")
	// ErrReentered: other handles hold the lock too.
	ErrReentered = errors.New("other handles hold the lock too")
	// ErrClosed: the Locker has been closed.
	ErrClosed = errors.New("redlock: locker is closed")
)

// The operations that a QuorumError, a Vote or a Verdict names.
const (
	opAcquire = "acquire"
	opExtend  = "extend"
	opUnlock  = "unlock"
	opAttach  = "attach"
	opInspect = "inspect"
	opForce   = "force unlock"
)

// QuorumError is returned where a majority of nodes did not do what it was asked
// to. It unwraps to its Reason and to every node's error.
type QuorumError struct {
	Op     string // "acquire", "extend", "unlock", "attach", "inspect" or "force unlock"
	Name   string // the lock's
	Need   int    // how many nodes make the majority
	Reason error  // ErrTaken, ErrNoQuorum, ErrNotHeld or ErrLost
	// Nodes[i] is about the i-th node given to New.
	Nodes []NodeError
}

// NodeError is one node's part in a QuorumError.
type NodeError struct {
	Addr string
	// Err is why the node did not do what it was asked to; nil if it did. It is one of
	// the errors of package pool, ErrPending, ErrSameServer, ErrRestoring, ErrNoExpiry or ErrQueued.
	Err error
}

// Reasons of single nodes, beside those of package pool.
var (
	// ErrPending: the node had not answered yet when the outcome was certain without it.
	ErrPending = errors.New("had not answered yet")
	// ErrSameServer: the server behind this node votes for another node already.
	ErrSameServer = errors.New("is the same server as")
	// ErrRestoring: the node did extend, but the TTL that undoes an extension which failed before
	// may still arrive there.
	ErrRestoring = errors.New("may still undo it: a failed extension is not settled there")
	// ErrNoExpiry: the key has no TTL, so that whoever set it has to release it. It comes with pool.ErrHeld.
	ErrNoExpiry = errors.New("no expiry")
	// ErrQueued: the node was not asked, as another call of this Locker holds the lock or waits for it.
	ErrQueued = errors.New("not asked: others in this process are first")
)

// errNeverAcquired is about a node that is not asked to extend or release, as it
// cannot hold the lock.
var errNeverAcquired = fmt.Errorf("%w: the acquire never got there", pool.ErrAbsent)

// errAhead is about a node that has granted the lock with a number that the others did not agree on.
var errAhead = errors.New("granted, with another number than the fencing token of the others")

// errFences is about a lock that a majority holds with different fencing tokens, so that nobody can tell which it is.
var errFences = fmt.Errorf("%w for its fencing token: the numbers differ until the holder extends it", ErrNoQuorum)

// errOver is about a node that is not asked to extend, as the lock has ended meanwhile.
var errOver = errors.New("not asked: the lock is over")

var errTooLate = fmt.Errorf("%w: a majority came when no validity was left", ErrNoQuorum)

func (e *NodeError) Error() string {
	if e.Err == nil {
		return e.Addr + ": yes"
	}
	return e.Addr + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *NodeError) Unwrap() error { return e.Err }

// Error says what was refused and why, and what each node said, a line each.
func (e *QuorumError) Error() string {
	yes := 0
	for i := range e.Nodes {
		if e.Nodes[i].Err == nil {
			yes++
		}
	}
	head := fmt.Sprintf("redlock: %s %q: %v: %d of %d nodes said yes, %d needed",
		e.Op, e.Name, e.Reason, yes, len(e.Nodes), e.Need)
	lines := &multierror.Error{ErrorFormat: func(nodes []error) string {
		var b strings.Builder
		b.WriteString(head)
		for _, node := range nodes {
			b.WriteString("\n\t" + node.Error())
		}
		return b.String()
	}}
	for i := range e.Nodes {
		lines = multierror.Append(lines, &e.Nodes[i])
	}
	return lines.Error()
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

// reasons[op][outcome] is the Reason of a QuorumError.
var reasons = map[string]map[quorum.Outcome]error{
	opAcquire: {quorum.Denied: ErrTaken, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errTooLate},
	opExtend:  {quorum.Denied: ErrLost, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: errTooLate},
	opUnlock:  {quorum.Denied: ErrNotHeld, quorum.NoQuorum: ErrNoQuorum},
	opAttach:  {quorum.Denied: ErrNotHeld, quorum.NoQuorum: ErrNoQuorum, quorum.TooLate: ErrNotHeld},
	opInspect: {quorum.NoQuorum: ErrNoQuorum},
	opForce:   {quorum.NoQuorum: ErrNoQuorum},
}

// endingError is what Lock.Err says of a lease that ended.
func endingError(ending quorum.Ending) error {
	switch ending {
	case quorum.Held:
		return nil
	case quorum.Released:
		return ErrReleased
	case quorum.Gone:
		return ErrLost
	default:
		return ErrExpired
	}
}
