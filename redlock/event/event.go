package event

import (
	"context"
	"time"
)

// Event is something that has happened: one of the structs of this package or of package event/protocol, never a
// pointer to one. Do not change the
// values that an event points to, such as its Err. In all events a Node is the index of a node given to redlock.New or
// Open.
type Event interface{ event() }

// Mark makes the structs of package event/protocol Events. Programs have no use for it.
type Mark struct{}

func (Mark) event() {}

// Acquire is the end of a call of Lock, TryLock, Do (before its function runs), TryDo or Attach. It comes if the
// arguments of the call are valid and the Locker was not closed. A call of LockAll, TryLockAll, DoAll or TryDoAll has
// one for each name.
type Acquire struct {
	// Context is the context of the call. It may have ended.
	Context context.Context
	// Call is a number that the events of one call or renewal share. A Locker counts its calls up from a random number,
	// so two Lockers practically never use the same number.
	Call uint64
	Op   Op // OpAcquire or OpAttach
	Name string
	// Kind is the kind of the lock that the caller has, or asked for. It is the text of a redlock.Kind, such as
	// "exclusive", "shared" or "slot". New kinds may come with any minor version.
	Kind string
	// Names are all names of a call for several locks (redlock.LockAll), sorted. Each name has an Acquire of its own,
	// with its own Call and the same Err. Names is nil for any other call.
	Names []string
	Try   bool // the call does not wait: TryLock, TryDo, TryLockAll, TryDoAll, or MaxWait(0)
	Start time.Time
	Took  time.Duration
	// Rounds is how many rounds the call has begun. It is 0 for Attach, for a lock that was re-entered, and for most
	// locks that were handed off.
	Rounds int
	// Wait is how long the call waited until its last round began; that round took the lock if Err is nil. It is 0 if
	// the call began no round, and all of Took if Handoff is true.
	Wait time.Duration
	// Err is nil if the caller has the lock. After redlock.MaxWait it is the *QuorumError alone, because no context has
	// ended.
	Err       error
	Reentered bool          // the caller held the lock already (redlock.Reentrant): it has no End of its own
	Handoff   bool          // an earlier holder handed the lock off (redlock.WithLocalHandoff): no node was asked
	Validity  time.Duration // 0 after an Err
	Fence     uint64        // see redlock.Lock.Fence; 0 after an Err
}

// Extend is the end of a call of Extend, or of a renewal (redlock.RenewFor). If it has a Validity, the End of the
// lock comes after it.
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
	// Left is the validity that the lock would have had at the end of the call without the extension. If it is near 0,
	// the lock was nearly lost. It is 0 if the lock was over before the call.
	Left time.Duration
	// Validity is the validity that the lock had at the end of the call, whether the extension succeeded or not. It is
	// 0 if the lock was over then.
	Validity time.Duration
}

// Unlock is the end of a call of Unlock, including the call that Do makes.
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

// End is the end of a lock: its release, its loss or its expiry. There is one after each Acquire that has no Err and is
// not Reentered, unless the program ends before. It is the only event of a loss, however the loss was found. A lock
// that is released within its redlock.Grace was not lost.
type End struct {
	Context context.Context // of the call that acquired the lock
	Call    uint64          // of the Acquire
	Name    string
	Kind    string        // of the lock, as in its Acquire
	Start   time.Time     // when the lock was acquired
	Held    time.Duration // from Start to the call of Unlock, or until the loss was noticed
	// Err is ErrReleased, ErrGone or ErrExpired. After a loss it also has the last extension before it, if that failed,
	// as the error of Lock.Err does.
	Err error
	// Detached means that Detach ended the lock for this process. Then Err is ErrReleased, and the nodes still hold the
	// lock.
	Detached bool
}

