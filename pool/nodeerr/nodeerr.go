// Package nodeerr has the reasons why a single node did not do what it was asked to. Programs find them as the Err of a
// redlock.NodeError, one for each node of a redlock.QuorumError, in a redlock.NodeState, and in events: compare with
// [errors.Is] and [errors.As].
//
// They say why a node is missing from a majority. Whether the lock is held, taken or unknown is what the errors of package redlock
// say: a single node's reason never decides that.
//
// None of them matches an error of package context, whatever timeout or function of the program it came from: only the end of the
// caller's own context does.
package nodeerr

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The answer of the node was no: its key is not as it would have to be.
var (
	// ErrHeld means that another token holds the key.
	ErrHeld = errors.New("nodeerr: another token holds the key")
	// ErrWanted means that a writer waits for the lock: shared locks and slots are kept, and none is given. It matches ErrHeld
	// too.
	ErrWanted error = denial("nodeerr: a writer waits")
	// ErrFull means that all slots are taken, or that the nodes have not agreed on one. It matches ErrHeld too.
	ErrFull error = denial("nodeerr: no slot is free")
	// ErrOwnToken means that the key held the very token of the call before it was made, so that somebody else may have the lock: a
	// token must not repeat (redlock.TokenSource). It matches ErrHeld too.
	ErrOwnToken error = denial("nodeerr: the same token holds the key: a token must not repeat")
	// ErrNoExpiry means that the key has no TTL, so that whoever set it has to delete it. It comes with ErrHeld.
	ErrNoExpiry = errors.New("nodeerr: the key has no expiry")
	// ErrForeign means that the key holds what cannot be a lock: a value of another type than a string, or of more than 1024
	// bytes. It is data of another program under the lock's name, and nothing deletes it. To an acquire such data is ErrHeld if it has
	// a TTL, as it ends by itself. With fencing, it also means that what the key
	// of the counter holds is no counter.
	ErrForeign = errors.New("nodeerr: the key holds data of another program, not a lock")
	// ErrAbsent means that the key does not exist.
	ErrAbsent = errors.New("nodeerr: the key does not exist")
	// ErrRecreated means that an extension found that the key did not exist, and re-created it; or that this may have happened
	// before, or that the acquire was late. The node does not count for the majority until another extension has
	// succeeded that began afterwards.
	ErrRecreated = errors.New("nodeerr: the key did not exist and was re-created")
)

// denial is a reason of its own to say that a key is held.
type denial string

func (d denial) Error() string { return string(d) }

func (denial) Is(target error) bool { return target == ErrHeld }

// There is no answer of the node.
var (
	// ErrUnneeded means that the node had not answered yet when the answers of the others had decided. It is no fault of the node.
	ErrUnneeded = errors.New("nodeerr: not waited for: decided without it")
	// ErrUnanswered means that the node had not answered yet when the call ended: by its context, MaxWait, the Close of its Locker, or the
	// deadline of the lock. It is no fault of the node. The command may have been carried out.
	ErrUnanswered = errors.New("nodeerr: the call ended before it answered")
	// ErrTimeout means that no answer came within the node timeout. The command may have been carried out. In a [ConnectError] it
	// means that there was no connection within the dial timeout, so that the command was not sent.
	ErrTimeout = errors.New("nodeerr: no answer in time")
	// ErrBroken means that the connection broke before the answer. The command may have been carried out.
	ErrBroken = errors.New("nodeerr: connection broken before the answer")
	// ErrProtocol means that what came back is not an answer that Redis gives to the command. The connection ends with it.
	ErrProtocol = errors.New("nodeerr: not an answer of Redis")
)

// The node was not asked, or does not count.
var (
	// ErrQueued means that the node was not asked, because other calls of this Locker hold the lock or wait for it, or because it is
	// the turn of another process.
	ErrQueued = errors.New("nodeerr: not asked: other calls are ahead")
	// ErrSuspended means that the node was not asked, because older answers of it are overdue.
	ErrSuspended = errors.New("nodeerr: not asked: older answers are overdue")
	// ErrOverloaded means that the node was not asked, because too many commands (4096) are under way on it.
	ErrOverloaded = errors.New("nodeerr: not asked: too many commands under way")
	// ErrQuarantined means that the node was not asked for a lock, because its server may have forgotten some, see
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

// QuarantineError is an [ErrQuarantined].
type QuarantineError struct {
	// Left is for how much longer the server is not asked for locks, at least. With an Err it may be 0.
	Left time.Duration
	// Err is why it is not known since when the server has been in use as this node; nil if it is. It is the server's refusal of the stamp
	// that says so, a [*ServerError], or what the server does not report.
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
	Err error // a network error, a [*ServerError] such as NOAUTH, [ErrOldServer], [ErrSentinel] or [ErrTimeout]
}

func (e *ConnectError) Error() string {
	return "nodeerr: not connected: " + strings.TrimPrefix(e.Err.Error(), "nodeerr: ")
}

// Unwrap returns Err.
func (e *ConnectError) Unwrap() error { return e.Err }

// ServerError is an error reply of a Redis server.
type ServerError struct {
	Code string // the first word of the reply, for example READONLY
	// Message is the reply, without what it repeats of the command, and at most 512 bytes of it. It is only a remark if the reply
	// repeats the password.
	Message string
	Hint    string // what the Code means for a lock; "" if there is nothing to say
}

func (e *ServerError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// Is reports true for [ErrForeign] if Code is WRONGTYPE.
func (e *ServerError) Is(target error) bool { return target == ErrForeign && e.Code == "WRONGTYPE" }
