package form

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

const (
	// maxNumber is greater than every number of a counter. Scripts count in floating-point numbers, which are exact below
	// 2^53.
	maxNumber = 1 << 53
	// DefaultKeep is how long counters are kept by default. fenced_acquire.lua knows it too.
	DefaultKeep = 2 * time.Hour
	// MinKeep is how long counters are kept, at least.
	MinKeep = time.Minute
	// MaxBlock is how many numbers an acquire may ask for, at most. Servers refuse more, so that a mistake of the caller
	// does not raise a counter too far.
	MaxBlock = quorum.MaxBlock
)

// Fenced is the lock with fencing tokens. Its key holds the token, | and a number. The number comes from a counter of
// the name, the key {key}:fence. A Fenced must not be copied.
type Fenced struct {
	text

	// Keep is how long counters are kept beyond the TTL of a lock, from their last advance on.
	Keep  time.Duration
	clock atomic.Pointer[quorum.CounterClock]
}

const (
	// longTTL is the longest TTL of a lock that leaves the TTL of its counter alone. A lock with a longer TTL makes the
	// counter advance at each acquire, so that the counter is kept for longer. longTTL is half of the shortest Keep.
	longTTL = MinKeep / 2
	// coarse is the unit of the estimate that is sent to the nodes, in microseconds. Rounds that begin at about the same
	// time send the same estimate.
	coarse = 50_000
	// leastTime is the least estimate. It is more than a second later than the first number that a missing counter grants.
	leastTime = 2_000_000
)

// Prepare adds the estimate of the time to the request, and decides whether counters advance. It implements [Numbered].
func (f *Fenced) Prepare(a *Ask, now time.Time, wall func() time.Time) {
	estimate, known := int64(0), false
	if c := f.clock.Load(); c != nil {
		estimate, known = c.Estimate(now)
	}
	if !known {
		estimate = wall().UnixMicro()
	}
	estimate -= estimate % coarse
	a.Time, a.Advance = uint64(max(leastTime, estimate)), !known || a.TTL > min(longTTL, f.Keep/2)
}

// Won corrects the estimate of the time. It implements [Numbered]. The first number of the block counts, so that blocks
// do not drive the estimate ahead of the clocks.
func (f *Fenced) Won(now time.Time, a Ask, number uint64) {
	for {
		before, known := f.clock.Load(), quorum.CounterClock{}
		if before != nil {
			known = *before
		}
		learnt := known
		learnt.Learn(now, a.Time, number-max(1, a.Block)+1)
		if learnt == known { // as a rule: nothing is allocated then
			return
		}
		if next := learnt; f.clock.CompareAndSwap(before, &next) {
			return
		}
	}
}

// Acquire runs fenced_acquire.lua, which takes the next block of the counter. It implements [Form]. The key then holds
// the last number of the block, which is also in [wire.Reply.Fence]. The block is above all numbers that the counter
// has granted, or been raised to, before.
func (f *Fenced) Acquire(c *wire.Command, id ID, a Ask) {
	*c = wire.Command{
		Class: wire.Vote, Script: fencedAcquireScript, Proof: firstFencedAcquireScript,
		Key: id.Key, Second: counterOf(id.Key), Token: id.Token, Parse: parseNumber, Join: joined,
	}
	c.With(id.Token, millis(a.TTL), decimal(a.Time))
	advance, block := a.Advance || a.Floor > 0, a.Block > 1
	if f.Keep != DefaultKeep || advance || block {
		c.Args = append(c.Args, millis(f.Keep))
	}
	switch {
	case advance:
		c.Args = append(c.Args, decimal(a.Floor))
	case block:
		c.Args = append(c.Args, "")
	}
	if block {
		c.Args = append(c.Args, decimal(a.Block))
	}
}

// parseNumber parses the reply of fenced_acquire.lua: the number that was granted, or null if the key exists.
func parseNumber(v *wire.Value) wire.Reply {
	switch {
	case v.Kind == '_':
		return wire.Reply{Answer: quorum.No, Err: nodeerr.ErrHeld}
	case v.Kind == ':' && v.Num > 0 && v.Num < maxNumber:
		return wire.Reply{Answer: quorum.Yes, Fence: uint64(v.Num)}
	}
	return wire.Unexpected(v)
}

