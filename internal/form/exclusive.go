package form

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Exclusive is the plain lock: the key holds the token of the holder.
type Exclusive struct{ text }

// Acquire sends SET NX PX. It implements [Form].
func (Exclusive) Acquire(c *wire.Command, id ID, a Ask) {
	*c = wire.Command{Class: wire.Vote, Proof: firstAcquireScript, Key: id.Key, Token: id.Token, Parse: parseAcquire}
	c.With("SET", id.Key, id.Token, "NX", "PX", millis(a.TTL))
}

// parseAcquire parses the reply to SET NX PX.
func parseAcquire(v *wire.Value) wire.Reply {
	if v.Kind == '_' {
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrHeld}
	}
	return wire.YesIf(v.IsOK(), v)
}

// Extend runs extend.lua. It implements [Form].
func (Exclusive) Extend(c *wire.Command, id ID, ttl time.Duration) {
	*c = wire.Command{Class: wire.Extend, Script: extendScript, Key: id.Key, Token: id.Token, Parse: parseExtend}
	c.With(id.Token, millis(ttl))
}

// Release runs release.lua. It implements [Form].
func (Exclusive) Release(c *wire.Command, id ID, redeliver time.Duration) {
	remove(c, id.Key, id.Token)
	c.Class, c.Redeliver = wire.CleanUp, redeliver
}

// Remove runs release.lua with the value that was seen. It implements [Form].
func (Exclusive) Remove(c *wire.Command, key string, seen Observation) { remove(c, key, seen.Value) }

// remove deletes a key that holds a value.
func remove(c *wire.Command, key, value string) {
	*c = wire.Command{Class: wire.Remove, Script: releaseScript, Key: key, Token: value, Parse: parseRelease}
	c.With(value)
}

// Shows returns the observation of a key without a number. It implements [Form].
func (Exclusive) Shows(r *wire.Reply) Observation { return observation(r, false) }
