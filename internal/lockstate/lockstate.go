// Package lockstate gives the commands of this module the rules by which [redlock.Locker.Inspect] concludes from the
// states of the nodes who holds a lock. Programs have no use for them.
package lockstate

// Of is a func(name string, nodes []redlock.NodeState) *redlock.LockState. Package redlock sets it. It cannot have its
// type here, because redlock imports this package.
var Of any