// NodeUp is a new connection to a node, which is ready for commands. Nodes connect when they are first used. If the
// node was connected when the Locker was made, the event comes then.
type NodeUp struct {
	At   time.Time
	Node int
	Addr string
	// Down is how long there was no connection: since it broke, or since the first attempt to connect. It is 0 if the
	// first attempt succeeded. Failed is how many attempts have failed meanwhile.
	Down   time.Duration
	Failed int
	// Quarantined means that the server does not vote, because it may have forgotten locks (pool.WithRestartGuard). It
	// does not vote for Left, or if Left is 0, until a [Quarantine] says otherwise. In the second case Err is the
	// reason: the server refuses its stamp, or does not say which server it is.
	Quarantined bool
	Left        time.Duration
	Err         error
}

// Quarantine is a change of the quarantine of a server whose node stays connected (pool.WithRestartGuard). The server
// begins or ceases to vote, or the time for which it does not vote changes. [NodeUp] has the quarantine when a node is
// connected. The end of Left is no event.
type Quarantine struct {
	At   time.Time
	Node int
	Addr string
	// Quarantined, Left and Err are as in [NodeUp].
	Quarantined bool
	Left        time.Duration
	Err         error
}

// NodeDown is a connection to a node that broke, or an attempt to connect that failed. At the end of the Locker there
// is one for each node.
type NodeDown struct {
	At   time.Time
	Node int
	Addr string
	// Failed is how many attempts have failed since the node was connected. 0 means that a connection broke or was
	// closed. If there was no connection, Failed is above 0.
	Failed int
	Err    error // nodeerr.ErrClosed if the node, or the Locker, was closed
}

// Stuck is a key without a TTL that Lock has waited for and seen unchanged for 10 s: nobody may ever release it. It
// comes once, see redlock.WithHeal.
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

// ForceUnlock is a call of redlock.Locker.ForceUnlock, whether or not it has removed anything.
type ForceUnlock struct {
	At       time.Time
	Name     string
	Nodes    int    // the number of nodes from which a lock was deleted; may be 0
	Metadata string // of a holder that has lost the lock, the first one if several shared it
}

// Drop reports that the Observer has missed events, because it was slower than they came, or because another Observer
// of the same Locker was.
type Drop struct {
	// Count is the number of events missed since the event before. It counts all kinds, including the kinds that this
	// Observer does not want.
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

// The operations of events. Rounds are acquires, extends and unlocks.
const (
	OpAcquire Op = "acquire" // Lock, TryLock, Do, TryDo, and those for several names
	OpExtend  Op = "extend"  // Extend and renewals
	OpUnlock  Op = "unlock"  // Unlock, and the release at the end of Do
	OpAttach  Op = "attach"  // Attach, which has no rounds
)

// Group is a group of events that an Observer wants. A [Drop] is in no group: every Observer is notified of it.
type Group string

// The groups of events of this package. Package event/protocol has further ones.
const (
	Calls Group = "calls" // Acquire, Extend and Unlock
	Ends  Group = "ends"  // End; a timer of the Locker notices the end of each lock
	Nodes Group = "nodes" // NodeUp, NodeDown and Quarantine
	Keys  Group = "keys"  // Stuck, Heal and ForceUnlock
)

// Observer is notified of events, for metrics, traces and displays. redlock.WithObserver gives it to a Locker, with the
// groups of events that it wants. Without groups, an Observer that has a method Groups() []Group gets those. Any other
// gets the groups of this package.
//
// Observe is called for one event after the other, in the order in which they happened. That happens in a goroutine
// beside the calls of the Locker, so an Observer that is slow, or blocks, holds up no lock. At least 65,536 events wait
// for it meanwhile. Events that come after these are dropped, and a [Drop] reports that.
//
// Locker.Close waits until the Observer has had all events. For an Observer that blocks, or that calls Close itself, it
// waits a second at most. An Unlock after Close is still observed, and so are the renewals and the release that a
// function of Do needs after Close.
//
// An Observer may call the Locker. It must not panic or end its goroutine. Several Lockers may share an Observer; each
// calls it from a goroutine of its own.
type Observer interface {
	Observe(Event)
}

// ObserverFunc is a function that is an Observer.
type ObserverFunc func(Event)

// Observe calls f.
func (f ObserverFunc) Observe(e Event) { f(e) }
