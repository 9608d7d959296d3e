package redlock

import (
	"context"
	"time"
)

// Event is something that has happened, for an [Observer]: one of the types of this package whose names end in Event. Do not
// change what an event points to, such as its Err.
//
// A call of the program is an [AcquireEvent], [ExtendEvent] or [UnlockEvent] at its end. The rounds that it took come before,
// each with a [VoteEvent] per node and a [VerdictEvent]; they have the same Call. A lock that was acquired ends with an
// [EndEvent].
type Event interface{ event() }

// VoteEvent is one node's answer to an acquire, extend or unlock, as the node gave it. Those that the verdict counts come
// before its VerdictEvent, and answers that arrive later come after it. If one server answers for two nodes, only the verdict
// shows that.
type VoteEvent struct {
	At     time.Time // of the answer
	Call   uint64    // see AcquireEvent
	Late   bool      // the call has ended: its AcquireEvent, ExtendEvent or UnlockEvent came before
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

// VerdictEvent is the outcome of one round: of an acquire, extend or unlock on all nodes. It comes when the outcome is certain.
type VerdictEvent struct {
	At   time.Time
	Call uint64 // see AcquireEvent
	Late bool   // see VoteEvent; only of an unlock
	Op   Op     // OpAcquire, OpExtend or OpUnlock
	Name string // the lock's
	Err  error  // a *QuorumError; nil means done
	Took time.Duration
	// Validity is what an acquire or extend that was done has left of its TTL.
	Validity time.Duration
	// Split is true for an acquire that was refused ([ErrTaken]) although some nodes had said yes: callers have taken the nodes
	// from each other.
	Split bool
}

// AcquireEvent is the end of a call, with valid arguments and before Close, of Lock, TryLock, Do (before its function runs),
// TryDo or Attach.
type AcquireEvent struct {
	// Context is that of the call. It may have ended.
	Context context.Context
	// Call is a number that the events of one call or renewal share. Those of a Locker rise from a random one on, so that no others
	// of the program have the same.
	Call   uint64
	Op     Op // OpAcquire or OpAttach
	Name   string
	Try    bool // TryLock or TryDo
	Start  time.Time
	Took   time.Duration
	Rounds int // that the call has begun; 0 of Attach, of a lock that was re-entered, and of most that were passed on
	// Wait is the part of Took before the last round began, which took the lock if Err is nil; 0 if there was no round. It is
	// all of Took if the lock was passed on.
	Wait time.Duration
	// Err is nil if the caller has the lock. After [MaxWait] it is the *QuorumError alone: no context has ended.
	Err       error
	Reentered bool // the lock was held already ([Reentrant]): it has no EndEvent of its own
	Handoff   bool // the lock was passed on by a holder before ([WithLocalHandoff]): no node was asked
	Validity  time.Duration
	Fence     uint64 // see [Lock.Fence]
}

// ExtendEvent is the end of a call of Extend, or of a renewal ([AutoExtend]). If it has Validity, the lock's EndEvent comes
// after it.
type ExtendEvent struct {
	Context context.Context // of the call; context.Background() of a renewal
	Call    uint64          // see AcquireEvent
	Lock    uint64          // the Call of the lock's AcquireEvent, as in its EndEvent
	Name    string
	Renewal bool
	Start   time.Time
	Took    time.Duration
	Err     error
	// Left is how much validity the lock had left before the extension took effect, or failed: a renewal that leaves little of it
	// comes near to losing the lock. 0 if the lock was over.
	Left time.Duration
	// Validity is what is left afterwards.
	Validity time.Duration
}

// UnlockEvent is the end of a call of Unlock, also of those that Do makes.
type UnlockEvent struct {
	Context context.Context // of the call
	Call    uint64          // see AcquireEvent
	Lock    uint64          // see ExtendEvent
	Name    string
	Start   time.Time
	Took    time.Duration
	Handoff bool // the lock was passed on to a waiter of this Locker ([WithLocalHandoff]): no node was asked
	Err     error
}

// EndEvent is the end of a lock: its release, its loss or its expiry. There is one for each AcquireEvent without an Err that is
// not Reentered, after it, unless the program ends before. It is the one event of a loss, however that was found out.
type EndEvent struct {
	Context context.Context // of the call that acquired the lock
	Call    uint64          // of the AcquireEvent
	Name    string
	Start   time.Time     // when the lock was acquired
	Held    time.Duration // from then to the call of Unlock, or until the loss was noticed
	Err     error         // ErrReleased, ErrLost or ErrExpired
	// Detached means that the lock was passed on by Detach: Err is ErrReleased, and the nodes hold the lock still.
	Detached bool
}

// FenceEvent is a node whose counter was behind those of the others when it said yes to an acquire, so that it had to be asked
// once more ([WithFencing]). The acquire may have taken one round trip more.
type FenceEvent struct {
	At      time.Time
	Call    uint64 // see AcquireEvent
	Name    string
	Node    int
	Addr    string
	Granted uint64 // the number that the node granted
	Fence   uint64 // the number that it was raised to
}

// HandOverEvent is a turn that passes from one process to another that waits for the same lock.
type HandOverEvent struct {
	At   time.Time
	Name string
	// Received is true if another process has passed the turn to this one. Otherwise it is the other way round.
	Received bool
	Waiting  int // the processes known to wait after the one whose turn it is
}

// NodeUpEvent is a connection to a node, which is ready for commands. Nodes connect when they are first used. If the node was
// connected when the Locker was made, the event comes then.
type NodeUpEvent struct {
	At   time.Time
	Node int
	Addr string
	// Down is how long there was no connection: since it broke, or since the first attempt; 0 if that succeeded. Failed is how many
	// attempts have failed meanwhile.
	Down   time.Duration
	Failed int
	// Quarantined means that the server may have forgotten locks, so that it does not vote (pool.WithRestartGuard), for Left, or
	// until it is replaced if Left is 0.
	Quarantined bool
	Left        time.Duration
}

// NodeDownEvent is a connection to a node that broke, or an attempt to connect that failed. At the end of the Locker there is one
// for each node.
type NodeDownEvent struct {
	At   time.Time
	Node int
	Addr string
	// Failed is how many attempts have failed since the node was connected; 0 means that a connection broke or was closed. It is
	// above 0 if there was none.
	Failed int
	Err    error // nodeerr.ErrClosed if the node, or the Locker, was closed
}

// StuckEvent is a key without a TTL, which Lock has waited for and seen unchanged for 10 s: nobody may ever release it. It comes
// once, see [WithHeal].
type StuckEvent struct {
	At        time.Time
	Name      string
	Addrs     []string // of the nodes that hold it
	Unchanged time.Duration
}

// HealEvent is a key without a TTL that was deleted on a node ([WithHeal]).
type HealEvent struct {
	At   time.Time
	Name string
	Node int
	Addr string
}

// ForceUnlockEvent is a lock that an operator has removed ([Locker.ForceUnlock]).
type ForceUnlockEvent struct {
	At       time.Time
	Name     string
	Nodes    int    // from which it was deleted
	Metadata string // of the holder
}

// DropEvent reports events that the Observer has missed, because it was slower than they came.
type DropEvent struct {
	Count int // since the event before
}

func (VoteEvent) event()        {}
func (VerdictEvent) event()     {}
func (AcquireEvent) event()     {}
func (ExtendEvent) event()      {}
func (UnlockEvent) event()      {}
func (EndEvent) event()         {}
func (FenceEvent) event()       {}
func (HandOverEvent) event()    {}
func (NodeUpEvent) event()      {}
func (NodeDownEvent) event()    {}
func (StuckEvent) event()       {}
func (HealEvent) event()        {}
func (ForceUnlockEvent) event() {}
func (DropEvent) event()        {}
