package redlock

import "time"

// TTL sets how long a lock lives: 10 s by default, in whole milliseconds; a fraction is cut off. The range is from 1 ms to 24 h
// ([WithMaxTTL]). The allowance for drift must leave more than a third of it ([WithDrift]), so with the default one the least is 4 ms.
func TTL(ttl time.Duration) DefaultOption {
	return defaultOption(func(r *request) { r.TTL = ttl })
}

// AutoExtend renews the lock while it is held, after 0.1 s at the latest and then each time that a third of its TTL has gone by,
// until Unlock, Detach, its loss, [MaxHold] or Locker.Close. A failed renewal is tried again while validity is left. A renewal
// re-creates the key on nodes that have lost it; another follows 0.1 s later, from which on these nodes count again.
//
// A lock that the nodes lose is [ErrLost] within about a round trip if they announce that, else at the next renewal (docs/safety.md).
//
// A holder that hangs keeps such a lock for ever: see MaxHold.
func AutoExtend() LockOption {
	return lockOption(func(r *request) { r.Renewed = true })
}

// Grace makes the deadline of the lock d earlier, so that its holder has time to stop before another can begin. [Lock.Done], and the
// contexts of [Locker.Do] and [Lock.Context], end then, unless the lock is renewed or extended before. Err is [ErrExpired] from then
// on, and the lock can no longer be extended.
//
// The nodes keep the key for d more. In this time nobody else can have the lock, as long as no node forgets it, so an Unlock succeeds
// as before the deadline, and Do adds no error if its function returns. A lock that is found lost ([ErrLost]) ends at once.
//
// The default is 0. d must not be below zero, nor above half of the TTL, and must leave more than a third of the TTL beside the allowance
// for drift. It shortens the time in which a renewal may be repeated
// while nodes fail: with a d of half the TTL that is a sixth of the TTL.
func Grace(d time.Duration) DefaultOption {
	return defaultOption(func(r *request) { r.Grace, r.given = d, r.given|givenGrace })
}

// MaxHold limits [AutoExtend]: no renewal moves the end of the lock beyond d after its acquire began. [Lock.Extend] is not limited.
// The default is [NoLimit]. d must not be below the lock's TTL. For a call without AutoExtend, Do or TryDo the option is
// [ErrInvalid].
func MaxHold(d time.Duration) DefaultOption {
	return defaultOption(func(r *request) { r.MaxHold, r.given = d, r.given|givenMaxHold })
}

// MaxWait limits how long Lock and Do wait for the lock. After d they return the reason of the last round, [ErrTaken] or
// [ErrNoQuorum], in a [*QuorumError]; that matches no error of package context, as no context has ended. Unlike a deadline of
// the context, it does not bound the function of Do.
//
// 0 tries once, like [Locker.TryLock]. The default is [NoLimit]: only the context limits the wait. d must not be below zero. For
// TryLock, TryDo and Attach, which do not wait, the option is [ErrInvalid].
func MaxWait(d time.Duration) DefaultOption {
	return defaultOption(func(r *request) { r.maxWait, r.given = d, r.given|givenMaxWait })
}

// MaxOutage limits for how long Lock and Do wait while no majority of the nodes can be reached. It is for calls that may wait for a
// holder for long, and for servers only for d. After d without a majority, as the rounds of this Locker have shown since the call
// began, the error is [ErrNoQuorum] in a [*QuorumError]. A round that reaches a majority begins the time again. A call that waits
// behind a holder of the same Locker asks no node.
//
// 0 means that the first round without a majority ends the wait. The default is [NoLimit]. d must not be below zero. For TryLock,
// TryDo and Attach, which do not wait, the option is [ErrInvalid].
func MaxOutage(d time.Duration) DefaultOption {
	return defaultOption(func(r *request) { r.maxOutage, r.given = d, r.given|givenMaxOutage })
}

// Reentrant lets the holder of a lock take it again. The holder is recognised by its context, if that comes from
// [Lock.Context] or [Locker.Do], or by [Owner], and only by the Locker that the lock is of. If the caller does not hold the lock, the
// option changes nothing.
//
// The call returns another handle on the same lock. It extends the lock as [Lock.Extend] does with the TTL of the call, and fails as
// that does, without a wait; the lock stands then as before. The lock keeps its token, Metadata and Grace; a longer Grace is
// [ErrInvalid]. AutoExtend of a handle ends with its Unlock. The last of the handles releases the lock.
//
// Without this option such a call returns [ErrDeadlock].
func Reentrant() LockOption {
	return lockOption(func(r *request) { r.reentrant = true })
}

// Owner names the owner of the lock, for code that cannot pass a context from one call to the next: a call with the same id
// on the same Locker belongs to the same owner ([Reentrant]). To take up a lock in another process, use
// [Locker.Attach]. An id has from 1 to 512 bytes and no control characters.
func Owner(id string) LockOption {
	return lockOption(func(r *request) { r.owner, r.given = id, r.given|givenOwner })
}

// Metadata stores a text with the lock for [Locker.Inspect] to show, for example who holds it and what for. The text becomes
// part of the token, and so of every command. It has at most 256 bytes, no | and no control characters. There is none by default.
func Metadata(text string) DefaultOption {
	return defaultOption(func(r *request) { r.metadata, r.given = text, r.given|givenMetadata })
}

// TokenSource sets the function that makes tokens, for callers that choose them. The default, also if source is nil, is a random
// token. source is called before each round of a call, by its goroutine; as a default of the Locker by several at once. A slow source
// delays other calls for the name in this Locker. If it returns an error, the call returns that.
//
// A source must not return the token of another lock. The release of a round that was refused goes to the nodes that have not answered,
// where it would delete the key of the other. A node that has answered tells the caller (nodeerr.ErrOwnToken). A token has from 1 to 512 bytes, no | and no control characters. Any other is [ErrInvalid], and so is the one
// that the call had in the round before. A lock with such a token is not handed off ([WithLocalHandoff]). [Metadata] beside it is
// ErrInvalid. Processes whose tokens come from a source take no turns, as they do not recognise each other.
func TokenSource(source func() (string, error)) DefaultOption {
	return defaultOption(func(r *request) { r.source, r.given = source, r.given|givenTokenSource })
}
