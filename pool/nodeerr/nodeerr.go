// Package nodeerr has the reasons why a single node did not carry out a command. Programs find them as the Err of a
// redlock.NodeError, in a redlock.NodeState, and in events. A redlock.QuorumError has a NodeError for each node.
// Compare with [errors.Is] and [errors.As].
//
// A reason says why a node is missing from a majority. The errors of package redlock say whether the lock is held,
// taken or unknown: a single node's reason never decides that.
//
// No reason matches an error of package context, whatever timeout or function of the program it came from. Only the end
// of the caller's own context does.
package nodeerr

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// These errors mean that the node answered no: its key is not in the state that the command needs.
var (
	// ErrHeld means that another token holds the key.
	ErrHeld = errors.New("nodeerr: another token holds the key")
	// ErrWanted means that another process waits for the lock and comes first: for an exclusive lock, for a lock of
	// another kind, or for one of fewer slots than are taken. Shared locks and slots that are held stay, and no new one is
	// granted. It matches ErrHeld too.
	ErrWanted error = denial("nodeerr: another process waits and comes first")
	// ErrFull means that all slots are taken, or that the nodes have not agreed on one. It matches ErrHeld too.
	ErrFull error = denial("nodeerr: no slot is free")
	// ErrOwnToken means that the key held the token of the call before the call was made, so that another caller may have
	// the lock. A token must not repeat (redlock.TokenSource). It matches ErrHeld too.
	ErrOwnToken error = denial("nodeerr: the same token holds the key: a token must not repeat")
	// ErrNoExpiry means that the key has no TTL, so that the client that set it has to delete it. It comes with ErrHeld.
	ErrNoExpiry = errors.New("nodeerr: the key has no expiry")
	// ErrForeign means that the key holds a value that cannot be a lock: one of another type than a string, or of more
	// than 1024 bytes. It is data of another program under the lock's name, and nothing deletes it. To an acquire, such
	// data is ErrHeld if it has a TTL, because it ends by itself. ErrForeign also means that a companion key of the lock,
	// such as its fencing counter, holds other data.
	ErrForeign = errors.New("nodeerr: the key holds data of another program, not a lock")
	// ErrAbsent means that the key does not exist.
	ErrAbsent = errors.New("nodeerr: the key does not exist")
	// ErrRecreated means that an extension found that the key did not exist, and re-created it. It also means that this
	// may have happened before, or that the acquire was late. The node does not count for the majority until another
	// extension has succeeded that began afterwards.
	ErrRecreated = errors.New("nodeerr: the key did not exist and was re-created")
)

// denial is a special reason why a key is held.
type denial string

func (d denial) Error() string { return string(d) }

func (denial) Is(target error) bool { return target == ErrHeld }

// These errors mean that there is no answer of the node.
var (
	// ErrUnneeded means that the answers of the other nodes decided before the node answered. It is no fault of the node.
	ErrUnneeded = errors.New("nodeerr: not waited for: decided without it")
	// ErrUnanswered means that the call ended before the node answered: by its context, MaxWait, the Close of its Locker,
	// or the deadline of the lock. It is no fault of the node. The command may have been carried out.
	ErrUnanswered = errors.New("nodeerr: the call ended before it answered")
	// ErrTimeout means that no answer came within the node timeout. The command may have been carried out. In a
	// [ConnectError] it means that there was no connection within the dial timeout, so that the command was not sent.
	ErrTimeout = errors.New("nodeerr: no answer in time")
	// ErrBroken means that the connection broke before the answer. The command may have been carried out.
	ErrBroken = errors.New("nodeerr: connection broken before the answer")
	// ErrProtocol means that the node sent something that Redis does not answer to the command. The connection ends then.
	ErrProtocol = errors.New("nodeerr: not an answer of Redis")
)

// These errors mean that the node was not asked, or does not count.
var (
	// ErrQueued means that the node was not asked: other calls of this Locker hold the lock or wait for it, or it is the
	// turn of another process.
	ErrQueued = errors.New("nodeerr: not asked: other calls are ahead")
	// ErrSuspended means that the node was not asked, because older answers of the node are overdue. A release is sent all
	// the same, but nobody waits for its answer.
	ErrSuspended = errors.New("nodeerr: not waited for: older answers are overdue")
	// ErrOverloaded means that the node was not asked, because too many commands (4096) are under way on it.
	ErrOverloaded = errors.New("nodeerr: not asked: too many commands under way")
	// ErrQuarantined means that the node was not asked for a lock, because its server may have forgotten locks, see
	// pool.WithRestartGuard. It comes as a [QuarantineError].
	ErrQuarantined = errors.New("nodeerr: not asked: the server may have forgotten locks")
	// ErrClosed means that the node has been closed.
	ErrClosed = errors.New("nodeerr: node is closed")
	// ErrSameServer means that the server behind this node votes for another node already.
	ErrSameServer = errors.New("nodeerr: the node is the same server as")
	// ErrOldServer means that the server is older than Redis 6.2 or Valkey 7.2.
	ErrOldServer = errors.New("nodeerr: the server is too old")
	// ErrSentinel means that the server is a Sentinel, which watches servers and holds no data.
	ErrSentinel = errors.New("nodeerr: the server is a Sentinel, which watches servers and holds no locks")
)

// QuarantineError is an [ErrQuarantined] with details.
type QuarantineError struct {
	// Left is for how much longer the server is not asked for locks, at least. It may be 0 if there is an Err.
	Left time.Duration
	// Err is the reason why it is not known since when the server has been in use as this node. It is nil if that is
	// known. It is a [*ServerError] if the server refused the stamp that tells the time. Otherwise its text gives the
	// reason, for example that the server does not report its identity.
	Err error
}

func (e *QuarantineError) Error() string {
	if e.Err != nil {
		return ErrQuarantined.Error() + ", and it is not known since when it has been this node: " + e.Err.Error()
	}
	return fmt.Sprintf("%v: asked again in %v", ErrQuarantined, e.Left.Round(time.Millisecond))
}

// Unwrap returns [ErrQuarantined], and Err.
func (e *QuarantineError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrQuarantined}
	}
	return []error{ErrQuarantined, e.Err}
}

// ConnectError is the reason why there is no connection to a node. The command was not sent.
type ConnectError struct {
	// Err is a network error, a [*ServerError] such as NOAUTH, [ErrOldServer], [ErrSentinel] or [ErrTimeout].
	Err error
}

func (e *ConnectError) Error() string {
	return "nodeerr: not connected: " + strings.TrimPrefix(e.Err.Error(), "nodeerr: ")
}

// Unwrap returns Err.
func (e *ConnectError) Unwrap() error { return e.Err }

// ServerError is an error reply of a Redis server.
type ServerError struct {
	Code string // the first word of the reply, for example READONLY
	// Message is the reply, at most 512 bytes of it, without the part that repeats the command. If the reply repeats the
	// password, Message is only a remark.
	Message string
	Hint    string // the meaning of Code for a lock; "" if there is nothing to say
}

func (e *ServerError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// Is reports true for [ErrForeign] if Code is WRONGTYPE.
func (e *ServerError) Is(target error) bool { return target == ErrForeign && e.Code == "WRONGTYPE" }
