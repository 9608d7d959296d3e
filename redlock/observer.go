package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Op is an operation on a lock, as errors, logs and observers name it.
type Op string

// The operations. An [Observer] is notified of acquires, extends and unlocks.
const (
	OpAcquire     Op = "acquire"
	OpExtend      Op = "extend"
	OpUnlock      Op = "unlock"
	OpAttach      Op = "attach"
	OpDetach      Op = "detach"
	OpInspect     Op = "inspect"
	OpForceUnlock Op = "force unlock"
)

// Observer is notified of what happens, for metrics and displays. Its methods are called from many goroutines at once,
// on the path of the lock and under mutexes: they must be quick, must not block, and must not call the Locker or its
// Locks. The same holds for the handler of [WithLogger].
type Observer interface {
	// Vote is called for each node's answer to an acquire, extend or unlock, including answers that arrive
	// after the verdict. Those that the verdict counts come before it.
	Vote(Vote)
	// Verdict is called when the outcome of an operation is certain.
	Verdict(Verdict)
}

// Answer is what one node answered. Its String is "yes", "no", "recreated", "unknown", "refused" or "unsent".
type Answer = quorum.Answer

// The answers. Only AnswerYes counts for the lock.
const (
	AnswerYes       = quorum.Yes
	AnswerNo        = quorum.No        // another token holds the key, or (extend, unlock) the key does not exist
	AnswerRecreated = quorum.Recreated // extend: the key did not exist and was re-created
	AnswerUnknown   = quorum.Unknown   // no answer that makes sense: it may have been done or not
	AnswerRefused   = quorum.Refused   // the server answered with an error
	AnswerUnsent    = quorum.Unsent    // the command never went out
)

// Vote is one node's answer, as the node gave it. If one server answers for two nodes, only the verdict shows that.
type Vote struct {
	Op     Op     // OpAcquire, OpExtend or OpUnlock
	Name   string // the lock's
	Node   int    // the i-th node given to New or Open
	Addr   string
	Answer Answer
	Err    error         // the reason of any answer but yes
	Took   time.Duration // since the operation began
}

// Verdict is the outcome of an operation on all nodes.
type Verdict struct {
	Op   Op     // OpAcquire, OpExtend or OpUnlock
	Name string // the lock's
	Err  error  // nil means done
	Took time.Duration
	// Validity is what an acquire or extend that was done has left of its TTL.
	Validity time.Duration
}
