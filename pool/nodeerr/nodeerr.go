// Package nodeerr has the reasons why a single node did not carry out a command: the Err of a redlock.NodeError (in a
// redlock.QuorumError), of a redlock.NodeState, and of events. Compare with errors.Is and errors.As.
//
// The errors of package redlock say whether the lock is held, taken or unknown. The reason of a single node never
// decides that. No reason matches an error of package context, because only the end of the caller's own context does.
package nodeerr

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The node answered no: its key is not in the state that the command needs.
var (
	// ErrHeld means that another token holds the key.
	ErrHeld = errors.New("nodeerr: another token holds the key")
	// ErrWanted means that another process waits for the lock and comes first: for an exclusive lock, for another kind, or
	// for fewer slots than are taken. It matches ErrHeld too.
	ErrWanted error = denial("nodeerr: another process waits and comes first")
	// ErrFull means that all slots are taken, or that the nodes have not agreed on one. It matches ErrHeld too.
	ErrFull error = denial("nodeerr: no slot is free")
	// ErrOwnToken means that the key held the token of the call before the call: a redlock.TokenSource must not repeat a
	// token. It matches ErrHeld too.
	ErrOwnToken error = denial("nodeerr: the same token holds the key: a token must not repeat")
	// ErrNoExpiry means that the key has no TTL, so that its client has to delete it. It comes with ErrHeld.
	ErrNoExpiry = errors.New("nodeerr: the key has no expiry")
	// ErrForeign means that the key holds data of another program (not a string, or more than 1024 bytes), or a companion
	// key, such as the fencing counter, holds other data. Nothing deletes it. To an acquire, data that has a TTL is
	// ErrHeld.
	ErrForeign = errors.New("nodeerr: the key holds data of another program, not a lock")
	// ErrAbsent means that the key does not exist.
	ErrAbsent = errors.New("nodeerr: the key does not exist")
	// ErrRecreated means that the key did not exist and an extension re-created it, now or before, or that the acquire was
	// late. The node counts for the majority after another extension.
	ErrRecreated = errors.New("nodeerr: the key did not exist and was re-created")
)

// denial is a special reason why a key is held.
type denial string

func (d denial) Error() string { return string(d) }

func (denial) Is(target error) bool { return target == ErrHeld }

// There is no answer of the node.
var (
	// ErrUnneeded means that the other nodes had decided before the node answered. It is no fault of the node.
	ErrUnneeded = errors.New("nodeerr: not needed: the other nodes decided first")
	// ErrUnanswered means that the call ended before the node answered: by its context, MaxWait, the Close of its Locker,
	// or the deadline of the lock. The command may have been carried out.
	ErrUnanswered = errors.New("nodeerr: the call ended before it answered")
	// ErrTimeout means that no answer came within the node timeout. The command may have been carried out. In a
	// [ConnectError] it is the dial timeout, and the command was not sent.
	ErrTimeout = errors.New("nodeerr: no answer in time")
	// ErrBroken means that the connection broke before the answer. The command may have been carried out.
	ErrBroken = errors.New("nodeerr: connection broken before the answer")
	// ErrProtocol means that the answer is not one of Redis. The connection ends then.
	ErrProtocol = errors.New("nodeerr: not an answer of Redis")
)

// The node was not asked, or does not count.
var (
	// ErrQueued means that other calls of this Locker hold the lock or wait for it, or that it is the turn of another
	// process.
	ErrQueued = errors.New("nodeerr: not asked: other calls are ahead")
	// ErrSuspended means that older answers of the node are overdue. A release is sent all the same.
	ErrSuspended = errors.New("nodeerr: not waited for: older answers are overdue")
	// ErrOverloaded means that 4096 commands are under way on the node.
	ErrOverloaded = errors.New("nodeerr: not asked: too many commands under way")
	// ErrQuarantined means that the server may have forgotten locks (pool.WithRestartGuard). It comes as a
	// [QuarantineError].
	ErrQuarantined = errors.New("nodeerr: quarantined: the server may have forgotten locks")
	// ErrClosed means that the node was closed.
	ErrClosed = errors.New("nodeerr: node is closed")
	// ErrSameServer means that the server votes for another node already.
	ErrSameServer = errors.New("nodeerr: the node is the same server as")
	// ErrOldServer means that the server is older than Redis 6.2 or Valkey 7.2.
	ErrOldServer = errors.New("nodeerr: the server is too old")
	// ErrSentinel means that the server is a Sentinel, which watches servers and holds no data.
	ErrSentinel = errors.New("nodeerr: the server is a Sentinel, which watches servers and holds no locks")
)

// QuarantineError is an [ErrQuarantined] with details.
type QuarantineError struct {
	// Left is for how much longer, at least; it may be 0 if there is an Err.
	Left time.Duration
	// Err is nil if it is known since when the server is in use as this node. Otherwise it is the reason, such as a
	// [*ServerError] if the server refused its stamp.
	Err error
}

func (e *QuarantineError) Error() string {
	if e.Err != nil {
		return ErrQuarantined.Error() + ", and it is not known since when it has been this node: " + e.Err.Error()
	}
	return fmt.Sprintf("%v: asked again in %v", ErrQuarantined, e.Left.Round(time.Millisecond))
}

func (e *QuarantineError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrQuarantined}
	}
	return []error{ErrQuarantined, e.Err}
}

// ConnectError means that there is no connection to the node. The command was not sent.
type ConnectError struct {
	// Err is a network error, a [*ServerError] such as NOAUTH, [ErrOldServer], [ErrSentinel] or [ErrTimeout].
	Err error
}

func (e *ConnectError) Error() string {
	return "nodeerr: not connected: " + strings.TrimPrefix(e.Err.Error(), "nodeerr: ")
}

func (e *ConnectError) Unwrap() error { return e.Err }

// ServerError is an error reply of a Redis server.
type ServerError struct {
	Code string // the first word of the reply, such as READONLY
	// Message is the reply, up to 512 bytes, without the command. If the reply repeats the password, it is only a remark.
	Message string
	Hint    string // what Code means for a lock, or ""
}

func (e *ServerError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// Is reports true for [ErrForeign] if Code is WRONGTYPE.
func (e *ServerError) Is(target error) bool { return target == ErrForeign && e.Code == "WRONGTYPE" }
