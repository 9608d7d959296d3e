package form

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Acquire sets key to token with a TTL if the key does not exist: SET NX PX. The TTL is sent in whole milliseconds,
// rounded down.
func Acquire(key, token string, ttl time.Duration) *wire.Command {
	c := &wire.Command{Key: key, Token: token, Parse: parseAcquire, Votes: true, Changes: true}
	return c.With("SET", key, token, "NX", "PX", millis(ttl))
}

func parseAcquire(v *wire.Value) wire.Reply {
	switch {
	case v.Kind == '_':
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrHeld}
	case v.IsOK():
		return wire.Reply{Answer: quorum.Yes}
	}
	return wire.Unexpected(v)
}

// Release deletes key if it holds token.
//
// If its connection breaks before the answer, it is sent again on the next one, for redeliver. That is the longest TTL that
// an acquire or an extension before it may have given to the key.
func Release(key, token string, redeliver time.Duration) *wire.Command {
	c := &wire.Command{
		Script: releaseScript, Key: key, Token: token, Parse: parseRelease,
		CleansUp: true, Redeliver: redeliver, Changes: true, NeedsToken: true,
	}
	return c.With(token)
}

// Extend gives key the TTL ttl if it holds token and has less left, or no TTL at all. A key that does not exist is set
// to token with that TTL, and the answer is Recreated.
func Extend(key, token string, ttl time.Duration) *wire.Command {
	c := &wire.Command{
		Script: extendScript, Key: key, Token: token, Parse: parseExtend, Creates: true, Changes: true, NeedsToken: true,
	}
	return c.With(token, millis(ttl))
}

// Delete deletes key if it holds value. Unlike a [Release] it is not sent after its timeout, nor again: a value that another
// client chose may be that of its next lock, too.
func Delete(key, value string) *wire.Command {
	c := &wire.Command{Script: releaseScript, Key: key, Token: value, Parse: parseRelease, Changes: true, NeedsToken: true}
	return c.With(value)
}
