// Package form defines a lock on a server. It has the commands that take, extend, release and observe a lock, and the
// Lua scripts that servers run for these commands. It also parses the answers of the servers.
//
// The files:
//   - form.go, kind.go: what a form is, and the table of the kinds
//   - exclusive.go, fenced.go: the plain lock, and the lock with a fencing token; all.go: several of them at once
//   - shared.go: the lock that several holders share; wanted.go: the demand of a waiting process
//   - channel.go: the channels that processes subscribe to
//   - *.lua, scripts.go, script.go: the scripts; scripts.go is made of them by strip
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

// Form is one way in which servers keep a lock. A method that gets a command c makes the command in its place.
type Form interface {
	// Acquire takes the lock if the key does not exist.
	Acquire(c *wire.Command, id ID, a Ask)
	// Extend gives the key the TTL ttl, if the key is that of the lock and has less left, or no TTL at all. A key that
	// does not exist is created with that TTL, and the answer is Recreated. TTLs are sent in whole milliseconds, rounded
	// down.
	Extend(c *wire.Command, id ID, ttl time.Duration)
	// Release deletes the key if it is that of the lock.
	//
	// If the connection breaks before the answer, the node sends the release again on the next one, for redeliver. That is
	// the longest TTL that an acquire or an extension before it may have given to the key.
	Release(c *wire.Command, id ID, redeliver time.Duration)
	// Remove deletes the key if it is that of the lock that was seen, no matter whose lock that is. Unlike a release,
	// Remove is never sent again, and not sent after its timeout: another client may choose the same value for its next
	// lock.
	Remove(c *wire.Command, key string, seen Observation)
	// Observe reads the state that may be in the way of an acquire: the value of the key and its TTL, see [wire.Reply].
	// Observe is tracked.
	Observe(key string) *wire.Command
	// Look asks whether a node still holds the lock: the answer is [Observation.Holds] of the observation. Look is
	// tracked.
	Look(id ID) *wire.Command
	// ObserveMaster is an Observe that only a master answers. A replica, which holds the data of another node, answers
	// with an error of code READONLY. A server whose user may not use INFO counts as a master. ObserveMaster is not
	// tracked.
	ObserveMaster(key string) *wire.Command
	// Shows returns the observation that a reply contains.
	Shows(r *wire.Reply) Observation
	// Heal deletes the key if it holds a value that was seen and has no TTL.
	Heal(key, value string) *wire.Command
}

// Numbered is a Form whose servers grant a number with each lock.
type Numbered interface {
	Form
	// Prepare completes the request of a round that begins at now. wall returns the time of day.
	Prepare(a *Ask, now time.Time, wall func() time.Time)
	// Won records the number of a lock. The nodes had granted the lock by the instant now.
	Won(now time.Time, a Ask, number uint64)
	// Raise replaces the number that a node granted with the number of the majority. It does so only if the node still
	// holds exactly the granted number.
	Raise(c *wire.Command, id ID, granted, number uint64)
}

// Slotted is a Form whose servers grant a slot with each lock.
type Slotted interface {
	Form
	// TakeBack releases a lock on a node that granted another slot than the majority.
	TakeBack(c *wire.Command, id ID, granted wire.Slot)
}

// ID identifies a lock on the servers.
type ID struct {
	Key   string
	Token string
	// Number is the fencing number, or the slot ([wire.Slot]), that the nodes hold with Token. 0 means that there is none,
	// or that the nodes have not agreed on one.
	Number uint64
}

// Ask is the request of an acquire.
type Ask struct {
	TTL time.Duration

	// Start is for a kind that has slots: the index of the slot that the server tries first.
	Start int

	// The fields below are for a Numbered form.
	Block uint64 // how many numbers to grant, MaxBlock at most. 0 means one.
	Floor uint64 // an exclusive lower bound of the numbers. 0 means none.
	// Time is the caller's estimate of the time, in microseconds since 1970. A counter that is missing, or more than a
	// second behind Time, advances. It advances to Time if the server's clock is within a second of Time, otherwise to
	// that clock.
	Time uint64
	// Advance makes the counter advance even if it does not seem to be behind.
	Advance bool
}

// Observation is the state of a key that an observation showed.
type Observation struct {
	Answer quorum.Answer // Yes: the key exists. No: it does not. After any other answer nothing is known.
	// Foreign means that the key holds data of another program, which stays unless it has a TTL. The Answer is Refused
	// then.
	Foreign bool
	Value   string    // the value of the key
	Token   string    // the token in the value
	Fence   uint64    // the number behind the token. 0 means none.
	Slot    wire.Slot // the slot of the token. Zero means none.
	// WriterWaits reports that a process waits for a key that several share, and lets nobody else in.
	WriterWaits bool
	// Over reports that more share the key than there are slots for the caller: others have a higher limit.
	Over bool
	// TTL is the TTL that is left. wire.NoTTL means that the key never expires. For foreign data 0 means no TTL.
	TTL time.Duration
}

// Holds returns Yes if the node holds the token, and No if it certainly does not. Any other answer says why that is not
// known.
func (s Observation) Holds(token string) quorum.Answer {
	if s.Answer == quorum.Yes && s.Token != token || s.Foreign {
		return quorum.No
	}
	return s.Answer
}

