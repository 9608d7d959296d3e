package redlock

import "time"

// TTL sets how long a lock lives if it is not extended: 10 s by default, from 1 ms to 24 h ([WithMaxTTL]), in whole
// milliseconds.
func TTL(ttl time.Duration) LockOption {
	return lockOption(func(r *request) { r.TTL = ttl })
}

// RenewFor renews the lock: after 0.1 s at the latest, then after each third of the TTL. No renewal moves the deadline
// past d after the acquire began. The default is NoLimit for calls with a function, and 0, none, for the others. A loss
// is noticed at the next renewal, or at once if nodes announce it.
func RenewFor(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.renewFor, r.renewSet = d, true })
}

// Grace moves the deadline d earlier, so the holder can stop before another begins. The nodes keep the key for d
// more, in which an Unlock succeeds. The default is 0, the most half of the TTL. Failed renewals have less time: 2 s
// instead of 8 s with a TTL of 12 s and a grace of 6 s.
func Grace(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.Grace, r.given = d, r.given|givenGrace })
}

// MaxWait limits how long Lock and Do wait for the lock. After d the error is the last reason, [ErrTaken] or
// [ErrNoQuorum], and no context error. 0 does not wait. The default is NoLimit.
func MaxWait(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.maxWait, r.given = d, r.given|givenMaxWait })
}

// MaxOutage limits how long Lock and Do wait without a majority that answers. Then the error is [ErrNoQuorum]. A
// majority that answers begins the time again. 0 waits for no outage. The default is NoLimit.
func MaxOutage(d time.Duration) LockOption {
	return lockOption(func(r *request) { r.maxOutage, r.given = d, r.given|givenMaxOutage })
}

// Reentrant lets the holder take its lock again, instead of [ErrDeadlock]. The call returns another handle, and extends
// the lock by its TTL like [Lock.Extend], whose errors it returns. The holder is known by the context of Do or
// [Lock.Context], or by [Owner]. The last Unlock releases the lock.
func Reentrant() LockOption {
	return callOption{func(r *request) { r.reentrant = true }, "Reentrant"}
}

// Owner names the caller for [Reentrant], for code that passes no context on. Calls with one id on one Locker have one
// owner. An id has 1 to 512 bytes and no control characters.
func Owner(id string) LockOption {
	return callOption{func(r *request) { r.owner, r.given = id, r.given|givenOwner }, "Owner"}
}

// Metadata stores a text with the lock, such as its holder, for [Locker.Inspect]. It is part of the token. It has at
// most 256 bytes, no | and no control characters. The default is "".
func Metadata(text string) LockOption {
	return lockOption(func(r *request) { r.metadata, r.given = text, r.given|givenMetadata })
}

// TokenSource sets the function that returns the token for each round; nil, the default, makes random ones. It must
// never repeat a token: that can delete the key of another lock. A token has 1 to 512 bytes, no | and no control
// characters, and leaves no place for Metadata.
func TokenSource(source func() (string, error)) LockOption {
	return lockOption(func(r *request) { r.source, r.given = source, r.given|givenTokenSource })
}
