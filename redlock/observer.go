package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/pool"
)

// Observer is told what happens, for metrics and displays. Its methods are called
// from many goroutines at once, on the path of the lock and under mutexes: they must be quick, must
// not block, and must not call the Locker or its Locks. The same holds for the handler of [WithLogger].
type Observer interface {
	// Vote is called for each node's answer to an acquire, extend or release, also for those that come
	// after the verdict. One that the verdict counts may be told after it, too.
	Vote(Vote)
	// Verdict is called when the outcome of an operation is certain.
	Verdict(Verdict)
}

// Vote is one node's answer, as the node gave it: where one server answers for two
// nodes, or a node's yes does not count ([ErrRestoring]), the verdict says so.
type Vote struct {
	Op     string // "acquire", "extend" or "unlock"
	Name   string // the lock's
	Node   int    // the i-th node given to New
	Addr   string
	Answer pool.Answer
	Err    error         // the reason of any answer but yes
	Took   time.Duration // since the operation began
}

// Verdict is the outcome of an operation on all nodes.
type Verdict struct {
	Op   string // "acquire", "extend" or "unlock"
	Name string // the lock's
	Err  error  // nil: done
	Took time.Duration
	// Validity is what an acquire or extend that was done has left of its TTL.
	Validity time.Duration
}
