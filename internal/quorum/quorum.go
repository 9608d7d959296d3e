// Package quorum decides: it has the rules of the lock as state machines.
//
// An [Acquire], an [Extend] or a [Release] is one command sent to N nodes. The caller (the shell) reports each event to
// it, with the lease clock, and carries out the [Actions] that it returns. A [Lease] is the right that a won acquire
// grants to the holder. A [Renewal] schedules the extensions of a lease. An [Attach] makes a lease of a lock by its
// token alone.
//
// A [Handoff] decides whether a lock is handed off within the process. Each handle on a lock has a [Hold].
//
// The shell must report one vote of every node that it asks within a bounded time, or call Stop.
//
// Nothing here does I/O or starts a goroutine. Nothing is safe for concurrent use: the shell serialises the events of
// one machine.
//
// The files:
//   - quorum.go: answers, outcomes and grants
//   - tally.go: the answers of the nodes, which all rounds count alike
//   - acquire.go, extend.go, release.go, attach.go: a round each
//   - fence.go, slot.go, counterclock.go: the number on which the nodes of an acquire have to agree, and the time
//     of their counters
//   - lease.go: the deadline of a lock, how it ended, and the holds of handles
//   - renewal.go: when a lease is extended
//   - watch.go: whether a lease is lost before its deadline
//   - handoff.go: whether a lock may be handed off
package quorum

import (
	"fmt"
	"math"
	"time"
)

// Clock is the lease clock. It is passed with an event, and is read only if the time decides something, because a
// reading may be a system call. For most votes the time decides nothing.
type Clock interface{ Now() time.Time }

// Majority returns how many of n nodes make a majority: n/2 + 1. It is counted over all configured nodes, never over
// the nodes that answer.
func Majority(n int) int { return n/2 + 1 }

// Answer is the answer of one node to a command.
type Answer uint8

// The answers. Only Yes counts for the lock.
const (
	Pending   Answer = iota // asked, and no answer yet
	Yes                     // done
	No                      // not done: the key holds another token, or (release) our key is not there
	Recreated               // extend: our key was not there, and has been set again. It counts as No
	Unknown                 // no answer came: the command may have been carried out or not
	Refused                 // the node answered with an error
	Unsent                  // the command never went out: certainly not done
)

// String returns the answer in lower case.
func (a Answer) String() string {
	names := [...]string{"pending", "yes", "no", "recreated", "unknown", "refused", "unsent"}
	if int(a) < len(names) {
		return names[a]
	}
	return fmt.Sprintf("Answer(%d)", uint8(a))
}

// Outcome is the result of a round. A machine reports it once.
type Outcome uint8

// The outcomes.
const (
	Undecided Outcome = iota
	Done              // a majority did it, in time
	Denied            // acquire: others hold the key; extend, release: the key is no longer ours
	NoQuorum          // too few nodes answered
	TooLate           // a majority did it, but no validity was left
)

// Actions is the work that the shell has to do after an event. A zero field asks for nothing.
type Actions struct {
	// Release lists the nodes to send the release to. It goes to each of them behind everything that was sent there
	// before.
	Release []int
	// Raise lists the raises to send. The answers are for [Acquire.Raised].
	Raise []Raise
	// Observe lists the nodes on which the shell has to observe the key. The answers are for [Lease.Observed]. If a round
	// was lost, [Acquire.Released] records instead that they have come.
	Observe []int
	// AwaitCleanUp means that the round is lost and waits until its clean-up is confirmed. The shell calls Stop when the
	// node timeout is over.
	AwaitCleanUp bool
	// Outcome is the outcome to report to the caller. Undecided means that there is none.
	Outcome Outcome
}

// Drift is the allowance for clocks that do not run at the same rate.
type Drift struct {
	Factor float64       // share of the TTL
	Floor  time.Duration // added to it, for the granularity of expiry
}

// Of returns the allowance for a TTL, rounded up to a nanosecond. The formula is
// that of https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
// (CLOCK_DRIFT): TTL x factor + floor.
func (d Drift) Of(ttl time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(ttl)*d.Factor)) + d.Floor
}

// Grant is a TTL that the nodes are asked for. A node that says yes keeps the key at least until Start + TTL, because
// it starts to count later than Start.
type Grant struct {
	Start time.Time // read before the first send
	TTL   time.Duration
	Drift Drift
	Grace time.Duration // how long before the end of the exclusive time the deadline is
}

// Deadline returns the instant from which a majority's yes is worth nothing to the caller: Start + TTL - drift - grace.
// The validity at an instant is the time left until then.
func (g Grant) Deadline() time.Time { return g.exclusive().Add(-g.Grace) }

// exclusive returns the instant until which nobody else can have the lock if a majority said yes: Start + TTL - drift.
func (g Grant) exclusive() time.Time { return g.Start.Add(g.TTL - g.Drift.Of(g.TTL)) }

// end returns the instant until which a node that said yes keeps the key at least.
func (g Grant) end() time.Time { return g.Start.Add(g.TTL) }