// Number returns the number that the nodes have to agree on beside the token: Fence, or the number of Slot. 0 means
// that there is none.
func (s Observation) Number() uint64 { return s.Fence + uint64(s.Slot) }

// observation converts a reply to an observation. If numbered is false, the token of another client has no number.
func observation(r *wire.Reply, numbered bool) Observation {
	s := Observation{Answer: r.Answer, Foreign: errors.Is(r.Err, nodeerr.ErrForeign), Value: r.Value, TTL: r.TTL}
	s.Token, s.Fence = token.Split(r.Value, numbered)
	return s
}

// text is the common part of the forms whose key holds the token.
type text struct{}

// Observe runs observe.lua, and is tracked. It implements [Form].
func (text) Observe(key string) *wire.Command {
	c := &wire.Command{Script: observeScript, Key: key, Parse: parseObserve, BySource: true, Tracked: true}
	return c.With()
}

// Look is Observe, because the key itself holds the token. It implements [Form].
func (t text) Look(id ID) *wire.Command { return t.Observe(id.Key) }

// ObserveMaster runs observe.lua, and asks for the answer of a master. It implements [Form].
func (text) ObserveMaster(key string) *wire.Command {
	c := &wire.Command{Script: observeScript, Key: key, Parse: parseObserve, BySource: true}
	return c.With("master")
}

// Heal runs heal.lua. It implements [Form].
func (text) Heal(key, value string) *wire.Command {
	c := &wire.Command{Class: wire.Heal, Script: healScript, Key: key, Token: value, Parse: parseCode}
	return c.With(value)
}

// Probe asks a server whether it would grant a lock, and sets nothing. The command does all that an acquire, a renewal
// and a release need, with numbered also for counters. The server would set the key only if it existed. It does not
// exist, because it ends with an id that nobody else has. The answer is Yes if the server would grant a lock. Like an
// acquire, the command is not sent to a server in quarantine.
func Probe(prefix, id string, numbered bool) *wire.Command {
	key := prefix + "\x00ping:" + id
	c := &wire.Command{
		Class: wire.Probe, Script: firstAcquireScript, Key: key,
		Parse: func(v *wire.Value) wire.Reply { return wire.YesIf(v.Kind == '_', v) },
	}
	if numbered {
		c.Second = counterOf(key)
	}
	return c.With("x", "XX", "PX", "1")
}

// parseObserve parses the reply of observe.lua.
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

// foreign returns the reply about data of another program whose TTL is left milliseconds. -1 means that it has none.
func foreign(what error, left int64) wire.Reply {
	r := wire.Reply{Answer: quorum.Refused, Err: what}
	if left >= 0 {
		r.TTL = wire.TTL(max(1, left)) // 0 would mean no TTL
	}
	return r
}

// Passing is the reason why a node did not grant a lock: the key held data of another program, with a TTL. It matches
// nodeerr.ErrHeld.
type Passing struct{ TTL time.Duration }

func (p *Passing) Error() string {
	return fmt.Sprintf("nodeerr: the key holds data of another program, not a lock, and had %v left", p.TTL)
}

// Is reports true for nodeerr.ErrHeld, because it helps to wait.
func (*Passing) Is(target error) bool { return target == nodeerr.ErrHeld }

// replies has the reply for each number that scripts return, from -4 on.
var replies = [...]wire.Reply{
	{Answer: quorum.No, Err: errNoCounter},
	{Answer: quorum.No, Err: errTooLong},
	{Answer: quorum.No, Err: ErrHeldForEver},
	{Answer: quorum.No, Err: nodeerr.ErrHeld},
	{Answer: quorum.No, Err: nodeerr.ErrAbsent},
	{Answer: quorum.Yes},
	{Answer: quorum.Recreated, Err: nodeerr.ErrRecreated},
}

// Each script returns some of these numbers.
var (
	parseCode         = numbers(-1, 0, 1)
	parseRelease      = numbers(-3, -2, -1, 0, 1)
	parseExtend       = numbers(-3, -1, 0, 1, 2)
	parseStayed       = numbers(-3, -2, -1, 1, 2)
	parseFencedExtend = numbers(-4, -3, -1, 0, 1, 2)
)

// numbers returns a function that parses the reply of a script that returns one of some numbers.
func numbers(some ...int64) func(*wire.Value) wire.Reply {
	return func(v *wire.Value) wire.Reply {
		if v.Kind != ':' || !slices.Contains(some, v.Num) {
			return wire.Unexpected(v)
		}
		return replies[4+v.Num]
	}
}

var (
	// ErrHeldForEver is the reason of a node whose key is held and has no TTL.
	ErrHeldForEver = fmt.Errorf("%w: %w", nodeerr.ErrHeld, nodeerr.ErrNoExpiry)
	errOtherType   = fmt.Errorf("%w: a value of another type than a string", nodeerr.ErrForeign)
	errTooLong     = fmt.Errorf("%w: a string of more than %d bytes", nodeerr.ErrForeign, wire.MaxToken)
	errNoCounter   = fmt.Errorf("%w, and is not re-created, as its fence counter is another program's: %w",
		nodeerr.ErrAbsent, nodeerr.ErrForeign)
)

// decimal returns a number in decimal.
func decimal(number uint64) string { return strconv.FormatUint(number, 10) }

// millis returns a duration in whole milliseconds, in decimal. It cuts off a fraction.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
