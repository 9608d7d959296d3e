package redlock

import (
	"cmp"
	"strings"
	"time"
	"unicode"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

const (
	maxNameBytes     = 512
	maxMetadataBytes = 256
)

// LockOption changes one lock. The call reports one that is out of range.
type LockOption interface{ applyLock(*request) }

type lockOption func(*request)

func (f lockOption) applyLock(r *request) { f(r) }

// request is what one call asks for.
type request struct {
	name       string
	key        string
	ttl        time.Duration
	maxHold    time.Duration
	waits      bool // MaxWait was given
	maxWait    time.Duration
	endures    bool // MaxOutage was given
	maxOutage  time.Duration
	autoExtend bool
	reentrant  bool
	owned      bool // Owner was given
	owner      string
	metadata   string
	block      uint64 // how many fencing tokens the round asks for; 0 means one
	call       *call  // nil if nobody observes
}

// TTL sets how long this lock lives, see [WithTTL].
func TTL(ttl time.Duration) LockOption {
	return lockOption(func(r *request) { r.ttl = ttl })
}

// AutoExtend renews the lock while it is held, after 0.1 s at the latest and then each time that a third of its TTL has gone by,
// until Unlock, Detach, its loss, [MaxHold] or Locker.Close. A failed renewal is tried again while validity is left. A renewal
// re-creates the key on nodes that have lost it; another follows 0.1 s later, from which on these nodes count again.
//
// From the first renewal on the nodes announce changes of the key, if they can (CLIENT TRACKING). So a lock that is deleted
// on so many nodes that no majority is left is lost ([ErrLost]) within about a round trip, and not only at the next
// renewal. After four such changes of a key on a node the next renewal has to find it.
//
// A holder that hangs keeps such a lock for ever: see MaxHold.
func AutoExtend() LockOption {
	return lockOption(func(r *request) { r.autoExtend = true })
}

// MaxHold limits [AutoExtend]: the lock expires d after the caller got it, at the latest. The default is 0, which means no
// limit. Any other d must not be below the lock's TTL, and needs AutoExtend, Do or TryDo.
func MaxHold(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.maxHold = d })
}

// MaxWait limits how long Lock and Do wait for the lock. After d they return the reason of the last round, [ErrTaken] or
// [ErrNoQuorum], in a [*QuorumError]; that matches no error of package context, as no context has ended. Unlike a deadline of
// the context, it does not bound the function of Do.
//
// 0 tries once, like [Locker.TryLock]. Without the option there is no limit but the context. d must not be below zero. For TryLock,
// TryDo and Attach, which do not wait, the option is [ErrInvalid].
func MaxWait(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.maxWait, r.waits = d, true })
}

// MaxOutage limits for how long Lock and Do wait while no majority of the nodes can be reached, for a program that would rather
// fail than wait for servers, and wait for a holder. After d without a majority, as the rounds of this Locker have shown since the
// call began, the error is [ErrNoQuorum] in a [*QuorumError]; a round that reaches a majority begins the time anew.
//
// 0 means that the first round without a majority ends the wait. Without the option there is no limit. d must not be below zero.
// For TryLock, TryDo and Attach, which do not wait, the option is [ErrInvalid].
func MaxOutage(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.maxOutage, r.endures = d, true })
}

// Reentrant lets the holder of a lock take it again. The holder is recognised by its context, if that comes from
// [Lock.Context] or [Locker.Do], or by [Owner]. The call returns another handle on the same lock, and extends the lock by its
// TTL; the last of the handles releases the lock. If the caller does not hold the lock, the option changes nothing.
//
// Without this option such a call returns [ErrDeadlock].
func Reentrant() LockOption {
	return lockOption(func(r *request) { r.reentrant = true })
}

// Owner names the owner of the lock, for code that cannot pass a context from one call to the next: a call with the same id
// on the same Locker belongs to the same owner ([Reentrant]). To take up a lock in another process, use
// [Locker.Attach]. An id has from 1 to 512 bytes and no control characters.
func Owner(id string) LockOption {
	return lockOption(func(r *request) { r.owner, r.owned = id, true })
}

