package lock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Round is one command for the nodes: an [Acquire], an [Extend] or a [Release]. It is made in place.
type Round struct {
	_        noCopy          // it must not be copied: answers come while it is in use, and afterwards
	machine                  // nil means an extension that has not had its turn
	acquire  *quorum.Acquire // the machine of a round that asks for a lock; nil in other rounds
	form     form.Form
	id       form.ID // identifies the lock; in an acquire it has no number yet
	grant    quorum.Grant
	lease    *Lease // the lock that is extended; nil in other rounds
	to       wire.Receiver
	command  wire.Command
	reasons  []error   // reasons[i] is why node i did not say yes; nil while there is none
	detached *detached // not nil if the lock that it has won was left to another process
	outcome  quorum.Outcome
	stopped  stopped
	twice    bool // the machine has come to a second outcome
}

// stopped is the reason why the wait for an outcome ended early.
type stopped uint8

const (
	notStopped stopped = iota // it did not end, or only when the outcome was there
	givenUp                   // the caller no longer waits
	overdue                   // the node timeout is over
)

// noCopy is a type whose copies go vet reports.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// machine is the set of methods of a machine of package quorum that all rounds need.
type machine interface {
	Vote(clock quorum.Clock, node int, answer quorum.Answer, server string) quorum.Actions
	Late(clock quorum.Clock, node int, answer quorum.Answer, server string) quorum.Actions
	Stop(clock quorum.Clock) quorum.Actions
	Nodes() int
	Pending() int
	Answer(node int) quorum.Answer
	Duplicate(node int) (of int, ok bool)
}

// The commands, as the tags of the replies name them.
const (
	Vote      uint8 = iota // the command of a round
	Raise                  // the raise of a fencing token, or the return of a slot
	CleanUp                // the release that follows a lost acquire
	Look                   // the observation of the key that is in the way of a lost acquire
	Observe                // an observation, for the [Lease]
	Forgotten              // nobody wants the reply
	Watch                  // an observation, for the [Name]
	Heal                   // the deletion of a key without a TTL, for the Name
	Detached               // the observation of a lock that was left to another process
	Announce               // the message to the holder that calls wait here, for the Name
)

// Acquire is a round that takes a lock that nobody holds.
type Acquire struct {
	Round
	votes quorum.Acquire
	Ask   form.Ask
}

// Votes returns the machine of the round.
func (a *Acquire) Votes() *quorum.Acquire { return &a.votes }

// Release is a round that releases a lock that is over, see [Name.Release].
type Release struct {
	Round
	votes quorum.Release
}

// ID returns the identity of the lock on the servers.
func (r *Round) ID() form.ID { return r.id }

// Grant returns the grant that the round asks for. Its Start is that of the round.
func (r *Round) Grant() quorum.Grant { return r.grant }

// Outcome returns the outcome of the round. It is also Undecided if the round is an extension that has ended without
// asking the nodes.
func (r *Round) Outcome() quorum.Outcome { return r.outcome }

// Asking reports whether some node has not answered the command.
func (r *Round) Asking() bool { return r.Pending() > 0 }

// Verify returns an error if the round has ended twice.
func (r *Round) Verify() error {
	if r.twice {
		return errTwice
	}
	return nil
}

// send appends a Send for each node whose vote is missing. The command must not be sent from the instant until on. A
// zero until means that there is no such instant.
func (r *Round) send(acts []Act, until time.Time) []Act {
	for i := range r.Nodes() {
		if r.Answer(i) == quorum.Pending {
			acts = append(acts, Act{Command: &r.command, Tag: wire.Tag{What: Vote, Node: uint16(i)}, To: r.to, At: until})
		}
	}
	return acts
}

