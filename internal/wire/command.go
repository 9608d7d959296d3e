// Package wire is the traffic with a server: commands with their attributes, replies, and the values of RESP. Its
// pipeline decides the fate of commands when things go wrong. The package does no I/O.
//
// The files:
//   - command.go, class.go: a command, and what its class permits
//   - reply.go, refusal.go, outlook.go: a reply; what an error reply means; whether a reason passes
//   - resp.go, value.go: the reader of RESP, with bounds
//   - pipeline.go: the fate of each command on a connection
//   - life.go: when to connect, and when to pause
//   - guard.go, stamp.go: whether the server may vote, and the stamp that shows it
//   - proven.go: the rights that a connection has shown
package wire

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Command is one command, ready to be sent to any number of nodes. Sending does not change it. Package form makes it,
// and knows its effect on a lock. Package wire only knows its class and its attributes.
type Command struct {
	Class  Class
	Script *Script // the script that it runs; nil if it runs none
	// Proof is a script that takes the place of Script until the connection has proven its rights, see [Proven]. Its
	// answers are the same. If the command has no script, Proof gets the words that stand behind the key. nil means that
	// there is nothing to prove.
	Proof  *Script
	Key    string
	Second string // the second key of the script; "" if it has none
	// Token is the token that the key has to hold to be changed or deleted, or that it holds afterwards. Key and Token
	// together identify one life of the key. A Vote begins the life, and a CleanUp ends it.
	Token string
	Args  []string // the arguments of the script, behind the keys; without a script all words
	room  [6]string
	// Parse makes the reply from the value that a server has sent, unless that is an error.
	Parse func(*Value) Reply
	Join  *Joiner // joins it with other commands; nil if it is never joined
	// Redeliver is for how long a CleanUp is sent again after its connection broke.
	Redeliver time.Duration

	// keys is the number of keys, if the script takes any number of keys. Then Args begin with that number and the keys. 0
	// means that the keys are Key and Second.
	keys uint8
	// Several reports that each of these keys is the key of a lock, or its counter. Otherwise Key is the key of the lock,
	// and the other keys are its companion keys.
	Several bool
	// Shares marks a command for a key that several share. A CleanUp may have changed the key even if its token was not
	// there. If the reply is Tracked, the server tracks the key from then on, so that nobody needs to be told of the
	// change.
	Shares bool
	// BySource marks a script that is always sent as its source. A server that does not know a hash asks for a repetition,
	// which would come too late.
	BySource bool
	// Tracked asks the server to report the next change to Key after the command, whether the key exists or not. The node
	// notifies its listeners of that change, if it tracks keys. Then the reply is Tracked.
	Tracked bool
	// WantsLate marks a command whose answer matters even after a Reply that there was none in time. The late answer shows
	// the effect of the command. It comes in order with the other answers and pushes of the connection. So it may overtake
	// that Reply, which comes from another goroutine. If the connection breaks first, no late answer comes.
	WantsLate bool
}

// With gives the command its arguments.
func (c *Command) With(args ...string) *Command {
	c.Args = append(c.room[:0], args...)
	return c
}

// WithKeys sets the keys of a script that takes any number of keys, Key among them, and the arguments.
func (c *Command) WithKeys(keys []string, args ...string) {
	c.Args = slices.Concat([]string{strconv.Itoa(len(keys))}, keys, args)
	c.keys = uint8(len(keys)) //nolint:gosec // engine.Together has 64 names at most
}

// Keys returns the keys of a command about several locks, and nil for any other command.
func (c *Command) Keys() []string {
	if !c.Several {
		return nil
	}
	return c.Args[1 : 1+c.keys]
}

// Words appends the words of the command. script carries the command out: its own script, or its Proof. It is nil if
// the command has none. If source is true, the words have the source of the script, which the server knows from then
// on. Otherwise they have its hash.
func (c *Command) Words(words []string, script *Script, source bool) []string {
	args := c.Args
	switch {
	case script == nil:
		return append(words, args...)
	case c.Script == nil: // the name and the key come first, and a Proof gets the others
		args = args[2:]
	}
	switch words = script.Run(words, source); {
	case c.keys > 0:
	case c.Second == "":
		words = append(words, "1", c.Key)
	default:
		words = append(words, "2", c.Key, c.Second)
	}
	return append(words, args...)
}

// Name returns the first word of Words: the name of the Redis command.
func (c *Command) Name(script *Script, source bool) string {
	switch {
	case script == nil:
		return c.Args[0]
	case source:
		return "EVAL"
	}
	return "EVALSHA"
}

// MustFollow reports whether the command, which was sent after earlier, must not be carried out before earlier. If so
// and the server asks for the script of earlier, earlier is not sent again, because it would create the key after its
// release.
func (c *Command) MustFollow(earlier *Command) bool {
	return earlier.Creates() && c.ends(earlier)
}

// ends reports whether the command cleans up the life of the key that earlier was to begin.
func (c *Command) ends(earlier *Command) bool {
	return c.CleansUp() && c.Token == earlier.Token && (c.Key == earlier.Key || slices.Contains(earlier.Keys(), c.Key))
}

// Changed reports whether the command has changed the key, or may have changed it, if r is its reply.
func (c *Command) Changed(r *Reply) bool {
	switch r.Answer {
	case quorum.Yes, quorum.Recreated:
		return c.Changes() && !r.Same && (!c.Shares || !r.Tracked)
	case quorum.No:
		return c.CleansUp() && c.Shares && errors.Is(r.Err, nodeerr.ErrAbsent)
	}
	return false
}

// Changing yields the keys that the command may change.
func (c *Command) Changing(yield func(key string) bool) {
	if !c.Several {
		yield(c.Key)
		return
	}
	for _, key := range c.Keys() {
		if !yield(key) {
			return
		}
	}
}

// Script is a Lua script that servers run.
type Script struct {
	Source string
	// Hash is the SHA-1 of Source in hexadecimal, by which EVALSHA names it. It is written down rather than computed, so
	// that the package works if SHA-1 is forbidden (GODEBUG=fips140=only).
	Hash string
}

// Run appends the words that run the script.
func (s *Script) Run(words []string, source bool) []string {
	if source {
		return append(words, "EVAL", s.Source)
	}
	return append(words, "EVALSHA", s.Hash)
}

// Joiner is a script that carries out several commands in one call.
type Joiner struct {
	Script *Script // returns an array with the reply to each command, or its error
	// Words appends the words behind the script: the number of keys, the keys, and the arguments.
	Words func(words []string, joined []*Command) []string
}

// Joins reports whether one call may carry out the command, which leads the call, and next. A command that takes a lock
// is not joined behind a release that leads. Redis skips the out-of-memory check after the first write of a script.
func (c *Command) Joins(next *Command) bool {
	return c.Join != nil && c.Join == next.Join && (c.Votes() || !next.Votes())
}
