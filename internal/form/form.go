// Package form is what a lock is on a server: the commands that take, extend, release and observe it, the Lua scripts that servers run
// for them, and what servers answer.
package form

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Form is one way in which servers keep a lock. Its commands are made in place.
type Form interface {
	// Acquire takes the lock if the key does not exist.
	Acquire(c *wire.Command, id ID, a Ask)
	// Extend gives the key the TTL ttl if it is that of the lock and has less left, or no TTL at all. A key that does not exist is
	// made with that TTL, and the answer is Recreated. TTLs are sent in whole milliseconds, rounded down.
	Extend(c *wire.Command, id ID, ttl time.Duration)
	// Release deletes the key if it is that of the lock.
	//
	// If its connection breaks before the answer, it is sent again on the next one, for redeliver. That is the longest TTL that
	// an acquire or an extension before it may have given to the key.
	Release(c *wire.Command, id ID, redeliver time.Duration)
	// Remove deletes the key if it is that of the lock that was seen, no matter whose. Unlike a release it is not sent after its
	// timeout, nor again: a value that another client chose may be that of its next lock, too.
	Remove(c *wire.Command, key string, seen Observation)
	// Observe reads what is in the way of an acquire: what the key holds and its TTL, see [wire.Reply]. It is tracked.
	Observe(key string) *wire.Command
	// Look asks whether a node still has the lock: [Observation.Holds] of what the reply shows. It is tracked.
	Look(id ID) *wire.Command
	// ObserveMaster is Observe of a server that has to be a master: a replica, which holds what another node does, answers with the error
	// of code READONLY. It is not tracked. A server whose user may not use INFO counts as a master.
	ObserveMaster(key string) *wire.Command
	// Observation is what the reply to an observation shows.
	Shows(r *wire.Reply) Observation
	// Heal deletes the key if it holds a value that was seen and has no TTL.
	Heal(key, value string) *wire.Command
}

// Numbered is a Form whose servers grant a number with each lock.
type Numbered interface {
	Form
	// Prepare completes what is asked for at an instant. wall is the time of day.
	Prepare(a *Ask, now time.Time, wall func() time.Time)
	// Won takes the number of a lock, which the nodes have granted by an instant.
	Won(now time.Time, a Ask, number uint64)
	// Raise replaces the number that a node has granted by that of the majority, if the node still holds exactly that.
	Raise(c *wire.Command, id ID, granted, number uint64)
}

// Slotted is a Form whose servers grant a slot with each lock.
type Slotted interface {
	Form
	// TakeBack releases a lock on a node that has granted another slot than the majority.
	TakeBack(c *wire.Command, id ID, granted wire.Slot)
}

// ID identifies a lock on the servers.
type ID struct {
	Key   string
	Token string
	// Number is the fencing number that the nodes hold with Token, or their slot ([wire.Slot]). 0 means that there is none, or that they have
	// not agreed on one.
	Number uint64
}

// Ask is what an acquire asks for.
type Ask struct {
	TTL time.Duration

	Start int // of a kind that has slots: the index of the first that is looked at

	// The others are for a Numbered form.
	Block uint64 // how many numbers are granted, MaxBlock at most; 0 means one
	Floor uint64 // an exclusive lower bound of the numbers; 0 means none
	// Time is the caller's estimate of the time, in microseconds since 1970. A counter that is missing, or more than a second
	// behind, advances: to Time if the server's clock is within a second of it, otherwise to that clock.
	Time uint64
	// Advance makes the counter advance even if it does not seem to be behind.
	Advance bool
}

// Observation is what an observation has shown of a key.
type Observation struct {
	Answer  quorum.Answer // Yes: the key exists; No: it does not; otherwise nothing is known
	Foreign bool          // it is data of another program, which stays unless there is a TTL; the Answer is Refused
	Value   string        // that the key holds
	Token   string        // in it
	Fence   uint64        // the number behind the token; 0 means none
	Slot    wire.Slot     // zero means none
	// WriterWaits reports that a writer waits for a key that several share.
	WriterWaits bool
	TTL         time.Duration // that is left; wire.NoTTL for ever
}

// Holds returns Yes if the node holds a token, No if it certainly does not, and otherwise why that is not known.
func (s Observation) Holds(token string) quorum.Answer {
	if s.Answer == quorum.Yes && s.Token != token || s.Foreign {
		return quorum.No
	}
	return s.Answer
}

// Number returns the number that the nodes have to agree on beside the token: Fence, or that of Slot. 0 means that there is none.
func (s Observation) Number() uint64 { return s.Fence + uint64(s.Slot) }

// observation makes of a reply what it shows. A token of another client has a number only if that client uses numbers.
func observation(r *wire.Reply, numbered bool) Observation {
	s := Observation{Answer: r.Answer, Foreign: errors.Is(r.Err, nodeerr.ErrForeign), Value: r.Value, TTL: r.TTL}
	s.Token, s.Fence = token.Split(r.Value, numbered)
	return s
}

// text is what those forms have in common of which the key holds a string.
type text struct{}

