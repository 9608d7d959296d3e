// Package lock decides which commands a process sends about one lock, and when. A [Round] is one command for the nodes,
// and handles their answers; package quorum counts them. A [Lease] is a lock that the nodes have granted, with its
// extensions and renewals. A [Name] has the Leases of a process under one name, and the queue of the calls that wait
// for it.
//
// The package does no I/O and starts no goroutine. Its caller serialises the inputs of a name, of its rounds and of its
// leases with one mutex. The caller carries out the Acts of each input in order, before it releases the mutex. So no
// release overtakes its acquire, and nothing that could create a key is sent behind the release of the lock.
//
// The files:
//   - lock.go: the Acts that a decision leads to, and the rules that all names share
//   - name.go: the leases and the queue of a name; first.go is for a call that no other is before
//   - round.go: a round, its command and its answers; together.go: rounds for several names in one command
//   - lease.go: a granted lock, and its observations; extend.go: its extensions and renewals
//   - attach.go, detach.go: a lock that goes from process to process; handoff.go: one that goes from call to call
//   - queue.go: calls come, win, lose and leave, in the states of state.go; line.go: these calls
//   - next.go: the next step of the call at the head
//   - turn.go: which process is next; peers.go: the messages about that
//   - share.go: readers and slots that go in side by side; want.go: the demand of a waiting process on them
//   - view.go: the knowledge of the nodes, which observe.go updates; nodestate.go: of one node
//   - changes.go: how often the name changes hands; all.go: what a call for several names does next
//   - contend.go: clients of other libraries; stuck.go: keys without a TTL
//   - pace.go, numbers.go: the pauses between rounds, and the fencing numbers to ask for
//   - repeat.go: the further rounds of a call that does not wait
package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Act is something that the caller has to do.
type Act struct {
	What    What
	Tag     wire.Tag // of the reply; it also says which node the Command is for
	Command *wire.Command
	// To receives the reply. nil means that nobody does, unless the queue has sent the Command: then [Name.Answered]
	// handles it. Without a Send, To is the round or lock that the Act is about.
	To wire.Receiver
	// For a Send, At is the instant from which the Command must not be sent, because of [ErrOver]. Zero means that there
	// is none. For a Wake, At is the instant of the Tick.
	At      time.Time
	Raise   *quorum.Raise // the raise that Command carries out, if the tag says Raise
	Call    *Call
	Message *Message
	Stuck   *Stuck
}

// What names the action of an Act.
type What uint8

// The actions.
const (
	// Send sends Command. If the node does not accept it, the refusal is its answer, before the mutex is released. With
	// the tag Vote, [Round.Unsent] handles such nodes after the command was sent to the other nodes.
	Send What = iota
	// AwaitCleanUp calls [Round.Overdue] when the node timeout of the round is over.
	AwaitCleanUp
	// Again calls [Round.Again] after the node timeout.
	Again
	// End ends the round To, which has come to its outcome, or is an extension that asks no node.
	End
	// Renew schedules the next renewal of the lock To, for the time that its Renewal says.
	Renew
	// Over ends everything that depends on the lock To, which is over. It may come more than once.
	Over
	// Offer begins a round for Call, with [Name.Ask] or [Name.Join].
	Offer
	// Foreign ends the wait of Call, as the lock cannot become free.
	Foreign
	// Wake calls [Name.Tick] at the instant At. It replaces the Wake before it.
	Wake
	// Publish publishes Message.
	Publish
	// Listen asks the nodes to report changes and messages from now on.
	Listen
	// Warn logs that keys without a TTL are in the way.
	Warn
)

// Call is a call that takes the lock.
type Call struct {
	Want     *Want
	Metadata string    // the metadata in its tokens
	Block    uint64    // how many numbers a call that does not wait reserves. 0 means one
	Lost     bool      // it lost a round before it waited, so the nodes are observed before its next round
	Of       any       // the caller's record of the call
	waits    bool      // it has a place in the queue
	first    bool      // it is a first call, which is not in the line itself: see [Name.First]
	side     int       // 1 + its place among the calls with a side round, or 0 if it has none
	arrived  uint64    // how many calls had come to the queue before
	writers  uint64    // how many writers had been seen when it came
	slot     wire.Slot // the slot at which its next round begins, or zero if there is none
	floor    uint64    // the lower bound of the numbers of its next round, if it does not wait: see [Repeat]
}

// Want is the set of properties of a lock that a call or a holder asks for.
type Want struct {
	TTL, Grace time.Duration
	MaxHold    time.Duration // the longest time for which renewals keep the lock; NoLimit means no limit
	Slots      uint16        // how many slots there are, for a kind that has slots
	Kind       form.Kind
	Renewed    bool // the lock is renewed while the holder has it
	Kept       bool // the lock is never handed off, because a caller may know its token
}

// NoLimit is a duration without end.
const NoLimit = wire.NoTTL

// Stuck is the report that keys without a TTL have been in the way for long.
type Stuck struct {
	Nodes     []int         // the nodes that have such a key
	Unchanged time.Duration // for how long such keys have been the same on too many nodes for a majority of the others
}

// Rules is the set of rules that are the same for all names of a process.
type Rules struct {
	Clock   quorum.Clock
	Wall    func() time.Time // the time of day
	Nodes   int
	Timeout time.Duration // the longest timeout of a node
	Self    string        // the owner part of the tokens that are made here
	Form    form.Form     // the form of the locks that are taken, unless several share them
	Fenced  *form.Fenced  // the form of the locks that have a fencing number
	Broken  func(error)   // is told of a change of state that must not happen; nil in programs
	Closed  func() bool   // reports whether only renewals may extend a lock
	Drift   quorum.Drift
	Pace    Pace
}

// FormOf returns the form of the locks of a kind. slots counts only if the kind has slots.
func (r *Rules) FormOf(k form.Kind, slots uint16) form.Form {
	if k.Several() {
		return form.Shared{Kind: k, Slots: slots}
	}
	return r.Form
}

// formAt returns the form of the locks that a sight is for.
func (r *Rules) formAt(s wire.Sight) form.Form {
	f := r.FormOf(form.Kind(s.Kind), s.Slots)
	if shared, ok := f.(form.Shared); ok && s.Pass {
		shared.Pass = true
		return shared
	}
	return f
}

// form returns the form of the lock that is wanted.
func (w *Want) form(r *Rules) form.Form { return r.FormOf(w.Kind, w.Slots) }

// sight returns the part of a Want that decides which locks are in its way.
func (w *Want) sight() wire.Sight { return wire.Sight{Kind: uint8(w.Kind), Slots: w.Slots} }
