package node

import (
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Command is one command, ready to be sent to any number of nodes. It is not changed by sending.
type Command struct {
	kind    kind
	script  *Script // that it runs; nil if none
	key     string  // or the channel of a subscription
	counter string  // the second key of the script; "" if it has none
	token   string
	args    []string  // of the script; without a script all words
	room    [6]string // for args
	tracked bool      // the next change to key is pushed, if the node tracks keys
	// redeliver is for how long a release is worth sending after its connection broke.
	redeliver time.Duration
}

type kind uint8

const (
	acquire kind = iota
	fencedAcquire
	raise
	release
	extend
	deletion
	heal
	observe
	probe
	publish
	ping
	tracking
	subscription // its beginning or end
)

// newCommand makes a command that runs a script with arguments behind the key, or without a script one of these words.
func newCommand(k kind, script *Script, key, token string, args ...string) *Command {
	c := &Command{kind: k, script: script, key: key, token: token}
	c.args = append(c.room[:0], args...)
	return c
}

// Acquire sets key to token with a TTL if the key does not exist: SET NX PX. The TTL is sent in whole milliseconds,
// rounded down.
func Acquire(key, token string, ttl time.Duration) *Command {
	return newCommand(acquire, nil, key, token, "SET", key, token, "NX", "PX", millis(ttl))
}

// Release deletes key if it holds token.
//
// If its connection breaks before the answer, it is sent again on the next one, for redeliver. That is the longest TTL that
// an acquire or an extension before it may have given to the key.
func Release(key, token string, redeliver time.Duration) *Command {
	c := newCommand(release, releaseScript, key, token, token)
	c.redeliver = redeliver
	return c
}

// Extend gives key the TTL ttl if it holds token and has less left, or no TTL at all. A key that does not exist is set
// to token with that TTL, and the answer is Recreated.
func Extend(key, token string, ttl time.Duration) *Command {
	return newCommand(extend, extendScript, key, token, token, millis(ttl))
}

// Observe reads what key holds and its TTL, see [Reply]. It is Tracked.
func Observe(key string) *Command { return newCommand(observe, observeScript, key, "").Tracked() }

// ObserveMaster is Observe of a server that has to be a master: a replica, which holds what another node does, answers with
// the error of code READONLY. It is not Tracked. A server whose user may not use INFO counts as a master.
func ObserveMaster(key string) *Command { return newCommand(observe, observeScript, key, "", "master") }

// Tracked returns the command, an Observe or an extend, with the effect that the next change to the key after it is reported to the
// [Listener]s of a node that tracks keys, whether the key exists or not. The reply is Tracked then.
func (c *Command) Tracked() *Command {
	c.tracked = true
	return c
}

// Delete deletes key if it holds value. Unlike a [Release] it is not sent after its timeout, nor again: a value that another
// client chose may be that of its next lock, too.
func Delete(key, value string) *Command {
	return newCommand(deletion, releaseScript, key, value, value)
}

// DeleteFenced deletes key if it holds token with a number, which may have been raised since the number given was observed.
func DeleteFenced(key, token string, number uint64) *Command {
	return newCommand(deletion, fencedReleaseScript, key, token, fenced(token, number)).counted()
}

// Heal deletes key if it holds value and has no TTL.
func Heal(key, value string) *Command { return newCommand(heal, healScript, key, value, value) }

// Probe asks for what an Acquire asks, and sets nothing: the server would set the key only if it were there, and nothing has it, since
// it ends with an id that nobody else has. The answer is Yes if the server would grant a lock. Like an Acquire it is not sent to a
// server in quarantine.
func Probe(prefix, id string) *Command {
	return newCommand(probe, nil, "", "", "SET", prefix+"\x00ping:"+id, "x", "XX", "PX", "1")
}

// Publish sends message to whoever has subscribed to channel.
func Publish(channel, message string) *Command {
	return newCommand(publish, nil, "", "", "PUBLISH", channel, message)
}

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
// That number is in [Reply.Number]. The block is above all numbers that the counter has granted before, or been raised to.
func AcquireFenced(key, token string, ttl time.Duration, counter Counter) *Command {
	c := newCommand(fencedAcquire, fencedAcquireScript, key, token, token, millis(ttl), decimal(counter.Now))
	advance, block := counter.Advance || counter.Floor > 0, counter.Block > 1
	if counter.Keep != DefaultKeep || advance || block {
		c.args = append(c.args, millis(counter.Keep))
	}
	switch {
	case advance:
		c.args = append(c.args, decimal(counter.Floor))
	case block:
		c.args = append(c.args, "")
	}
	if block {
		c.args = append(c.args, decimal(counter.Block))
	}
	return c.counted()
}

// Raise replaces the number granted by number if key still holds token with granted, and raises the counter to it.
func Raise(key, token string, granted, number uint64) *Command {
	return newCommand(raise, raiseScript, key, token, fenced(token, granted), fenced(token, number), decimal(number)).counted()
}

// ReleaseFenced is [Release] for a key that AcquireFenced has set. It raises the counter to number.
func ReleaseFenced(key, token string, number uint64, redeliver time.Duration) *Command {
	c := newCommand(release, fencedReleaseScript, key, token, fenced(token, number))
	c.redeliver = redeliver
	return c.counted()
}

// ExtendFenced is [Extend] for a key that AcquireFenced has set. It raises the counter to number. keep is as in
// [Counter].
func ExtendFenced(key, token string, number uint64, ttl, keep time.Duration) *Command {
	return newCommand(extend, fencedExtendScript, key, token, token, decimal(number), millis(ttl), millis(keep)).counted()
}

// counted gives the command the counter of its key. It is in the same hash slot unless the key has a hash tag.
func (c *Command) counted() *Command {
	c.counter = beforeKey + c.key + behindKey
	return c
}

// The key of a counter is that of its lock between these.
const beforeKey, behindKey = "{", "}:fence"

// IsCounter reports whether a key has the form of a counter's. No lock may have such a key.
func IsCounter(key string) bool {
	return strings.HasPrefix(key, beforeKey) && strings.HasSuffix(key, behindKey)
}

// words appends the words of the command. A script goes by its source, which the server then knows, or by its hash.
func (c *Command) words(words []string, source bool) []string {
	switch {
	case c.script == nil:
	case c.counter == "":
		words = append(c.script.run(words, source), "1", c.key)
	default:
		words = append(c.script.run(words, source), "2", c.key, c.counter)
	}
	return append(words, c.args...)
}

// name returns the first of the words.
func (c *Command) name(source bool) string {
	switch {
	case c.script == nil:
		return c.args[0]
	case source:
		return "EVAL"
	}
	return "EVALSHA"
}

func (s *Script) run(words []string, source bool) []string {
	if source {
		return append(words, "EVAL", s.Source)
	}
	return append(words, "EVALSHA", s.Hash)
}

// locks reports whether the command takes a lock, or asks whether it could, so that a server in quarantine may not be asked.
func (c *Command) locks() bool {
	return c.kind == acquire || c.kind == fencedAcquire || c.kind == probe
}

// needsToken reports whether the command is for a key that holds a token. The answer is no if the key holds anything else.
func (c *Command) needsToken() bool {
	return c.kind == release || c.kind == extend || c.kind == deletion
}

// mustFollow reports whether the command, which was sent after earlier, must not be carried out before it. If the server
// asks for the script of earlier, that is not sent again then: it would create the key behind its release.
func (c *Command) mustFollow(earlier *Command) bool {
	creates := earlier.kind == fencedAcquire || earlier.kind == extend
	return creates && c.kind == release && c.key == earlier.key && c.token == earlier.token
}

// changes reports whether the command has changed the key, if this is the answer.
func (c *Command) changes(answer quorum.Answer) bool {
	done := answer == quorum.Yes || answer == quorum.Recreated
	return done && c.kind <= heal && c.kind != raise
}

// joins reports whether the joined script can carry the command out.
func (c *Command) joins() bool {
	return c.kind == fencedAcquire || c.kind == release && c.counter != ""
}

// fenced is what a key holds that was set with fencing.
func fenced(token string, number uint64) string { return token + "|" + decimal(number) }

func decimal(number uint64) string { return strconv.FormatUint(number, 10) }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
