// Package protocol has the events that show the steps between a Locker of package redlock and its nodes. They follow
// the protocol, and promise nothing: a version may report more, fewer or other ones. No program should base a decision
// on them.
//
// An Observer gets them only if redlock.WithObserver names their groups: [Votes], [Rounds] or [Turns].
package protocol

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock/event"
)

// The groups of events of this package.
const (
	Votes  event.Group = "votes"  // Vote: the most events, one for each node and round
	Rounds event.Group = "rounds" // Round and Raise
	Turns  event.Group = "turns"  // Turn
)

// Vote is the answer of one node to an acquire, extend or unlock, as the node gave it. The votes that a round counts
// come before its Round, later ones after it. If one server answers for two nodes, only the Round shows that.
type Vote struct {
	event.Mark
	At     time.Time // of the answer
	Call   uint64    // see event.Acquire
	Late   bool      // the call ended before
	Op     event.Op  // event.OpAcquire, event.OpExtend or event.OpUnlock
	Name   string    // of the lock
	Node   int       // the index of the node
	Addr   string
	Answer Answer
	// Command is the last Redis command that was sent for the answer: SET, or EVALSHA or EVAL for a script, which may
	// serve other calls too. It is "" if nothing was sent.
	Command string
	Err     error         // why the answer is not AnswerYes
	Took    time.Duration // since the round began
}

// Round is the outcome of one acquire, extend or unlock on all nodes. It comes when the outcome is certain.
type Round struct {
	event.Mark
	At   time.Time
	Call uint64   // see event.Acquire
	Late bool     // see Vote; only for an unlock
	Op   event.Op // event.OpAcquire, event.OpExtend or event.OpUnlock
	Name string   // of the lock
	Err  error    // a *QuorumError, or nil if the round succeeded
	Took time.Duration
	// Validity is the validity that is left after an acquire or extend that succeeded, or 0.
	Validity time.Duration
	// Split means that an acquire was refused (redlock.ErrTaken) although some nodes said yes: callers took the nodes from
	// each other.
	Split bool
}

// Raise asks a node that said yes to an acquire to raise its number, because its counter was behind the others
// (redlock.WithFencing). The acquire may take one round trip more.
type Raise struct {
	event.Mark
	At      time.Time
	Call    uint64 // see event.Acquire
	Name    string
	Node    int
	Addr    string
	Granted uint64 // the number that the node granted
	Fence   uint64 // the number that it was raised to
}

// Turn is a turn that passes from one process to another that waits for the same lock.
type Turn struct {
	event.Mark
	At   time.Time
	Name string
	// Received means that another process passed the turn to this one; otherwise this process passed it on.
	Received bool
	Waiting  int // how many processes are known to wait after the one with the turn
}

// Answer is the answer of one node. The zero value means that there is none.
type Answer uint8

// The answers. Only AnswerYes counts for the lock.
const (
	AnswerYes       Answer = iota + 1 // the node has done it
	AnswerNo                          // another token holds the key, or (extend, unlock) the key does not exist
	AnswerRecreated                   // extend: the key did not exist and was re-created
	AnswerUnknown                     // no answer that makes sense: the node may have done it or not
	AnswerRefused                     // the server answered with an error
	AnswerUnsent                      // the command never went out
)

// String returns "yes", "no", "recreated", "unknown", "refused" or "unsent".
func (a Answer) String() string {
	names := [...]string{
		AnswerYes: "yes", AnswerNo: "no", AnswerRecreated: "recreated",
		AnswerUnknown: "unknown", AnswerRefused: "refused", AnswerUnsent: "unsent",
	}
	if a > 0 && int(a) < len(names) {
		return names[a]
	}
	return fmt.Sprintf("Answer(%d)", uint8(a))
}
