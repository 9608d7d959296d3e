package pool

import (
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/lua"
)

// maxNumber is above all numbers of counters: the servers' scripts count in floating-point numbers, which are exact
// below 2^53.
const maxNumber = 1 << 53

// DefaultKeep is for how long counters are kept as a rule.
const DefaultKeep = 24 * time.Hour

// Counter is what a node is told of the counter of a name, from which fencing tokens come. It is another key,
// {key}:fence.
type Counter struct {
	// Keep is for how long it is kept beyond the TTL that a lock is given, from when it went forward last.
	Keep time.Duration
	// Now is the time by the caller's reckoning, in microseconds since 1970. A counter that lies more than a second behind it
	// goes forward, as one does that is missing: to Now, if the server's clock is within a second of it, else to that clock.
	Now uint64
	// Forward makes it go forward even if it does not seem to lie behind.
	Forward bool
	// Floor is what the number granted is to be above of in any case; 0: nothing.
	Floor uint64
}

// AcquireFenced sets key, if it does not exist, to token, | and the next number of its counter, with a TTL. The number
// is in [Reply.Number].
func AcquireFenced(key, token string, ttl time.Duration, counter Counter) *Command {
	c := newCommand(grant, lua.FencedAcquire(), key, token, token, millis(ttl), decimal(counter.Now))
	forward := counter.Forward || counter.Floor > 0
	if counter.Keep != DefaultKeep || forward {
		c.args = append(c.args, millis(counter.Keep))
	}
	if forward {
		c.args = append(c.args, decimal(counter.Floor))
	}
	return c.counted()
}

// Raise puts number in the place of granted, where that is what key holds with token, and raises the counter to it,
// unless that is not there any more.
func Raise(key, token string, granted, number uint64) *Command {
	return newCommand(raise, lua.Raise(), key, token, fenced(token, granted), fenced(token, number), decimal(number)).counted()
}

// ReleaseFenced is [Release] for a key that [AcquireFenced] has set. It raises the counter to number, if that is not 0.
func ReleaseFenced(key, token string, number uint64, owed time.Duration) *Command {
	c := newCommand(release, lua.FencedRelease(), key, token, fenced(token, number))
	c.owed = owed
	return c.counted()
}

// ExtendFenced is [Extend] for a key that AcquireFenced has set. It raises the counter to number; keep is as in [Counter].
func ExtendFenced(key, token string, number uint64, ttl, keep time.Duration) *Command {
	return newCommand(extend, lua.FencedExtend(), key, token, token, decimal(number), millis(ttl), "plant", millis(keep)).counted()
}

// RestoreFenced is [Restore] for a key that AcquireFenced has set; it does the same to the counter as ExtendFenced.
func RestoreFenced(key, token string, number uint64, ttl, keep time.Duration) *Command {
	return newCommand(restore, lua.FencedExtend(), key, token, token, decimal(number), millisUp(ttl), "exact", millis(keep)).counted()
}

// counted gives the command the counter of its key: another key, in the same hash slot unless the key has a hash tag of its own.
func (c *Command) counted() *Command {
	c.counter = "{" + c.key + "}:fence"
	return c
}

// fenced is what a key holds that was set with fencing.
func fenced(token string, number uint64) string { return token + "|" + decimal(number) }

func decimal(number uint64) string { return strconv.FormatUint(number, 10) }
