package form

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

const (
	// maxNumber is above all numbers of counters. Scripts count in floating-point numbers, which are exact below 2^53.
	maxNumber = 1 << 53
	// DefaultKeep is for how long counters are kept by default. fenced_acquire.lua knows it too.
	DefaultKeep = 2 * time.Hour
	// MaxBlock is how many numbers an acquire may ask for at most. Servers refuse more, so that a mistake of the caller does not
	// run a counter up.
	MaxBlock = quorum.MaxBlock
)

// Counter is what a fenced acquire asks of the counter of its name, the source of fencing tokens. It is the key
// {key}:fence.
type Counter struct {
	// Keep is for how long the counter is kept beyond the TTL of the lock, from when it advanced last.
	Keep time.Duration
	// Now is the caller's estimate of the time, in microseconds since 1970. A counter that is missing, or more than a second
	// behind, advances: to Now if the server's clock is within a second of it, otherwise to that clock.
	Now uint64
	// Advance makes the counter advance even if it does not seem to be behind.
	Advance bool
	// Floor is an exclusive lower bound of the numbers that are granted; 0 means none.
	Floor uint64
	// Block is how many numbers are granted, MaxBlock at most; 0 means one.
	Block uint64
}

// AcquireFenced sets key, if it does not exist, to token, | and the last number of the next block of its counter, with a TTL.
// That number is in [wire.Reply.Number]. The block is above all numbers that the counter has granted before, or been raised to.
func AcquireFenced(key, token string, ttl time.Duration, counter Counter) *wire.Command {
	c := &wire.Command{
		Script: fencedAcquireScript, Key: key, Second: counterOf(key), Token: token, Parse: parseNumber, Join: joined,
		Votes: true, Creates: true, Changes: true,
	}
	c.With(token, millis(ttl), decimal(counter.Now))
	advance, block := counter.Advance || counter.Floor > 0, counter.Block > 1
	if counter.Keep != DefaultKeep || advance || block {
		c.Args = append(c.Args, millis(counter.Keep))
	}
	switch {
	case advance:
		c.Args = append(c.Args, decimal(counter.Floor))
	case block:
		c.Args = append(c.Args, "")
	}
	if block {
		c.Args = append(c.Args, decimal(counter.Block))
	}
	return c
}

func parseNumber(v *wire.Value) wire.Reply {
	switch {
	case v.Kind == '_':
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrHeld}
	case v.Kind == ':' && v.Num > 0 && v.Num < maxNumber:
		return wire.Reply{Answer: quorum.Yes, Number: uint64(v.Num)}
	}
	return wire.Unexpected(v)
}

// Raise replaces the number granted by number if key still holds token with granted, and raises the counter to it.
func Raise(key, token string, granted, number uint64) *wire.Command {
	c := &wire.Command{Script: raiseScript, Key: key, Second: counterOf(key), Token: token, Parse: parseCode}
	return c.With(fenced(token, granted), fenced(token, number), decimal(number))
}

// ReleaseFenced is [Release] for a key that AcquireFenced has set. It raises the counter to number.
func ReleaseFenced(key, token string, number uint64, redeliver time.Duration) *wire.Command {
	c := &wire.Command{
		Script: fencedReleaseScript, Key: key, Second: counterOf(key), Token: token, Parse: parseRelease, Join: joined,
		CleansUp: true, Redeliver: redeliver, Changes: true, NeedsToken: true,
	}
	return c.With(fenced(token, number))
}

// ExtendFenced is [Extend] for a key that AcquireFenced has set. It raises the counter to number. keep is as in
// [Counter].
func ExtendFenced(key, token string, number uint64, ttl, keep time.Duration) *wire.Command {
	c := &wire.Command{
		Script: fencedExtendScript, Key: key, Second: counterOf(key), Token: token, Parse: parseFencedExtend,
		Creates: true, Changes: true, NeedsToken: true,
	}
	return c.With(token, decimal(number), millis(ttl), millis(keep))
}

func parseFencedExtend(v *wire.Value) wire.Reply {
	if v.Kind == ':' && v.Num == -4 {
		return wire.Reply{Answer: quorum.No, Err: errNoCounter}
	}
	return parseExtend(v)
}

var errNoCounter = fmt.Errorf("%w, and is not re-created, as its fence counter is another program's: %w", nodeerr.ErrAbsent, nodeerr.ErrForeign)

// DeleteFenced deletes key if it holds token with a number, which may have been raised since the number given was observed.
func DeleteFenced(key, token string, number uint64) *wire.Command {
	c := &wire.Command{
		Script: fencedReleaseScript, Key: key, Second: counterOf(key), Token: token, Parse: parseRelease, Changes: true, NeedsToken: true,
	}
	return c.With(fenced(token, number))
}

// joined has fenced acquires and releases carried out together. No acquire is joined behind a leading release: Redis skips the
// out-of-memory check after a script's first write.
var joined = &wire.Joiner{
	Script: joinedScript,
	Fits:   func(first, next *wire.Command) bool { return first.Votes || !next.Votes },
	Words:  joinedWords,
}

func joinedWords(words []string, run []*wire.Command) []string {
	words = append(words, strconv.Itoa(2*len(run)))
	times := []string{"", ""} // the TTL and the time, which are usually the same for all acquires
	if run[0].Votes {
		times = run[0].Args[1:3]
	}
	forms := make([]byte, 0, 64)
	for _, c := range run {
		words = append(words, c.Key, c.Second)
		switch {
		case c.CleansUp:
			forms = append(forms, 'r')
		case slices.Equal(c.Args[1:], times): // and no argument more
			forms = append(forms, 's')
		default:
			forms = append(forms, '0'+byte(len(c.Args)))
		}
	}
	words = append(words, string(forms), times[0], times[1])
	for i, c := range run {
		args := c.Args
		if forms[i] == 's' {
			args = args[:1]
		}
		words = append(words, args...)
	}
	return words
}

// The key of a counter is that of its lock between these. It is in the same hash slot unless the key has a hash tag.
const beforeKey, behindKey = "{", "}:fence"

func counterOf(key string) string { return beforeKey + key + behindKey }

// IsCounter reports whether a key has the form of a counter's. No lock may have such a key.
func IsCounter(key string) bool {
	return strings.HasPrefix(key, beforeKey) && strings.HasSuffix(key, behindKey)
}

// fenced is what a key holds that was set with fencing.
func fenced(token string, number uint64) string { return token + "|" + decimal(number) }
