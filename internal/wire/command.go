// Package wire is what goes to a server and comes back: commands with their attributes, replies, the values of RESP, and the pipeline that
// decides what becomes of commands when things go wrong. It does no I/O.
package wire

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Command is one command, ready to be sent to any number of nodes. It is not changed by sending. What it does to a lock is the
// business of who made it (package form): on its way it is known by its class and attributes.
type Command struct {
	Class  Class
	Script *Script // that it runs; nil if none
	// Proof takes the place of Script until a connection has proven what that proves, see [Proven]: its answers are the same, and a command
	// without a script gives it what stands behind the key. nil: nothing is to be proven.
	Proof  *Script
	Key    string
	Second string // the second key of the script; "" if it has none
	// Token is what a key has to hold to be changed or deleted, or holds afterwards. Key and Token together are one life of the key:
	// a CleanUp ends what a Vote has begun.
	Token string
	Args  []string // of the script, behind the keys; without a script all words
	room  [6]string
	// Parse makes the reply of what a server has sent, unless that is an error.
	Parse func(*Value) Reply
	Join  *Joiner // nil: it goes alone
	// Redeliver is for how long after its connection broke a CleanUp is sent.
	Redeliver time.Duration

	keys uint8 // how many keys lead Args, behind their number, of a script that takes any number; 0: it has Key and Second
	// Several reports that each of these is the key of a lock, or of its counter. Otherwise Key is, and the others are its companion keys.
	Several bool
	// Shares marks a command to a key that several share. A CleanUp may have changed the key also if what it cleans up was not there. A command
	// that is Tracked has left the server tracking the key, so that nobody needs to be told that it has changed.
	Shares bool
	// BySource marks a script that always goes by its source, as a repetition for a server that does not know it would come late.
	BySource bool
	// Tracked asks for the next change to Key after the command to be reported to the listeners of a node that tracks keys, whether
	// the key exists or not. The reply is Tracked then.
	Tracked bool
	// WantsLate marks a command whose answer matters even after a Reply that there was none in time, since it shows what the command
	// has done. The late one comes in order with the other answers and pushes of the connection, so it may overtake that Reply, which
	// comes from another goroutine. If the connection breaks first, there is none.
	WantsLate bool
}

// With gives the command its arguments.
func (c *Command) With(args ...string) *Command {
	c.Args = append(c.room[:0], args...)
	return c
}

// WithKeys sets the keys of a script that takes any number, Key among them, and the arguments.
func (c *Command) WithKeys(keys []string, args ...string) {
	c.Args = slices.Concat([]string{strconv.Itoa(len(keys))}, keys, args)
	c.keys = uint8(len(keys)) //nolint:gosec // engine.Together has 64 names at most
}

// Keys are those of a command about several locks; nil of any other.
func (c *Command) Keys() []string {
	if !c.Several {
		return nil
	}
	return c.Args[1 : 1+c.keys]
}

// Words appends the words of the command, which a script carries out: its own, or its Proof; nil if it has none. That goes by its source,
// which the server then knows, or by its hash.
func (c *Command) Words(words []string, script *Script, source bool) []string {
	args := c.Args
	switch {
	case script == nil:
		return append(words, args...)
	case c.Script == nil: // the name and the key lead
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

// Name returns the first of the words.
func (c *Command) Name(script *Script, source bool) string {
	switch {
	case script == nil:
		return c.Args[0]
	case source:
		return "EVAL"
	}
	return "EVALSHA"
}

// MustFollow reports whether the command, which was sent after earlier, must not be carried out before it. If the server
// asks for the script of earlier, that is not sent again then: it would create the key behind its release.
func (c *Command) MustFollow(earlier *Command) bool {
	return earlier.Creates() && c.ends(earlier)
}

// ends reports whether the command cleans up the life of the key that earlier was to begin.
func (c *Command) ends(earlier *Command) bool {
	return c.CleansUp() && c.Token == earlier.Token && (c.Key == earlier.Key || slices.Contains(earlier.Keys(), c.Key))
}

// Changed reports whether the command has, or may have, changed the key, if this is the reply.
func (c *Command) Changed(r *Reply) bool {
	switch r.Answer {
	case quorum.Yes, quorum.Recreated:
		return c.Changes() && !r.Same && (!c.Shares || !r.Tracked)
	case quorum.No:
		return c.CleansUp() && c.Shares && errors.Is(r.Err, nodeerr.ErrAbsent)
	}
	return false
}

// Changing are the keys that the command may change.
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

// Joiner has one call of a script carry out several commands.
type Joiner struct {
	Script *Script // returns an array of the reply to each, or its error
	// Words appends what follows the script: how many keys there are, the keys, and the arguments.
	Words func(words []string, joined []*Command) []string
}

// Joins reports whether one call may carry out next behind the command and others. Nothing that takes a lock is joined behind a release
// that leads: Redis skips the out-of-memory check after the first write of a script.
func (c *Command) Joins(next *Command) bool {
	return c.Join != nil && c.Join == next.Join && (c.Votes() || !next.Votes())
}
