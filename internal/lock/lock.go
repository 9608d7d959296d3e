// Package lock is what a process does about one lock. A [Round] is one command for the nodes, and takes their answers; package quorum
// counts them. A [Lease] is a lock that the nodes have granted, with the extensions and renewals of it. A [Name] has the Leases of a process
// under one name, and the queue of the calls that wait for it.
//
// It does no I/O and starts no goroutine. What calls it serialises the inputs of a name, and those of its rounds and leases, with one
// mutex, and carries out the Acts that come of each in order, before it releases the mutex: so no release overtakes its acquire, and
// nothing that could create a key is sent behind the release of the lock.
package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Act is something to do.
type Act struct {
	What    What
	Tag     wire.Tag // of the reply; which node it is about
	Command *wire.Command
	To      wire.Receiver // of the reply; nil: nobody, or what the queue sends. Without a Send: the round or lock that it is about
	At      time.Time     // Send: Command must not be sent from then on, for [ErrOver]; zero means never. Wake: when
	Raise   *quorum.Raise // what Command raises, if the tag says so
	Call    *Call
	Message *Message
	Stuck   *Stuck
}

// What is what an Act does.
type What uint8

// The Acts.
const (
	// Send sends Command. If the node does not take it, that is its answer, before the mutex is released. With the tag Vote it goes to
	// [Round.Unsent], when the command has been sent to the other nodes.
	Send What = iota
	// AwaitCleanUp calls Overdue when the node timeout of the round is over.
	AwaitCleanUp
	// Again calls [Round.Again] after the node timeout.
	Again
	// End ends the round To: it has come to its outcome, or is an extension that asks no node.
	End
	// Renew schedules the next renewal of the lock of To, for when its Renewal says.
	Renew
	// Over ends what ends with the lock of To, which is over. It may come more than once.
	Over
	// Offer begins a round for Call with [Name.Ask].
	Offer
	// Foreign ends the wait of Call, as the lock cannot become free.
	Foreign
	// Wake calls Tick At, and not when it was asked for before.
	Wake
	// Publish publishes Message.
	Publish
	// Listen asks the nodes to report changes and messages from now on.
	Listen
	// Warn logs that keys without a TTL are in the way.
	Warn
)

// Message is a message to another process about the name. One that is lost costs time.
type Message struct {
	What  string   // Waits or Yours
	To    string   // the owner part of the tokens of that process
	Peers []string // other processes, see What
	Node  int      // to publish it through, or AllNodes
}

// AllNodes means that a message is published through every node.
const AllNodes = -1

// What a Message says.
const (
	Waits = "waits" // to the holder: the Peers wait
	Yours = "yours" // to the next: the lock was released for it, and the Peers wait after it
)

// Call is a call that takes the lock.
type Call struct {
	Want     *Want
	Metadata string    // in its tokens
	Block    uint64    // how many numbers to reserve, unless it waits; 0 is one
	Lost     bool      // it has lost a round, so it has the nodes observed before its next
	Of       any       // who calls
	waits    bool      // it has a place in the queue
	first    bool      // as the first, without being in the line: see [Name.First]
	side     int       // 1 + its place among those with a side round; 0: it has none
	arrived  uint64    // how many have come to the queue before
	slot     wire.Slot // that was released for it; zero: none was
}

// Want is what a holder asks for.
type Want struct {
	TTL, Grace time.Duration
	MaxHold    time.Duration // limits the renewals; NoLimit: nothing does
	Slots      uint16        // of a kind that has slots: how many there are
	Kind       form.Kind
	Renewed    bool // the lock is renewed while the holder has it
	Kept       bool // the lock is never handed off, because a caller may know its token
}

// NoLimit is a duration without end.
const NoLimit = wire.NoTTL

// Stuck means that keys without a TTL have been in the way for long.
type Stuck struct {
	Nodes     []int         // that have one
	Unchanged time.Duration // for so long as many of them as prevent a majority have been the same
}

// Rules are the same for all names of a process.
type Rules struct {
	Clock   quorum.Clock
	Wall    func() time.Time // the time of day
	Nodes   int
	Timeout time.Duration // of a node, the longest
	Self    string        // the owner part of the tokens that are made here
	Form    form.Form     // of the locks that are taken, unless they are shared
	Fenced  *form.Fenced  // of those that have a number
	Broken  func(error)   // is told of a change of state that must not happen; nil in programs
	Closed  func() bool   // reports whether only renewals may extend a lock
	Drift   quorum.Drift
	Pace    Pace
}

// FormOf returns the form of the locks of a kind. Slots counts if the kind has slots.
func (r *Rules) FormOf(k form.Kind, slots uint16) form.Form {
	if k.Several() {
		return form.Shared{Kind: k, Slots: slots}
	}
	return r.Form
}

// form returns the form of what a holder asks for.
func (w *Want) form(r *Rules) form.Form { return r.FormOf(w.Kind, w.Slots) }

// sight is the part of a Want that decides what is in its way.
func (w *Want) sight() wire.Sight { return wire.Sight{Kind: uint8(w.Kind), Slots: w.Slots} }
