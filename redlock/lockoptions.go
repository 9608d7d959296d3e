package redlock

import "time"

// TTL sets how long a lock lives if it is not extended: 10 s by default. The range is from 1 ms to 24 h ([WithMaxTTL]),
// in whole milliseconds; a fraction is cut off. The allowance for drift must leave more than a third of the TTL
// ([WithDrift]). So with the default allowance the least TTL is 4 ms.
func TTL(ttl time.Duration) LockOption {
	return lockOption(func(r *request) { r.TTL = ttl })
}

// RenewFor renews the lock while it is held, so that a dead holder's lock ends soon though the work takes long. No
// renewal moves the deadline past d after the acquire began. A TTL that is longer than d stands. The default is
// [NoLimit] for Do, TryDo, DoAll and TryDoAll, and 0, which is no renewal, for the other calls. d must not be below
// zero.
//
// The first renewal comes after 0.1 s at the latest, and another each time that a third of the TTL has gone by.
// Renewals end with Unlock, Detach, the loss of the lock or Locker.Close. A failed renewal is tried again while
// validity is left. A renewal re-creates the key on nodes that have lost it. Another one follows 0.1 s later, and from
// then on these nodes count again. RenewFor does not limit [Lock.Extend].
//
// A lock that the nodes lose is [ErrGone] within about a round trip if they announce that, else at the next renewal
// (docs/safety.md).
//
// With NoLimit a holder that hangs keeps the lock until its process ends.
func RenewFor(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.renewFor, r.renewSet = d, true })
}

// Grace makes the deadline of the lock d earlier, so that its holder has time to stop before another can begin.
// [Lock.Done] and the contexts of [Locker.Do] and [Lock.Context] end at that deadline, unless the lock is renewed or
// extended before. From then on Err is [ErrExpired], and the lock can no longer be extended.
//
// The nodes keep the key for d more. In this time nobody else can have the lock, if no node forgets it. So an Unlock
// succeeds as before the deadline, and Do adds no error if its function returns. A lock that is found lost ([ErrGone])
// ends at once.
//
// The default is 0. d must not be below zero or above half of the TTL. It must also leave more than a third of the TTL
// beside the allowance for drift. d shortens the time in which a renewal may be repeated while nodes fail. With a d of
// half the TTL that time is a sixth of the TTL.
func Grace(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.Grace, r.given = d, r.given|givenGrace })
}

// MaxWait limits how long Lock and Do wait for the lock. After d they return the reason of the last round, [ErrTaken]
// or [ErrNoQuorum], in a [*QuorumError]. That matches no error of package context, because no context has ended. Unlike
// a deadline of the context, MaxWait does not limit the function of Do.
//
// 0 means that the call does not wait, like [Locker.TryLock]. The default is [NoLimit]: only the context limits the
// wait. d must not be below zero. For TryLock, TryDo and Attach, which do not wait, the option is [ErrInvalid].
func MaxWait(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.maxWait, r.given = d, r.given|givenMaxWait })
}

// MaxOutage limits how long Lock and Do wait while no majority of the nodes can be reached. It is for calls that may
// wait for a holder for long, but for servers only for d. After d without a majority the error is [ErrNoQuorum] in a
// [*QuorumError]. Only rounds of this Locker since the call began count. A round that reaches a majority begins the
// time again. A call that waits behind a holder of the same Locker asks no node.
//
// 0 means that the first round without a majority ends the wait. The default is [NoLimit]. d must not be below zero.
// For TryLock, TryDo and Attach, which do not wait, the option is [ErrInvalid].
func MaxOutage(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.maxOutage, r.given = d, r.given|givenMaxOutage })
}

// Reentrant lets the holder of a lock take it again. The Locker recognises the holder by its context, if that comes
// from [Lock.Context] or [Locker.Do], or by [Owner]. Only the Locker that took the lock recognises its holder. If the
// caller does not hold the lock, the option changes nothing.
//
// The call returns another handle on the same lock. It extends the lock with the TTL of the call, as [Lock.Extend]
// does. If that fails, the call returns its error without a wait, and the lock stands as before. The lock keeps its
// token, Metadata and Grace; a longer Grace is [ErrInvalid]. RenewFor of a handle ends with its Unlock. The Unlock of
// the last handle releases the lock.
//
// Without this option such a call returns [ErrDeadlock].
func Reentrant() LockOption {
	return callOption{func(r *request) { r.reentrant = true }, "Reentrant"}
}

// Owner names the owner of the lock, for code that cannot pass a context from one call to the next. A call with the
// same id on the same Locker belongs to the same owner ([Reentrant]). For a lock of another process, use
// [Locker.Attach]. An id has from 1 to 512 bytes and no control characters.
func Owner(id string) LockOption {
	return callOption{func(r *request) { r.owner, r.given = id, r.given|givenOwner }, "Owner"}
}

// Metadata stores a text with the lock, for example its holder and its purpose. [Locker.Inspect] shows it. The text
// becomes part of the token, and so of every command. It has at most 256 bytes, no | and no control characters. There
// is none by default.
func Metadata(text string) LockOption {
	return lockOption(func(r *request) { r.metadata, r.given = text, r.given|givenMetadata })
}

// TokenSource sets the function that makes tokens, for callers that choose them. By default, and if source is nil,
// tokens are random. The goroutine of a call calls source before each round. As a default of the Locker, several
// goroutines may call it at once. A slow source delays other calls for the name in this Locker. If source returns an
// error, the call returns that error.
//
// A source must not return the token of another lock. If a round is refused, its release goes to the nodes that have
// not answered. There it would delete the key of the other lock. A node that has answered tells the caller
// (nodeerr.ErrOwnToken).
//
// A token has from 1 to 512 bytes, no | and no control characters. Any other is [ErrInvalid], and so is the token that
// the call had in the round before. A lock with such a token is not handed off ([WithLocalHandoff]). [Metadata] beside
// a source is ErrInvalid. Processes whose tokens come from a source take no turns, because they do not recognise each
// other.
func TokenSource(source func() (string, error)) LockOption {
	return lockOption(func(r *request) { r.source, r.given = source, r.given|givenTokenSource })
}
