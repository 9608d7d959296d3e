package event

import (
	"context"
	"fmt"
	"time"
)

// Event is something that has happened: one of the structs of this package, never a pointer to it. Do not change what an event
// points to, such as its Err. A Node is the index of a node given to redlock.New or Open.
type Event interface{ event() }

// Vote is one node's answer to an acquire, extend or unlock, as the node gave it. Those that its round counts come
// before its Round, and answers that arrive later come after it. If one server answers for two nodes, only the Round
// shows that.
type Vote struct {
	At     time.Time // of the answer
	Call   uint64    // see Acquire
	Late   bool      // the call has ended: its Acquire, Extend or Unlock came before
	Op     Op        // OpAcquire, OpExtend or OpUnlock
	Name   string    // the lock's
	Node   int       // the i-th node given to New or Open
	Addr   string
	Answer Answer
	// Command is the Redis command that the node was sent last for this answer: SET, or for a script EVALSHA or EVAL, alone or
	// joined with those of other calls. It is empty if nothing was sent.
	Command string
	Err     error         // the reason of any answer but yes
	Took    time.Duration // since the round began
}

// Round is the outcome of one round: of an acquire, extend or unlock on all nodes. It comes when the outcome is certain.
type Round struct {
	At   time.Time
	Call uint64 // see Acquire
	Late bool   // see Vote; only of an unlock
	Op   Op     // OpAcquire, OpExtend or OpUnlock
	Name string // the lock's
	Err  error  // a *QuorumError; nil means done
	Took time.Duration
	// Validity is what an acquire or extend that was done has left of its TTL.
	Validity time.Duration
	// Split is true for an acquire that was refused (redlock.ErrTaken) although some nodes had said yes: callers have taken the nodes
	// from each other.
	Split bool
}

// Acquire is the end of a call, with valid arguments and before Close, of Lock, TryLock, Do (before its function runs),
// TryDo or Attach; and for each name one of LockAll, TryLockAll, DoAll or TryDoAll.
type Acquire struct {
	// Context is that of the call. It may have ended.
	Context context.Context
	// Call is a number that the events of one call or renewal share. Those of a Locker rise from a random one on, so that no others
	// of the program have the same.
	Call uint64
	Op   Op // OpAcquire or OpAttach
	Name string
	// Kind is that of the lock that the caller has, or asked for: the text of a redlock.Kind, such as "exclusive", "shared" or "slot". New kinds
	// may come with any minor version.
	Kind string
	// Names are those of a call for the locks of several (redlock.LockAll), in order: there is an Acquire of each, with a Call of its own
	// and the same Err. It is nil for any other call.
	Names  []string
	Try    bool // the call does not wait: TryLock, TryDo, TryLockAll, TryDoAll, or MaxWait(0)
	Start  time.Time
	Took   time.Duration
	Rounds int // that the call has begun; 0 of Attach, of a lock that was re-entered, and of most that were handed off
	// Wait is how long the call waited until its last round began, which is the round that took the lock if Err is nil. It is 0
	// if the call began no round, and all of Took if Handoff is true.
	Wait time.Duration
	// Err is nil if the caller has the lock. After redlock.MaxWait it is the *QuorumError alone: no context has ended.
	Err       error
	Reentered bool          // the lock was held already (redlock.Reentrant): it has no End of its own
	Handoff   bool          // the lock was handed off by a holder before (redlock.WithLocalHandoff): no node was asked
	Validity  time.Duration // 0 after an Err
	Fence     uint64        // see redlock.Lock.Fence; 0 after an Err
}

// Extend is the end of a call of Extend, or of a renewal (redlock.AutoExtend). If it has Validity, the lock's End comes
// after it.
type Extend struct {
	Context context.Context // of the call; context.Background() of a renewal
	Call    uint64          // see Acquire
	Lock    uint64          // the Call of the lock's Acquire, as in its End
	Name    string
	Kind    string // of the lock, see Acquire
	Renewal bool
	Start   time.Time
	Took    time.Duration
	Err     error
	// Left is the validity that the lock would have had at the end of the call without the extension. If it is near 0, the
	// lock was nearly lost. It is 0 if the lock was over before the call.
	Left time.Duration
	// Validity is the validity that the lock had at the end of the call, whether the extension succeeded or not. It is 0 if the
	// lock was over then.
	Validity time.Duration
}

// Unlock is the end of a call of Unlock, also of those that Do makes.
type Unlock struct {
	Context context.Context // of the call
	Call    uint64          // see Acquire
	Lock    uint64          // see Extend
	Name    string
	Kind    string // of the lock, see Acquire
	Start   time.Time
	Took    time.Duration
	Handoff bool // the lock was handed off to a waiter of this Locker (redlock.WithLocalHandoff): no node was asked
	Err     error
}

// End is the end of a lock: its release, its loss or its expiry. There is one for each Acquire without an Err that is
// not Reentered, after it, unless the program ends before. It is the one event of a loss, however that was found out. A lock that
// is released within its redlock.Grace was not lost.
type End struct {
	Context context.Context // of the call that acquired the lock
	Call    uint64          // of the Acquire
	Name    string
	Kind    string        // of the lock, as in its Acquire
	Start   time.Time     // when the lock was acquired
	Held    time.Duration // from then to the call of Unlock, or until the loss was noticed
	// Err is ErrReleased, ErrLost or ErrExpired. A loss has the last extension that failed before it, as the error of Lock.Err has.
	Err error
	// Detached means that the lock was handed off by Detach: Err is ErrReleased, and the nodes hold the lock still.
	Detached bool
}

// Raise is a node whose counter was behind those of the others when it said yes to an acquire, so that it had to be asked
// once more (redlock.WithFencing). The acquire may have taken one round trip more.
type Raise struct {
	At      time.Time
	Call    uint64 // see Acquire
	Name    string
	Node    int
	Addr    string
	Granted uint64 // the number that the node granted
	Fence   uint64 // the number that it was raised to
}

