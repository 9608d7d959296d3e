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
	_        noCopy          // as answers come while it is in use, and afterwards
	machine                  // nil: an extension that has not had its turn
	acquire  *quorum.Acquire // which the machine is, of a round that asks for a lock
	form     form.Form
	id       form.ID // of the lock; an acquire has no number yet
	grant    quorum.Grant
	lease    *Lease // that is extended
	to       wire.Receiver
	command  wire.Command
	reasons  []error   // reasons[i] is why node i did not say yes; nil while there is none
	detached *detached // what it has won was left to another process; nil if not
	outcome  quorum.Outcome
	stopped  stopped
	twice    bool // it has come to an outcome once more
}

// stopped is what has ended the wait for an outcome.
type stopped uint8

const (
	notStopped stopped = iota // or only when the outcome was there
	givenUp                   // the caller does not wait on
	overdue                   // the node timeout is over
)

// noCopy has go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// machine is what all kinds need of their votes.
type machine interface {
	Vote(clock quorum.Clock, node int, answer quorum.Answer, server string) quorum.Actions
	Late(clock quorum.Clock, node int, answer quorum.Answer, server string) quorum.Actions
	Stop(clock quorum.Clock) quorum.Actions
	Nodes() int
	Pending() int
	Answer(node int) quorum.Answer
	Duplicate(node int) (of int, ok bool)
}

// What is sent, in the tags of the replies.
const (
	Vote      uint8 = iota // the command of a round
	Raise                  // of a fencing token
	CleanUp                // the release that follows a lost acquire
	Look                   // the observation of what is in the way of a lost acquire
	Observe                // an observation, for the [Lease]
	Forgotten              // nobody wants the reply
	Watch                  // an observation, for the [Name]
	Heal                   // the deletion of a key without a TTL, for the Name
	Detached               // the observation of a lock that was left to another process
)

// Acquire takes a lock that nobody holds.
type Acquire struct {
	Round
	votes quorum.Acquire
	Ask   form.Ask
}

// Votes is the machine of the round.
func (a *Acquire) Votes() *quorum.Acquire { return &a.votes }

// Release releases a lock that is over, see [Name.Release].
type Release struct {
	Round
	votes quorum.Release
}

// ID returns what identifies the lock on the servers.
func (r *Round) ID() form.ID { return r.id }

// Grant returns what is asked for; its Start is that of the round.
func (r *Round) Grant() quorum.Grant { return r.grant }

// Outcome returns what the round has come to; Undecided also if it is an extension that has ended without asking the nodes.
func (r *Round) Outcome() quorum.Outcome { return r.outcome }

// Asking reports whether some node has not answered the command.
func (r *Round) Asking() bool { return r.Pending() > 0 }

// Verify returns what must not be, if it is.
func (r *Round) Verify() error {
	if r.twice {
		return errTwice
	}
	return nil
}

// send sends the command to each node for whose vote the machine waits.
func (r *Round) send(acts []Act, until time.Time) []Act {
	for i := range r.Nodes() {
		if r.Answer(i) == quorum.Pending {
			acts = append(acts, Act{Command: &r.command, Tag: wire.Tag{What: Vote, Node: uint16(i)}, To: r.to, At: until})
		}
	}
	return acts
}

// Answered takes the answer of a node to what the round has sent.
func (r *Round) Answered(acts []Act, clock quorum.Clock, tag wire.Tag, reply *wire.Reply) []Act {
	i := int(tag.Node)
	switch {
	case tag.What == Detached:
		return r.stillHolds(acts, tag, reply)
	case tag.What == Look:
		r.Note(i, r.inTheWay(reply))
	case tag.What != CleanUp, r.Answer(i) == quorum.No && (errors.Is(reply.Err, nodeerr.ErrForeign) || errors.Is(reply.Err, nodeerr.ErrNoExpiry)):
		r.Note(i, reply.Err) // of a clean-up if it says more than that the key is there
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

// Unsent records that some nodes did not accept the command, when the others have it. [Round.Note] notes why.
func (r *Round) Unsent(acts []Act, clock quorum.Clock, nodes []int) []Act {
	if r.acquire != nil {
		return r.apply(acts, r.acquire.Unsent(clock, nodes))
	}
	for _, i := range nodes {
		acts = r.apply(acts, r.Vote(clock, i, quorum.Unsent, ""))
	}
	return acts
}

// GiveUp ends the wait for the outcome, as the caller does not wait on; what has been sent goes on.
func (r *Round) GiveUp(acts []Act, clock quorum.Clock) []Act {
	if r.machine == nil {
		return r.lease.withdraw(acts, r)
	}
	return r.stop(acts, clock, givenUp)
}

// Overdue ends the wait for the outcome, as the node timeout of the round is over; what has been sent goes on.
func (r *Round) Overdue(acts []Act, clock quorum.Clock) []Act {
	return r.stop(acts, clock, overdue)
}

func (r *Round) stop(acts []Act, clock quorum.Clock, by stopped) []Act {
	if r.outcome == quorum.Undecided {
		r.stopped = by
	}
	return r.apply(acts, r.Stop(clock))
}

// apply makes Acts of what the machine decides.
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

// inTheWay returns what an observation says about a node that has said no, if it is more than that the key is held.
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

// Note notes why a node did not say yes; nil means that it did.
func (r *Round) Note(node int, err error) {
	if err == nil {
		return
	}
	for len(r.reasons) <= node {
		r.reasons = append(r.reasons, nil)
	}
	r.reasons[node] = err
}

// missing is why a node has not answered yet. While the round goes on, that is said to a caller who does not wait for its outcome.
func (r *Round) missing() error {
	switch {
	case r.stopped == overdue:
		return nodeerr.ErrTimeout
	case r.stopped == givenUp, r.outcome == quorum.Undecided, r.lease != nil && r.outcome == quorum.TooLate: // the deadline has decided
		return nodeerr.ErrUnanswered
	}
	return nodeerr.ErrUnneeded
}

// Reason returns why the yes of a node is missing; nil if it counted. That of a server which has voted for another node is missing
// for that ([Round.Duplicate]).
func (r *Round) Reason(i int) error {
	answer := r.Answer(i)
	switch {
	case answer == quorum.Pending:
		return r.missing()
	case i < len(r.reasons) && r.reasons[i] != nil: // also if it said yes and the raise failed
		return r.reasons[i]
	case answer == quorum.Recreated: // the node has said yes, which does not count
		return errMaybeRecreated
	case answer != quorum.Yes: // counted as no without having been asked
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
	// errOtherSlot is about one that has granted another slot than the others.
	errOtherSlot = fmt.Errorf("%w: granted another slot than the others", nodeerr.ErrFull)
	// errMaybeRecreated is about a node that holds the lock, but maybe not since it was taken.
	errMaybeRecreated = fmt.Errorf("%w, or may have been", nodeerr.ErrRecreated)
)
