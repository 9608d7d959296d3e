// Package lock turns what package quorum decides into commands. A [Round] is one command for the nodes, and takes their answers. A
// [Term] is a lock that the nodes have granted.
//
// It does no I/O and starts no goroutine. What calls it serialises the inputs of a lock with a mutex, and carries out the Acts that
// come of each in order, before it releases the mutex: so no release overtakes its acquire, and nothing that could create a key is
// sent behind the release of the lock.
package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Refusal is why a node has not taken a command.
type Refusal struct {
	Node int
	Err  error
}

// Act is something to do.
type Act struct {
	What    What
	Tag     wire.Tag      // of the reply; which node it is about
	Command *wire.Command // to send
	// Until is when Command must not be sent any more, for [ErrOver]; zero means never.
	Until time.Time
	Raise quorum.Raise // what Command raises, if the tag says so
}

// What is what an Act does.
type What uint8

// The Acts.
const (
	// Send sends Command. If the node does not take it, that is its answer, before the mutex is released. Those of the Begin of a
	// round go to [Round.Unsent].
	Send What = iota
	// AwaitCleanUp has GiveUp called when the node timeout of the round is over.
	AwaitCleanUp
)
