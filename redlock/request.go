package redlock

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/sealed"
)

const maxMetadataBytes = 256

// NoLimit is a duration without end.
const NoLimit time.Duration = math.MaxInt64

const _ = uint64(NoLimit-engine.NoLimit) + uint64(engine.NoLimit-NoLimit) // does not compile unless the two are equal

// LockOption is a setting of one call, or in [Open] and [New] the default of all calls, which a call overrides.
// [Shared], [Slots], [Reentrant] and [Owner] are for calls only.
type LockOption interface {
	Option
	applyLock(*request)
}

type lockOption func(*request)

func (lockOption) LockerOption(sealed.Type) {}

func (f lockOption) applyLock(r *request) { f(r) }

// apply sets a default of the locks. It clears given, because a default is no option of a call.
func (f lockOption) apply(c *config) {
	f(&c.lock)
	c.lock.given = 0
}

// callOption is a LockOption that has no default. name is that of its function.
type callOption struct {
	lockOption
	name string
}

// apply records the mistake, because the option is for calls.
func (o callOption) apply(c *config) { c.ofCalls = append(c.ofCalls, o.name) }

// given is the set of the options that the call itself was given, without the defaults of its Locker.
type given uint16

const (
	givenGrace given = 1 << iota
	givenMaxWait
	givenMaxOutage
	givenMetadata
	givenTokenSource
	givenOwner
	givenShared
	givenSlots
)

// request is the name and the options of one call. The Locker has one with its defaults.
type request struct {
	name  string
	names []string // of all locks of a call for several; nil for any other call
	key   string
	engine.Want
	metadata  string
	maxWait   time.Duration
	maxOutage time.Duration
	renewFor  time.Duration // for how long the lock is renewed, or 0
	renewSet  bool          // the call or its Locker has set renewFor
	function  bool          // a function runs under the lock
	reentrant bool
	given     given
	owner     string
	source    func() (string, error) // makes the tokens; without it they are random
	token     string                 // the token that source made for the next round
	slots     int                    // the number of slots that the name has
	block     uint64                 // the number of fencing tokens that the round asks for, or 0 for one
	call      *observedCall          // nil if no observer wants its number
}

// checkText returns an error for a text that Redis accepts in a key but that is a mistake: too long, or with control
// characters.
func checkText(what, text string) error {
	if len(text) > engine.MaxName {
		return invalid("%s has %d bytes: at most %d, since every command carries it",
			shown(what, text), len(text), engine.MaxName)
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return invalid("%s has the control character %q at byte %d: logs and tools would show another name",
				shown(what, text), r, i)
		}
	}
	return nil
}

// shown returns a text for an error about it. A token is not shown.
func shown(what, text string) string {
	switch {
	case what == "token":
		return "the token"
	case len(text) > engine.MaxName:
		return fmt.Sprintf("the %s %.32q...", what, text)
	}
	return fmt.Sprintf("the %s %q", what, text)
}

// nextToken asks the source of the call, if there is one, for the token of the next round.
func (r *request) nextToken() error {
	if r.source == nil {
		return nil
	}
	made, err := r.source()
	switch {
	case err != nil:
		return fmt.Errorf("TokenSource: %w", err)
	case made == "":
		return invalid("TokenSource: an empty token")
	case strings.Contains(made, "|"):
		return invalid("TokenSource: a token must not contain |, which separates the fencing token")
	case made == r.token:
		return invalid("TokenSource: it has returned the token of the round before")
	}
	r.token = made
	return checkText("token", made)
}

// request fills r with the arguments of a call, and checks them before anything is sent.
func (c *config) request(r *request, name string, opts []LockOption) (err error) {
	*r = c.lock
	r.name, r.key = name, c.prefix+name
	if len(opts) > 0 {
		if *r, err = r.with(opts); err != nil {
			return err
		}
	}
	if r.TTL, err = c.checkTTL(r.TTL, r.Grace); err != nil {
		return err
	}
	switch {
	case name == "":
		return invalid("the name is empty")
	case engine.Reserved(r.key):
		return invalid("the name %q: the key %q belongs to the library: it is a companion of a lock, or the stamp of a node",
			name, r.key)
	case r.given&givenSlots != 0 && (r.slots < 1 || r.slots > engine.MaxSlots):
		return invalid("Slots(%d): must be from 1 to %d", r.slots, engine.MaxSlots)
	case r.given&givenSlots != 0 && r.given&givenShared != 0:
		return invalid("Slots(%d) beside Shared: a lock is of one kind", r.slots)
	case r.given&givenOwner != 0 && r.owner == "":
		return invalid("Owner: the id is empty")
	case len(r.metadata) > maxMetadataBytes:
		return invalid("Metadata(%.32q...): %d bytes, at most %d", r.metadata, len(r.metadata), maxMetadataBytes)
	case strings.Contains(r.metadata, "|"):
		return invalid("Metadata(%q): must not contain |, which separates the fencing token", r.metadata)
	case r.maxWait < 0:
		return invalid("MaxWait(%s): must not be below zero", r.maxWait)
	case r.maxOutage < 0:
		return invalid("MaxOutage(%s): must not be below zero", r.maxOutage)
	case r.renewFor < 0:
		return invalid("RenewFor(%s): must not be below zero", r.renewFor)
	case r.source != nil && r.given&givenMetadata != 0 && r.metadata != "":
		return invalid("Metadata(%q): a token of a TokenSource has none", r.metadata)
	}
	if r.Renewed, r.MaxHold = r.renewFor > 0, NoLimit; r.Renewed {
		r.MaxHold = max(r.renewFor, r.TTL)
	}
	r.Kept, r.Slots = r.source != nil, uint16(r.slots)
	return cmp.Or(checkText("name", name), checkText("owner id", r.owner), checkText("metadata", r.metadata))
}

// with returns the request with the options applied. The result is on the heap, because the options get its address.
func (r request) with(opts []LockOption) (request, error) {
	for _, opt := range opts {
		if opt == nil {
			return r, invalid("nil lock option")
		}
		opt.applyLock(&r)
	}
	return r, nil
}

// checkTTL checks a TTL, and returns it as it is sent, in whole milliseconds.
func (c *config) checkTTL(ttl, grace time.Duration) (time.Duration, error) {
	whole := ttl.Truncate(time.Millisecond)
	// most is the most that may be subtracted from the TTL. A lock is renewed after a third of the TTL, and a validity
	// below that is hardly ever granted.
	most := whole - whole/3
	switch {
	case ttl < minTTL:
		return 0, invalid("TTL %s: must be at least %s", ttl, minTTL)
	case ttl > c.maxTTL:
		return 0, invalid("TTL %s: must be at most %s (%s)", ttl, c.maxTTL, c.maxTTLBy)
	// A difference cannot overflow, as the sum could.
	case quorum.Drift{Factor: c.settings.Drift.Factor}.Of(whole) >= most-c.settings.Drift.Floor:
		return 0, invalid(
			"TTL %s: the allowance for clock drift, %v x TTL + %s, must leave more than a third of it (WithDrift)",
			ttl, c.settings.Drift.Factor, c.settings.Drift.Floor)
	case grace < 0 || grace > whole/2 || grace >= most-c.settings.Drift.Of(whole):
		return 0, invalid(
			"Grace(%s): must be from 0 to half of the TTL, %s, and leave more than a third of it beside the allowance for drift",
			grace, ttl)
	}
	return whole, nil
}