// Raise runs raise.lua, which raises the counter too. It implements [Numbered].
func (f *Fenced) Raise(c *wire.Command, id ID, granted, number uint64) {
	*c = wire.Command{
		Class: wire.Own, Script: raiseScript, Key: id.Key, Second: counterOf(id.Key), Token: id.Token, Parse: parseCode,
	}
	c.With(fenced(id.Token, granted), fenced(id.Token, number), decimal(number))
}

// Extend runs fenced_extend.lua, which raises the counter to the number. It implements [Form].
func (f *Fenced) Extend(c *wire.Command, id ID, ttl time.Duration) {
	*c = wire.Command{
		Class: wire.Extend, Script: fencedExtendScript, Key: id.Key, Second: counterOf(id.Key), Token: id.Token,
		Parse: parseFencedExtend,
	}
	c.With(id.Token, decimal(id.Number), millis(ttl), millis(f.Keep))
}

// Release runs fenced_release.lua, which raises a counter that has not reached the number. It implements [Form].
func (f *Fenced) Release(c *wire.Command, id ID, redeliver time.Duration) {
	removeFenced(c, id)
	c.Class, c.Redeliver, c.Join = wire.CleanUp, redeliver, joined
}

// Remove implements [Form]. It also deletes a key whose number has changed: the holder may have raised the number since
// it was seen.
func (f *Fenced) Remove(c *wire.Command, key string, seen Observation) {
	if seen.Fence == 0 {
		remove(c, key, seen.Value)
		return
	}
	removeFenced(c, ID{Key: key, Token: seen.Token, Number: seen.Fence})
}

// removeFenced deletes a key that holds a token with a number.
func removeFenced(c *wire.Command, id ID) {
	*c = wire.Command{
		Class: wire.Remove, Script: fencedReleaseScript, Key: id.Key, Second: counterOf(id.Key), Token: id.Token,
		Parse: parseRelease,
	}
	c.With(fenced(id.Token, id.Number))
}

// Shows returns the observation, with the number behind the token. It implements [Form].
func (f *Fenced) Shows(r *wire.Reply) Observation { return observation(r, true) }

// joined lets one call of a script carry out several fenced acquires and releases.
var joined = &wire.Joiner{Script: joinedScript, Words: joinedWords}

// joinedWords appends the keys and arguments of joined.lua for the commands of a run.
func joinedWords(words []string, run []*wire.Command) []string {
	words = append(words, strconv.Itoa(2*len(run)))
	times := []string{"", ""} // the TTL and the time, which are usually the same for all acquires
	if run[0].Votes() {
		times = run[0].Args[1:3]
	}
	forms := make([]byte, 0, 64)
	for _, c := range run {
		words = append(words, c.Key, c.Second)
		switch {
		case c.CleansUp():
			forms = append(forms, 'r')
		case slices.Equal(c.Args[1:], times): // the command has no other argument
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

// A companion key of a lock is beforeKey, the key of the lock, and one of the other strings. It is in the hash slot of
// the key, unless the key has a hash tag.
const (
	beforeKey     = "{"
	behindCounter = "}:fence"
	behindSharers = "}:sharers"
	behindWanted  = "}:wanted"
	behindSlots   = "}:slots"
)

func companion(key, behind string) string { return beforeKey + key + behind }

func counterOf(key string) string { return companion(key, behindCounter) }

// SharersKey returns the key of the tokens that share a key. The score of a token is when it ends, see [Shared].
func SharersKey(key string) string { return companion(key, behindSharers) }

// SlotsKey returns the key of the slots of these tokens.
func SlotsKey(key string) string { return companion(key, behindSlots) }

// Reserved reports whether a key has the form of a companion key, such as a counter, or of the stamp of a node. No lock
// may have such a key.
func Reserved(key string) bool {
	return strings.HasPrefix(key, wire.StampKey("")) || strings.HasPrefix(key, beforeKey) &&
		slices.ContainsFunc([]string{behindCounter, behindSharers, behindWanted, behindSlots},
			func(end string) bool { return strings.HasSuffix(key, end) })
}

// fenced returns the value of a key that was set with fencing.
func fenced(token string, number uint64) string { return token + "|" + decimal(number) }