// Answered handles the answer of a node to a command of the round.
func (r *Round) Answered(acts []Act, clock quorum.Clock, tag wire.Tag, reply *wire.Reply) []Act {
	i := int(tag.Node)
	switch {
	case tag.What == Detached:
		return r.stillHolds(acts, tag, reply)
	case tag.What == Look:
		r.Note(i, r.inTheWay(reply))
	case tag.What != CleanUp, r.Answer(i) == quorum.No &&
		(errors.Is(reply.Err, nodeerr.ErrForeign) || errors.Is(reply.Err, nodeerr.ErrNoExpiry)):
		r.Note(i, reply.Err) // of a clean-up only if it says more than that the key exists
	}
	switch {
	case tag.What == Raise:
		return r.apply(acts, r.acquire.Raised(clock, i, reply.Answer))
	case tag.What == CleanUp, tag.What == Look:
		return r.apply(acts, r.acquire.Released(i))
	case reply.Late && r.detached != nil && reply.Answer == quorum.Yes:
		return r.cameLate(acts, i)
	case reply.Number() > 0 && r.acquire != nil:
		return r.apply(acts, r.acquire.Granted(clock, i, reply.Number(), reply.Server))
	case reply.Late:
		return r.apply(acts, r.Late(clock, i, reply.Answer, reply.Server))
	}
	return r.apply(acts, r.Vote(clock, i, reply.Answer, reply.Server))
}

// Unsent records that some nodes did not accept the command, after it was sent to the others. [Round.Note] has noted
// why.
func (r *Round) Unsent(acts []Act, clock quorum.Clock, nodes []int) []Act {
	if r.acquire != nil {
		return r.apply(acts, r.acquire.Unsent(clock, nodes))
	}
	for _, i := range nodes {
		acts = r.apply(acts, r.Vote(clock, i, quorum.Unsent, ""))
	}
	return acts
}

// GiveUp ends the wait for the outcome, because the caller no longer waits. Commands that have been sent go on.
func (r *Round) GiveUp(acts []Act, clock quorum.Clock) []Act {
	if r.machine == nil {
		return r.lease.withdraw(acts, r)
	}
	return r.stop(acts, clock, givenUp)
}

// Overdue ends the wait for the outcome, because the node timeout of the round is over. Commands that have been sent go
// on.
func (r *Round) Overdue(acts []Act, clock quorum.Clock) []Act {
	return r.stop(acts, clock, overdue)
}

// stop ends the wait for the outcome. It records why, if there is no outcome yet.
func (r *Round) stop(acts []Act, clock quorum.Clock, by stopped) []Act {
	if r.outcome == quorum.Undecided {
		r.stopped = by
	}
	return r.apply(acts, r.Stop(clock))
}

// apply turns the decisions of the machine into Acts.
func (r *Round) apply(acts []Act, decided quorum.Actions) []Act {
	var observe *wire.Command
	if len(decided.Release) > 0 {
		release := new(wire.Command)
		r.form.Release(release, r.id, r.grant.TTL)
		for _, i := range decided.Release {
			acts = append(acts, Act{Command: release, Tag: wire.Tag{What: CleanUp, Node: uint16(i)}, To: r.to})
		}
	}
	for _, due := range decided.Raise {
		raise := new(wire.Command)
		if f, ok := r.form.(form.Slotted); ok {
			f.TakeBack(raise, r.id, wire.Slot(due.Granted)) //nolint:gosec // a slot was granted
		} else {
			r.form.(form.Numbered).Raise(raise, r.id, due.Granted, due.Token)
		}
		raise.Redeliver = r.grant.TTL // if it cleans up, as a release does
		acts = append(acts, Act{Command: raise, Tag: wire.Tag{What: Raise, Node: uint16(due.Node)}, To: r.to, Raise: &due})
	}
	for _, i := range decided.Observe {
		if r.lease != nil {
			acts = r.lease.observe(acts, i)
			continue
		}
		if observe == nil {
			observe = r.form.Observe(r.id.Key)
			observe.Tracked, observe.BySource = false, false // nobody waits for a change
		}
		acts = append(acts, Act{Command: observe, Tag: wire.Tag{What: Look, Node: uint16(i)}, To: r.to})
	}
	if decided.AwaitCleanUp {
		acts = append(acts, Act{What: AwaitCleanUp, To: r.to})
	}
	switch {
	case decided.Outcome == quorum.Undecided:
	case r.outcome == quorum.Undecided:
		r.outcome = decided.Outcome
		if r.lease != nil {
			acts = r.lease.extend(r.lease.ended(acts, &r.lease.extensions))
		} else {
			acts = append(acts, Act{What: End, To: r.to})
		}
	default:
		r.twice = true
	}
	if r.lease != nil {
		acts = r.lease.shown(acts)
	}
	return acts
}

