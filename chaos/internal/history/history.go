// Package history is the format of what a run records: which calls client processes have made and what came of them, and what
// was done to servers and clients meanwhile. A history is checked after the fact, by package check.
//
// A process writes its part as lines of JSON. A call has two of them, one when it begins and one when it has ended; a process
// that is killed leaves calls open. All times are of the machine's monotonic clock ([Now]), so that they compare between
// processes.
package history

import "math"

// Kind is what an operation is.
type Kind string

// The kinds of operations. The fields in brackets are those that matter beside Client, Worker, Start, End, Name and Err.
const (
	// Calls of the library.
	Acquire Kind = "acquire" // Lock, TryLock, Do, or a lock that is taken again [Hold if it was got, Outer, Locker, Way, Names, Reads, Slots, TTL, Validity, Fence]
	Extend  Kind = "extend"  // [Hold, TTL]
	Unlock  Kind = "unlock"  // [Hold]
	Detach  Kind = "detach"  // [Hold, Token]
	Attach  Kind = "attach"  // [Hold if it was got, Token, Locker, Validity, Fence]
	Force   Kind = "force"   // ForceUnlock

	// What a holder has seen.
	Proof Kind = "proof" // Start = End is an instant, and Err() == nil was seen after it [Hold]
	Over  Kind = "over"  // Err() != nil was seen, for the first time, at Start = End [Hold]

	// Registers. A holder writes them, and anybody reads them.
	Write Kind = "write" // a write with a fencing token, or in the register without a check [Hold, Register, Fence, Value]
	Read  Kind = "read"  // [Register, Fence and Value that were read]

	// Other programs on the servers: they change keys without the library.
	Set   Kind = "set"   // [Node, Key, Value; Err "taken" if the key was there: nothing was set]
	Check Kind = "check" // the key of a Set is looked at, which its owner has not changed since [Node, Key, Value that was read]
	Clear Kind = "clear" // the owner of a Set deletes it, with whatever is in it [Node, Key]

	// What is on the servers at the end, when nobody holds or does anything.
	Left Kind = "left" // a key without a TTL [Node, Key, What its type is, Value of a string]

	// What was done to servers and clients, and what else they went through.
	Fault Kind = "fault" // [What, Nodes, Clients]; without End it went on to the end
	Stall Kind = "stall" // the process stood still, or had no CPU
	Down  Kind = "down"  // a connection of the client to a node broke, or could not be made [Node]
	Up    Kind = "up"    // [Node]
	Usage Kind = "usage" // what a client process needs at that moment [Goroutines, Heap, Files]
)

// Registers.
const (
	Redis    = "redis"    // with a fence, package redlock/fence on Redis
	Postgres = "postgres" // with a fence, package redlock/fence on PostgreSQL
	Plain    = "plain"    // without any check
)

// Nemesis is the client of faults and of other programs: the process that starts all.
const Nemesis = "nemesis"

// Ways to acquire.
const (
	Waiting   = "lock"      // Lock or Do, which wait
	Trying    = "try"       // TryLock
	Together  = "together"  // LockAll or TryLockAll, of which each name has an operation
	Reentrant = "reentrant" // with the option Reentrant, by the owner who holds the lock in Outer
)

// Results of calls, in Err. It is empty after success, and the text of the error if it is none of these.
const (
	Taken    = "taken"
	NoQuorum = "no quorum"
	Canceled = "canceled" // the caller's context has ended
	NotHeld  = "not held" // also ErrGone, ErrExpired and ErrReleased of an Unlock
	Gone     = "gone"
	Expired  = "expired"
	Released = "released"
	Foreign  = "foreign"
	Closed   = "closed"
	Stale    = "stale"   // a fence that is below a later one
	Unknown  = "unknown" // a write or a read that was not confirmed: it may have been carried out, or be so later
)

// Open is the End of an operation that has not ended.
const Open = math.MaxInt64

// Op is an operation: a call with its interval, or something that was observed. Times are in nanoseconds of the monotonic clock.
type Op struct {
	Kind     Kind   `json:"k"`
	ID       uint64 `json:"id"`               // of the operation, in its process
	Client   string `json:"c"`                // the process, as machine.number: another number after it was killed
	Worker   int    `json:"w"`                // who makes one call after the other, in the process
	Start    int64  `json:"s"`                // before the call
	End      int64  `json:"e"`                // after the call
	Name     string `json:"n,omitempty"`      // of the lock
	Err      string `json:"err,omitempty"`    // empty means success
	Hold     string `json:"h,omitempty"`      // of the lock that was got: every Acquire and Attach that succeeds has one of its own
	Outer    string `json:"o,omitempty"`      // of an Acquire by re-entry: the hold of the same owner that it adds to
	Locker   string `json:"l,omitempty"`      // the Locker, unique among all processes
	Way      string `json:"way,omitempty"`    // how it was acquired
	Reads    bool   `json:"reads,omitempty"`  // it is to be a shared lock; or if it was got, it is one
	Slots    int    `json:"slots,omitempty"`  // how many slots there are, if it is to have one; or if it was got, has one
	TTL      int64  `json:"ttl,omitempty"`    // nanoseconds
	Renews   bool   `json:"renews,omitempty"` // of an Acquire or Attach: RenewFor
	Validity int64  `json:"valid,omitempty"`  // nanoseconds, what was left at End
	Fence    uint64 `json:"f,omitempty"`
	Token    string `json:"t,omitempty"`

	Names []string `json:"names,omitempty"` // of a call of LockAll: all that it is for

	Register string `json:"r,omitempty"`
	Value    string `json:"v,omitempty"`
	Key      string `json:"key,omitempty"`
	Node     int    `json:"node,omitempty"`

	What    string   `json:"what,omitempty"`    // a Fault, or a type of keys
	Nodes   []int    `json:"nodes,omitempty"`   // that the fault concerns; empty: none of them
	Clients []string `json:"clients,omitempty"` // that the fault concerns: for a fault with Nodes too, the links between them; empty: all

	Goroutines int   `json:"goroutines,omitempty"`
	Heap       int64 `json:"heap,omitempty"`  // bytes
	Files      int   `json:"files,omitempty"` // open file descriptors, connections among them
}

// Shares reports whether it is about a lock that several have at a time.
func (o *Op) Shares() bool { return o.Reads || o.Slots > 0 }

// Ended reports whether the operation has ended.
func (o *Op) Ended() bool { return o.End != Open }