// Observe implements [Form].
func (text) Observe(key string) *wire.Command {
	c := &wire.Command{Script: observeScript, Key: key, Parse: parseObserve, BySource: true, Tracked: true}
	return c.With()
}

// Look implements [Form].
func (t text) Look(id ID) *wire.Command { return t.Observe(id.Key) }

// ObserveMaster implements [Form].
func (text) ObserveMaster(key string) *wire.Command {
	c := &wire.Command{Script: observeScript, Key: key, Parse: parseObserve, BySource: true}
	return c.With("master")
}

// Heal implements [Form].
func (text) Heal(key, value string) *wire.Command {
	c := &wire.Command{Class: wire.Heal, Script: healScript, Key: key, Token: value, Parse: parseCode}
	return c.With(value)
}

// Probe asks for what an acquire asks, and what a renewal and a release need, and sets nothing: the server would set the key only if it were
// there, and nothing has it, since it ends with an id that nobody else has. numbered says that there are counters too. The answer is Yes if
// the server would grant a lock. Like an acquire it is not sent to a server in quarantine.
func Probe(prefix, id string, numbered bool) *wire.Command {
	key := prefix + "\x00ping:" + id
	c := &wire.Command{
		Class: wire.Probe, Script: firstAcquireScript, Key: key, Parse: func(v *wire.Value) wire.Reply { return wire.YesIf(v.Kind == '_', v) },
	}
	if numbered {
		c.Second = counterOf(key)
	}
	return c.With("x", "XX", "PX", "1")
}

// parseObserve parses what observe.lua returns.
func parseObserve(v *wire.Value) wire.Reply {
	if v.Kind == '_' {
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrAbsent}
	}
	if v.Kind != '*' || len(v.Items) != 2 || v.Items[1].Kind != ':' || v.Items[1].Num < -1 {
		return wire.Unexpected(v)
	}
	switch held, left := &v.Items[0], v.Items[1].Num; {
	case held.Kind == '_' && left >= 0:
		return foreign(errOtherType, left)
	case !held.IsText():
		return wire.Unexpected(v)
	case len(held.Text) > wire.MaxToken:
		return foreign(errTooLong, left)
	}
	return wire.Reply{Answer: quorum.Yes, Value: string(v.Items[0].Text), TTL: wire.TTL(v.Items[1].Num)}
}

// foreign is about data of another program with a TTL of left milliseconds. -1 means none.
func foreign(what error, left int64) wire.Reply {
	r := wire.Reply{Answer: quorum.Refused, Err: what}
	if left >= 0 {
		r.TTL = wire.TTL(max(1, left)) // 0 means none
	}
	return r
}

// Passing is why a node does not grant a lock where data of another program had a TTL. It matches nodeerr.ErrHeld.
type Passing struct{ TTL time.Duration }

func (p *Passing) Error() string {
	return fmt.Sprintf("nodeerr: the key holds data of another program, not a lock, and had %v left", p.TTL)
}

// Is reports true for nodeerr.ErrHeld: to wait helps.
func (*Passing) Is(target error) bool { return target == nodeerr.ErrHeld }

// replies are those to the numbers that scripts return, from -4 on.
var replies = [...]wire.Reply{
	{Answer: quorum.No, Err: errNoCounter},
	{Answer: quorum.No, Err: errTooLong},
	{Answer: quorum.No, Err: ErrHeldForEver},
	{Answer: quorum.No, Err: nodeerr.ErrHeld},
	{Answer: quorum.No, Err: nodeerr.ErrAbsent},
	{Answer: quorum.Yes},
	{Answer: quorum.Recreated, Err: nodeerr.ErrRecreated},
}

// Some scripts return some of the numbers.
var (
	parseCode         = numbers(-1, 0, 1)
	parseRelease      = numbers(-3, -2, -1, 0, 1)
	parseExtend       = numbers(-3, -1, 0, 1, 2)
	parseStayed       = numbers(-3, -2, -1, 1, 2)
	parseFencedExtend = numbers(-4, -3, -1, 0, 1, 2)
)

func numbers(some ...int64) func(*wire.Value) wire.Reply {
	return func(v *wire.Value) wire.Reply {
		if v.Kind != ':' || !slices.Contains(some, v.Num) {
			return wire.Unexpected(v)
		}
		return replies[4+v.Num]
	}
}

var (
	// ErrHeldForEver is about a key without a TTL.
	ErrHeldForEver = fmt.Errorf("%w: %w", nodeerr.ErrHeld, nodeerr.ErrNoExpiry)
	errOtherType   = fmt.Errorf("%w: a value of another type than a string", nodeerr.ErrForeign)
	errTooLong     = fmt.Errorf("%w: a string of more than %d bytes", nodeerr.ErrForeign, wire.MaxToken)
	errNoCounter   = fmt.Errorf("%w, and is not re-created, as its fence counter is another program's: %w", nodeerr.ErrAbsent, nodeerr.ErrForeign)
)

func decimal(number uint64) string { return strconv.FormatUint(number, 10) }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