// Metadata stores a text with the lock for [Locker.Inspect] to show, for example who holds it and what for. The text becomes
// part of the token, and so of every command. It has at most 256 bytes, no | and no control characters. There is none by default.
func Metadata(text string) LockOption {
	return lockOption(func(r *request) { r.metadata = text })
}

// request checks a call's arguments before anything is sent.
func (c *config) request(name string, opts []LockOption) (r request, err error) {
	r = request{name: name, key: c.prefix + name, ttl: c.ttl}
	if len(opts) > 0 {
		if r, err = r.with(opts); err != nil {
			return r, err
		}
	}
	if r.ttl, err = c.checkTTL(r.ttl); err != nil {
		return r, err
	}
	switch {
	case name == "":
		return r, invalid("the name is empty")
	case node.IsCounter(r.key):
		return r, invalid("the name %q: the key %q is that of a counter of fencing tokens, not of a lock", name, r.key)
	case r.owned && r.owner == "":
		return r, invalid("Owner: the id is empty")
	case len(r.metadata) > maxMetadataBytes:
		return r, invalid("Metadata(%.32q...): %d bytes, at most %d", r.metadata, len(r.metadata), maxMetadataBytes)
	case strings.Contains(r.metadata, "|"):
		return r, invalid("Metadata(%q): must not contain |, which separates the fencing token", r.metadata)
	case r.maxWait < 0:
		return r, invalid("MaxWait(%s): must not be below zero", r.maxWait)
	case r.maxOutage < 0:
		return r, invalid("MaxOutage(%s): must not be below zero", r.maxOutage)
	case r.maxHold < 0:
		return r, invalid("MaxHold(%s): must not be below zero", r.maxHold)
	case r.maxHold > 0 && !r.autoExtend:
		return r, invalid("MaxHold(%s) without AutoExtend: the lock ends at its TTL anyway", r.maxHold)
	case r.maxHold > 0 && r.maxHold < r.ttl:
		return r, invalid("MaxHold(%s): below the TTL, %s", r.maxHold, r.ttl)
	}
	return r, cmp.Or(checkText("name", name), checkText("owner id", r.owner), checkText("metadata", r.metadata))
}

// with returns the request with options applied. It is on the heap then, as the options are given its address.
func (r request) with(opts []LockOption) (request, error) {
	for _, opt := range opts {
		if opt == nil {
			return r, invalid("nil lock option")
		}
		opt.applyLock(&r)
	}
	return r, nil
}

// checkTTL returns a TTL as it goes over the wire, in whole milliseconds.
func (c *config) checkTTL(ttl time.Duration) (time.Duration, error) {
	whole := ttl.Truncate(time.Millisecond)
	switch {
	case ttl < minTTL:
		return 0, invalid("TTL %s: must be at least %s", ttl, minTTL)
	case ttl > c.maxTTL:
		return 0, invalid("TTL %s: must be at most %s (%s)", ttl, c.maxTTL, c.maxTTLBy)
	case quorum.Drift{Factor: c.drift.Factor}.Of(whole) >= whole-c.drift.Floor: // a difference cannot overflow
		return 0, invalid("TTL %s: the allowance for clock drift, %v x TTL + %s, leaves nothing of it (WithDrift)",
			ttl, c.drift.Factor, c.drift.Floor)
	}
	return whole, nil
}

// checkText refuses text that Redis accepts in a key but that is a mistake: too long, or with control characters.
func checkText(what, text string) error {
	if len(text) > maxNameBytes {
		return invalid("the %s %.32q... has %d bytes: at most %d, since every command carries it", what, text, len(text), maxNameBytes)
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return invalid("the %s %q has the control character %q at byte %d: logs and tools would show another name", what, text, r, i)
		}
	}
	return nil
}
