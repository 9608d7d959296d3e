// Package quorum decides: it holds the rules of the lock as state machines.
//
// An [Acquire], an [Extend] or a [Release] is one command put to N nodes. The
// caller (the shell) tells it what happens, each event with the lease clock, and
// carries out the [Effects] that come back. A [Lease] is what a won acquire leaves in
// the holder's hands; a [Renewal] says when to extend one that is kept, and an [Attach] makes
// one of a lock of which only the token is known.
//
// A [Queue] is those of one process who wait for a name: it decides whose turn it is, when the one
// at the head goes a round or looks at the nodes, and when another process is let go first. What it asks for
// comes back as [Moves].
//
// The shell owes each machine one vote of every node that it asks, within a bounded
// time, or a Stop; and a Queue the end of each round and an answer to each look.
//
// Nothing here does I/O or starts a goroutine, and nothing is safe for concurrent
// use: the shell serialises the events of one machine.
package quorum

import (
	"math"
	"time"
)

// Clock is the lease clock. It comes with an event and is read only where the time
// decides something, which at most votes it does not: a reading is a system call.
type Clock interface{ Now() time.Time }

// Majority returns how many of n nodes make a majority: n/2 + 1, counted over all
// nodes that are configured, never over those that answer.
func Majority(n int) int { return n/2 + 1 }

// Vote is what is known of one node's part in a command.
type Vote uint8

// The votes. Only Yes counts for the lock.
const (
	Pending Vote = iota // asked and not answered yet
	Yes                 // done
	No                  // not done: another token holds the key, or (release) ours is not there
	Planted             // extend: ours was not there, and is again. As good as No for the verdict
	Lost                // no answer came: done or not, nobody knows
	Refused             // the node answered that it will not
	Unsent              // the command never went out: certainly not done
)

// Outcome is the verdict that falls once in the life of a machine.
type Outcome uint8

// The outcomes.
const (
	Undecided Outcome = iota
	Done              // a majority did it, in time
	Denied            // acquire: others hold the key; extend, release: the key is no longer ours
	NoQuorum          // too few nodes answered
	TooLate           // a majority did it, but no validity was left
)

// Effects is what the shell has to do after an event, in the order of the fields.
type Effects struct {
	// Release lists the nodes to send the release to, each behind everything that
	// was sent to it before.
	Release []int
	// Restore lists the nodes to send TTL to, likewise. How that ends is for Extend.Restored.
	Restore []int
	TTL     time.Duration
	// Raise lists the nodes to put the round's fencing token to, in the place of the number that they granted. How
	// that ends is for Acquire.Raised.
	Raise []int
	// Settling says that the round is lost and waits for its clean-up to be
	// confirmed: the shell calls Stop when the node timeout is over.
	Settling bool
	// Outcome is to be told to the caller; Undecided: nothing to tell.
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

// Grant is a TTL asked of the nodes: any node that says yes keeps the key at
// least until Start + TTL, since it starts counting later than Start.
type Grant struct {
	Start time.Time // read before the first send
	TTL   time.Duration
	Drift Drift
}

// Deadline is when a majority's yes stops being worth anything:
// Start + TTL - drift. The validity at an instant is what is left until then.
func (g Grant) Deadline() time.Time {
	return g.Start.Add(g.TTL - g.Drift.Of(g.TTL))
}

// end is the instant until which a node that said yes keeps the key, at least.
func (g Grant) end() time.Time { return g.Start.Add(g.TTL) }
