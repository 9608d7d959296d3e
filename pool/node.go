package pool

import "github.com/quorumlock/quorumlock/internal/node"

// Node is one independent Redis server. Make nodes with [Open] or [Wrap]; they are safe for concurrent use, and any
// number of Lockers may share them.
type Node node.Node

// Addr returns the node's name in errors and logs: the address in its URL (host:port, or the path of the socket), node-0 and so
// on of [Wrap], or what [WithName] returns.
func (n *Node) Addr() string { return (*node.Node)(n).Addr() }

// Close lets what is under way end, for the node timeout at most, and closes the connection. A release that could not be
// delivered by then is left to its TTL. Whatever a Locker asks of the node afterwards fails with nodeerr.ErrClosed. Close returns
// when no goroutine of the node is left. It waits for an attempt to connect that does not look at its context: Dial and
// TestOnBorrow of a wrapped pool, the functions of [WithDialer] and [WithCredentials]. A wrapped pool stays open. Closing
// twice is fine. The error is always nil.
func (n *Node) Close() error { return (*node.Node)(n).Close() }