// Turn is a turn that passes from one process to another that waits for the same lock.
type Turn struct {
	At   time.Time
	Name string
	// Received is true if another process has passed the turn to this one. Otherwise it is the other way round.
	Received bool
	Waiting  int // the processes known to wait after the one whose turn it is
}

// NodeUp is a connection to a node, which is ready for commands. Nodes connect when they are first used. If the node was
// connected when the Locker was made, the event comes then.
type NodeUp struct {
	At   time.Time
	Node int
	Addr string
	// Down is how long there was no connection: since it broke, or since the first attempt; 0 if that succeeded. Failed is how many
	// attempts have failed meanwhile.
	Down   time.Duration
	Failed int
	// Quarantined means that the server may have forgotten locks, so that it does not vote (pool.WithRestartGuard): for Left, or, if that
	// is 0, until a [Quarantine] says otherwise. Err is the reason of the latter: the server refuses its stamp, or does not say which
	// server it is.
	Quarantined bool
	Left        time.Duration
	Err         error
}

// Quarantine is a change of whether the server votes behind a node that stays connected (pool.WithRestartGuard). How it is when a node is
// connected is in [NodeUp]. That Left is over is no event.
type Quarantine struct {
	At   time.Time
	Node int
	Addr string
	// Quarantined, Left and Err are as in [NodeUp].
	Quarantined bool
	Left        time.Duration
	Err         error
}

// NodeDown is a connection to a node that broke, or an attempt to connect that failed. At the end of the Locker there is one
// for each node.
type NodeDown struct {
	At   time.Time
	Node int
	Addr string
	// Failed is how many attempts have failed since the node was connected; 0 means that a connection broke or was closed. It is
	// above 0 if there was none.
	Failed int
	Err    error // nodeerr.ErrClosed if the node, or the Locker, was closed
}

// Stuck is a key without a TTL, which Lock has waited for and seen unchanged for 10 s: nobody may ever release it. It comes
// once, see redlock.WithHeal.
type Stuck struct {
	At        time.Time
	Name      string
	Addrs     []string // of the nodes that hold it
	Unchanged time.Duration
}

// Heal is a key without a TTL that was deleted on a node (redlock.WithHeal).
type Heal struct {
	At   time.Time
	Name string
	Node int
	Addr string
}

// ForceUnlock is a call of redlock.Locker.ForceUnlock, whether it has removed anything or not.
type ForceUnlock struct {
	At       time.Time
	Name     string
	Nodes    int    // from which a lock was deleted; 0 is possible
	Metadata string // of the holder
}

// Drop reports events that the Observer has missed, because it was slower than they came, or because another Observer of the
// same Locker was.
type Drop struct {
	Count int // since the event before; of all kinds, also those that this Observer does not want
}

func (Vote) event()        {}
func (Round) event()       {}
func (Acquire) event()     {}
func (Extend) event()      {}
func (Unlock) event()      {}
func (End) event()         {}
func (Raise) event()       {}
func (Turn) event()        {}
func (NodeUp) event()      {}
func (NodeDown) event()    {}
func (Quarantine) event()  {}
func (Stuck) event()       {}
func (Heal) event()        {}
func (ForceUnlock) event() {}
func (Drop) event()        {}

// Op is the operation on a lock that an event is about.
type Op string

// The operations of events. Rounds are acquires, extends and unlocks.
const (
	OpAcquire Op = "acquire" // Lock, TryLock, Do, TryDo, and those for several names
	OpExtend  Op = "extend"  // Extend and renewals
	OpUnlock  Op = "unlock"  // Unlock, and the release at the end of Do
	OpAttach  Op = "attach"  // Attach, which has no rounds
)

// Answer is what one node answered. The zero value is none.
type Answer uint8

// The answers. Only AnswerYes counts for the lock.
const (
	AnswerYes       Answer = iota + 1 // the node has done it
	AnswerNo                          // another token holds the key, or (extend, unlock) the key does not exist
	AnswerRecreated                   // extend: the key did not exist and was re-created
	AnswerUnknown                     // no answer that makes sense: it may have been done or not
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

// Kind is a group of events that an Observer wants. A [Drop] is of no kind: every Observer is told.
type Kind string

// The kinds of events. Those of Calls, Ends, Nodes and Keys are stable; Rounds, Votes and Turns follow the protocol.
const (
	Calls  Kind = "calls"  // Acquire, Extend and Unlock
	Ends   Kind = "ends"   // End, which a timer of the Locker notices
	Rounds Kind = "rounds" // Round and Raise
	Votes  Kind = "votes"  // Vote: the most events, one for each node and round
	Turns  Kind = "turns"  // Turn
	Nodes  Kind = "nodes"  // NodeUp, NodeDown and Quarantine
	Keys   Kind = "keys"   // Stuck, Heal and ForceUnlock
)

// Observer is notified of what happens, for metrics, traces and displays. redlock.WithObserver gives it to a Locker.
//
// Observe is called for one event after the other, in the order in which they happened, from a goroutine beside the calls of
// the Locker: an Observer that is slow, or blocks, holds up no lock. At least 65,536 events wait for it meanwhile; those that
// come after them are dropped, which a [Drop] reports. Locker.Close waits until the Observer has had all events, but not longer
// than a second for one that blocks, or that calls Close itself; an Unlock after Close is still observed, and so is what a
// function of Do needs after Close.
//
// An Observer may call the Locker. It must not panic or end its goroutine. Several Lockers may share an Observer; each calls it
// from a goroutine of its own.
type Observer interface {
	Observe(Event)
}

// ObserverFunc is a function as an Observer.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }
