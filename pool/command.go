package pool

import (
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/lua"
	"github.com/quorumlock/quorumlock/internal/pipeline"
)

// Command is one lock command, ready to be sent to any number of nodes. Make one
// with [Acquire], [Release], [Extend], [Restore], their fenced forms, [Raise], [Look], [Force], [Heal] or
// [Publish]; it is not changed by sending.
type Command struct {
	kind    kind
	script  *lua.Script   // what it runs by its hash, once that is known; nil: nothing, or always by its source
	key     string        // or the channel of publish
	counter string        // the second key of the script; "": it has none
	token   string        // or the value of heal, the message of publish, the client that tracking redirects to
	args    []string      // of the script, or of SET
	room    [5]string     // for args
	owed    time.Duration // how long a release is still worth sending after its connection broke
}

// newCommand makes a command with arguments behind the key.
func newCommand(k kind, script *lua.Script, key, token string, args ...string) *Command {
	c := &Command{kind: k, script: script, key: key, token: token}
	c.args = append(c.room[:0], args...)
	return c
}

type kind uint8

const (
	acquire kind = iota
	grant        // an acquire with fencing
	raise
	release
	extend
	restore
	force
	heal
	look
	publish
	ping
	caching  // what the next command reads is tracked
	tracking // says whom the server tells of changes to what is tracked
)

// whenLost says how a command is treated when things go wrong.
func (k kind) whenLost() pipeline.Kind {
	switch k {
	case release:
		return pipeline.CleanUp
	case restore:
		return pipeline.Undo
	default:
		return pipeline.Plain
	}
}

// newPing makes a command that nobody waits for.
func newPing() op { return order{cmd: &Command{kind: ping}}.op() }

// newCaching likewise.
func newCaching() op { return order{cmd: &Command{kind: caching}}.op() }

// newTracking has the server tell a client of changes; 0: nobody.
func newTracking(client int64) *Command {
	c := &Command{kind: tracking}
	if client != 0 {
		c.token = strconv.FormatInt(client, 10)
	}
	return c
}

// Acquire sets key to token with a TTL, if the key does not exist: SET NX PX. The
// ttl is sent in whole milliseconds, rounded down.
func Acquire(key, token string, ttl time.Duration) *Command {
	return newCommand(acquire, nil, key, token, token, "NX", "PX", millis(ttl))
}

// Release deletes key if it holds token.
//
// A release is owed: when its connection breaks before the answer is there, it is
// sent again on the next one, until owed is over. That is the longest TTL which
// an acquire or extend before it may have given the key.
func Release(key, token string, owed time.Duration) *Command {
	c := newCommand(release, lua.Release(), key, token, token)
	c.owed = owed
	return c
}

// Extend gives key the TTL ttl if it holds token and has less left, or no TTL at all. A
// key that is not there it sets to token, with that TTL; the answer is [Planted] then.
func Extend(key, token string, ttl time.Duration) *Command {
	return newCommand(extend, lua.Extend(), key, token, token, millis(ttl), "plant")
}

// Restore gives key the TTL ttl if it holds token, even if it has more left. The
// ttl is sent in whole milliseconds, rounded up, so that it never cuts a lease short.
//
// A restore that takes effect late does harm, so its answer says when that cannot
// happen any more, however long it takes: No with [ErrBroken] where its connection broke
// and was ended on the server, Maybe only where nobody will ever know.
func Restore(key, token string, ttl time.Duration) *Command {
	return newCommand(restore, lua.Extend(), key, token, token, millisUp(ttl), "exact")
}

// Look tells what key holds and how long still, in the [Reply]. A node that hears (see
// [Node.Listen]) is told of the next change to the key, there or not, and says so by
// [Reply.Watched].
func Look(key string) *Command { return &Command{kind: look, key: key} }

// Force deletes key, whatever string it holds. Data of another type it leaves alone.
func Force(key string) *Command { return newCommand(force, lua.Force(), key, "") }

// Heal deletes key if it holds value and has no TTL at all: nothing else would ever end it.
func Heal(key, value string) *Command {
	return newCommand(heal, lua.Heal(), key, value, value)
}

// Publish sends message to whoever listens on channel, which may be nobody.
func Publish(channel, message string) *Command {
	return &Command{kind: publish, key: channel, token: message}
}

// words appends the command as Redis takes it: the script by its source, which the
// server then knows, or by its hash.
func (c *Command) words(words []string, source bool) []string {
	switch c.kind {
	case acquire:
		return append(append(words, "SET", c.key), c.args...)
	case look:
		// Never by its hash: what is sent again for its source has nothing before it that makes it watched.
		return append(words, "EVAL", lua.Look().Source, "1", c.key)
	case publish:
		return append(words, "PUBLISH", c.key, c.token)
	case ping:
		return append(words, "PING")
	case caching:
		return append(words, "CLIENT", "CACHING", "YES")
	case tracking:
		if c.token == "" {
			return append(words, "CLIENT", "TRACKING", "OFF")
		}
		// OPTIN: what the scripts of release and extend read is not tracked.
		return append(words, "CLIENT", "TRACKING", "ON", "REDIRECT", c.token, "OPTIN")
	}
	words = run(words, c.script, source)
	if c.counter != "" {
		words = append(words, "2", c.key, c.counter)
	} else {
		words = append(words, "1", c.key)
	}
	return append(words, c.args...)
}

// run appends how a script is run: by its source, which the server then knows, or by its hash.
func run(words []string, script *lua.Script, source bool) []string {
	if source {
		return append(words, "EVAL", script.Source)
	}
	return append(words, "EVALSHA", script.Hash)
}

// follows says of a command that was sent behind an earlier one that the earlier must not be carried out behind it. That
// would be another order only where the server asks for a script that it should know: what makes a key or gives it a longer
// TTL is not sent again then, if something follows that ends or shortens it.
func (c *Command) follows(earlier *Command) bool {
	return c.kind.whenLost() != pipeline.Plain && c.key == earlier.key && c.token == earlier.token
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// millisUp rounds up.
func millisUp(d time.Duration) string { return millis(d + time.Millisecond - 1) }