// inTheWay returns the reason that an observation shows for the no of a node. It returns nil if the observation shows
// only that the key is held.
func (r *Round) inTheWay(reply *wire.Reply) error {
	switch o := r.form.Shows(reply); {
	case o.Foreign && o.TTL > 0:
		return &form.Passing{TTL: o.TTL}
	case o.Foreign:
		return reply.Err
	case o.Answer != quorum.Yes:
	case o.Token == r.id.Token:
		return nodeerr.ErrOwnToken
	case o.TTL == wire.NoTTL:
		return form.ErrHeldForEver
	}
	return nil
}

// noExpiry reports whether a key without a TTL is in the way.
func (r *Round) noExpiry() bool {
	return slices.ContainsFunc(r.reasons, func(err error) bool { return errors.Is(err, nodeerr.ErrNoExpiry) })
}

// Note notes why a node did not say yes. A nil error means that it did, and notes nothing.
func (r *Round) Note(node int, err error) {
	if err == nil {
		return
	}
	for len(r.reasons) <= node {
		r.reasons = append(r.reasons, nil)
	}
	r.reasons[node] = err
}

// missing returns why a node has not answered yet. While the round goes on, only a caller who does not wait for its
// outcome gets this reason.
func (r *Round) missing() error {
	switch {
	case r.stopped == overdue:
		return nodeerr.ErrTimeout
	// The deadline decides an extension that is TooLate.
	case r.stopped == givenUp, r.outcome == quorum.Undecided, r.lease != nil && r.outcome == quorum.TooLate:
		return nodeerr.ErrUnanswered
	}
	return nodeerr.ErrUnneeded
}

// Reason returns why the yes of a node is missing. nil means that it counted. If the server of the node has voted for
// another node, that is why: [Round.Duplicate] reports it, and has to be asked before.
func (r *Round) Reason(i int) error {
	answer := r.Answer(i)
	switch {
	case answer == quorum.Pending:
		return r.missing()
	case i < len(r.reasons) && r.reasons[i] != nil: // also if the node said yes and the raise failed
		return r.reasons[i]
	case answer == quorum.Recreated: // the node said yes, which does not count
		return errMaybeRecreated
	case answer != quorum.Yes: // the node was counted as no without being asked
		return errNeverAcquired
	}
	if r.acquire != nil {
		switch agrees, open := r.acquire.Agrees(i); {
		case open:
			return r.missing()
		case !agrees && r.acquire.Slots():
			return errOtherSlot
		case !agrees:
			return errAhead
		}
	}
	return nil
}

var (
	// ErrOver is why a node is not asked to extend: the lock has ended meanwhile.
	ErrOver  = errors.New("not asked: the lock is over")
	errTwice = errors.New("a call ends once")

	// errNeverAcquired is about a node that is not asked to extend or release, because it cannot hold the lock.
	errNeverAcquired = fmt.Errorf("%w: the acquire was never sent", nodeerr.ErrAbsent)
	// errAhead is about a node that has granted the lock with a higher number than the token on which the others agreed.
	errAhead = errors.New("granted a different fencing number from the others")
	// errOtherSlot is about a node that has granted another slot than the others.
	errOtherSlot = fmt.Errorf("%w: granted another slot than the others", nodeerr.ErrFull)
	// errMaybeRecreated is about a node that holds the lock, but maybe not since it was taken.
	errMaybeRecreated = fmt.Errorf("%w, or may have been", nodeerr.ErrRecreated)
)
