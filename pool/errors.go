package pool

import "github.com/quorumlock/quorumlock/internal/node"

// Why a node did not do what it was asked to. These reach programs as the errors of single nodes in the QuorumError of
// package redlock, beside [ConnectError], [QuarantineError] and [ServerError]. None of them matches an error of package context
// (errors.Is), whatever timeout or function of the program it came from: the end of the caller's context alone does.
var (
	// ErrHeld: another token holds the key.
	ErrHeld = node.ErrHeld
	// ErrAbsent: the key does not exist.
	ErrAbsent = node.ErrAbsent
	// ErrRecreated: an extension found that the key did not exist, and re-created it; or that may have happened before, or the
	// acquire was late. The node does not count for the majority until another extension has succeeded that began afterwards.
	ErrRecreated = node.ErrRecreated
	// ErrTimeout: no answer within the node timeout. The command may have been carried out. In a ConnectError: no connection
	// within the dial timeout ([WithDialTimeout]), and the command was not sent.
	ErrTimeout = node.ErrTimeout
	// ErrSuspended: older answers of the node are overdue, so it was not asked.
	ErrSuspended = node.ErrSuspended
	// ErrBusy: too many commands are under way on the node, so it was not asked.
	ErrBusy = node.ErrBusy
	// ErrBroken: the connection broke before the answer. The command may have been carried out.
	ErrBroken = node.ErrBroken
	// ErrQuarantined: the server may have forgotten locks, so it was not asked for one, see [WithRestartGuard].
	ErrQuarantined = node.ErrQuarantined
	// ErrClosed: the node has been closed.
	ErrClosed = node.ErrClosed
	// ErrProtocol: what came back is not an answer that Redis gives to the command. The connection ends with it.
	ErrProtocol = node.ErrProtocol
	// ErrOldServer: the server is older than Redis 6.2 or Valkey 7.2.
	ErrOldServer = node.ErrOldServer
)

// ConnectError is the reason why there is no connection to a node. Its Err is a network error, a *ServerError such as NOAUTH, or an
// ErrTimeout.
type ConnectError = node.ConnectError

// QuarantineError is an ErrQuarantined. Its Left is for how much longer the server is not asked for locks; 0 means for
// ever, as it does not report its uptime.
type QuarantineError = node.QuarantineError

// ServerError is an error reply of a Redis server. Its Code is the first word, for example READONLY, and its Message the
// reply, of which 512 bytes are kept. Nothing but the Code is kept of a reply that repeats the password of [Open].
type ServerError = node.ServerError
