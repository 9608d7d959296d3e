package event

import (
	"context"
	"time"
)

// Event is a struct of this package or of package event/protocol, never a pointer. Do not change the values that it
// points to. Node is the index of a node given to redlock.New or Open.
type Event interface{ event() }

// Mark makes structs of package event/protocol Events.
type Mark struct{}

func (Mark) event() {}

// Acquire is the end of a call of Lock, TryLock, TryDo, Attach, or Do before its function runs. A call for several
// names has one for each. Calls with invalid arguments, or of a closed Locker, have none.
type Acquire struct {
	Context context.Context // of the call
	// Call is a number that the events of one call or renewal share. Lockers count from random numbers, so two practically
	// never use the same.
	Call uint64
	Op   Op // OpAcquire or OpAttach
	Name string
	// Kind is a redlock.Kind, such as "exclusive", "shared" or "slot". New kinds may come.
	Kind string
	// Names are all names of a call for several, sorted; otherwise nil. Each has an Acquire with its own Call and the same
	// Err.
	Names []string
	Try   bool // TryLock, TryDo, TryLockAll, TryDoAll, or MaxWait(0)
	Start time.Time
	Took  time.Duration
	// Rounds is how many rounds the call began: 0 for Attach, for a lock that was re-entered, and for most with Handoff.
	Rounds int
	// Wait is the time until the last round began: 0 without a round, and all of Took with Handoff.
	Wait time.Duration
	// Err is nil if the caller has the lock.
	Err       error
	Reentered bool          // the caller held the lock already (redlock.Reentrant): it has no End of its own
	Handoff   bool          // handed off by an earlier holder (redlock.WithLocalHandoff): no node was asked
	Validity  time.Duration // 0 after an Err
	Fence     uint64        // see redlock.Lock.Fence; 0 after an Err
}

// Extend is the end of a call of Extend, or of a renewal (redlock.RenewFor). If it has a Validity, the End of the lock
// comes after it.
type Extend struct {
	Context context.Context // of the call; context.Background() of a renewal
	Call    uint64          // see Acquire
	Lock    uint64          // the Call of the lock's Acquire
	Name    string
	Kind    string // see Acquire
	Renewal bool
	Start   time.Time
	Took    time.Duration
	Err     error
	// Left is the validity at the end of the call without the extension: near 0 the lock was nearly lost, at 0 it was
	// over.
	Left time.Duration
	// Validity is the validity at the end of the call, whatever Err is: 0 if the lock was over.
	Validity time.Duration
}

// Unlock is the end of a call of Unlock, also the call that Do makes.
type Unlock struct {
	Context context.Context // of the call
	Call    uint64          // see Acquire
	Lock    uint64          // see Extend
	Name    string
	Kind    string // see Acquire
	Start   time.Time
	Took    time.Duration
	Handoff bool // to a waiter of this Locker (redlock.WithLocalHandoff): no node was asked
	Err     error
}

// End is the end of a lock: its release, loss or expiry. Each Acquire without Err that is not Reentered has one. A loss
// has no other event. A release within redlock.Grace is no loss.
type End struct {
	Context context.Context // of the call that acquired the lock
	Call    uint64          // of the Acquire
	Name    string
	Kind    string        // as in its Acquire
	Start   time.Time     // of holding
	Held    time.Duration // from Start to the Unlock, or until the loss was noticed
	// Err is ErrReleased, ErrGone or ErrExpired, after a loss with the error of the last extension, if it failed.
	Err error
	// Detached means that Detach ended the lock: Err is ErrReleased, and the nodes still hold it.
	Detached bool
}

// NodeUp is a new connection to a node, ready for commands. For a node that was connected before the Locker was made,
// it comes then.
type NodeUp struct {
	At   time.Time
	Node int
	Addr string
	// Down is how long there was no connection, and Failed how many attempts failed meanwhile. Both may be 0.
	Down   time.Duration
	Failed int
	// Quarantined means that the server does not vote (pool.WithRestartGuard) for Left, or if Left is 0 until a
	// [Quarantine]. Err is then the reason: the server refuses its stamp, or does not say which server it is.
	Quarantined bool
	Left        time.Duration
	Err         error
}

// Quarantine means that the server of a connected node begins or ceases to vote (pool.WithRestartGuard), or that Left
// changes. The end of Left is no event.
type Quarantine struct {
	At   time.Time
	Node int
	Addr string
	// Quarantined, Left and Err are as in [NodeUp].
	Quarantined bool
	Left        time.Duration
	Err         error
}

// NodeDown is a connection that broke, or an attempt to connect that failed. At the end of the Locker each node has
// one.
type NodeDown struct {
	At   time.Time
	Node int
	Addr string
	// Failed is how many attempts failed since the node was connected. 0 means that a connection broke or was closed.
	Failed int
	Err    error // nodeerr.ErrClosed if the node, or the Locker, was closed
}

// Stuck is a key without a TTL that Lock waited for and saw unchanged for 10 s. It may stay for ever. It comes once.
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

// ForceUnlock is a call of redlock.Locker.ForceUnlock.
type ForceUnlock struct {
	At       time.Time
	Name     string
	Nodes    int    // from which a lock was deleted; may be 0
	Metadata string // of a holder that lost the lock, the first of several
}

// Drop means that the Observer missed events, because it, or another one of the Locker, was too slow. It is in no
// group.
type Drop struct {
	// Count is the number since the event before, also of groups that this Observer does not want.
	Count int
}

func (Acquire) event()     {}
func (Extend) event()      {}
func (Unlock) event()      {}
func (End) event()         {}
func (NodeUp) event()      {}
func (NodeDown) event()    {}
func (Quarantine) event()  {}
func (Stuck) event()       {}
func (Heal) event()        {}
func (ForceUnlock) event() {}
func (Drop) event()        {}

// Op is the operation on a lock that an event is about.
type Op string

// The operations of events.
const (
	OpAcquire Op = "acquire" // Lock, TryLock, Do, TryDo, also for several names
	OpExtend  Op = "extend"  // Extend and renewals
	OpUnlock  Op = "unlock"  // Unlock, and the release at the end of Do
	OpAttach  Op = "attach"  // Attach, which has no rounds
)

// Group is a group of events that an Observer wants.
type Group string

// The groups of this package. Package event/protocol has more.
const (
	Calls Group = "calls" // Acquire, Extend and Unlock
	Ends  Group = "ends"  // End, by a timer for each lock
	Nodes Group = "nodes" // NodeUp, NodeDown and Quarantine
	Keys  Group = "keys"  // Stuck, Heal and ForceUnlock
)

// Observer is notified of events. redlock.WithObserver names its groups. Without groups its method Groups() []Group
// names them, or they are the groups of this package.
//
// Observe is called for one event after the other, in their order, in a goroutine of its own, so an Observer that
// blocks holds up no lock. At least 65,536 events wait for it. Later ones are dropped, and a [Drop] reports that.
//
// Locker.Close waits until the Observer has had all events, a second at most if it blocks or calls Close itself. An
// Unlock after Close is still observed, and the renewals for functions of Do.
//
// An Observer may call the Locker. It must not panic or end its goroutine. If Lockers share it, each has a goroutine.
type Observer interface {
	Observe(Event)
}

// ObserverFunc is a function that is an Observer.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }
