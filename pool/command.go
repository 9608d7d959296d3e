package pool

import (
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/lua"
	"github.com/quorumlock/quorumlock/internal/pipeline"
)

// Command is one lock command, ready to be sent to any number of nodes. Make one
// with [Acquire], [Release], [Extend] or [Restore]; it is not changed by sending.
type Command struct {
	kind   kind
	script *lua.Script // what it runs; nil for acquire and ping
	key    string
	token  string
	ttl    string        // milliseconds; not for release
	how    string        // the last argument of the script of extend and restore
	owed   time.Duration // how long a release is still worth sending after its connection broke
}

type kind uint8

const (
	acquire kind = iota
	release
	extend
	restore
	ping
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

// Acquire sets key to token with a TTL, if the key does not exist: SET NX PX. The
// ttl is sent in whole milliseconds, rounded down.
func Acquire(key, token string, ttl time.Duration) *Command {
	return &Command{kind: acquire, key: key, token: token, ttl: millis(ttl)}
}

// Release deletes key if it holds token.
//
// A release is owed: when its connection breaks before the answer is there, it is
// sent again on the next one, until owed is over. That is the longest TTL which
// an acquire or extend before it may have given the key.
func Release(key, token string, owed time.Duration) *Command {
	return &Command{kind: release, script: lua.Release(), key: key, token: token, owed: owed}
}

// Extend gives key the TTL ttl if it holds token and has less left.
func Extend(key, token string, ttl time.Duration) *Command {
	return &Command{kind: extend, script: lua.Extend(), key: key, token: token, ttl: millis(ttl), how: "longer"}
}

// Restore gives key the TTL ttl if it holds token, even if it has more left. The
// ttl is sent in whole milliseconds, rounded up, so that it never cuts a lease short.
//
// A restore that takes effect late does harm, so its answer says when that cannot
// happen any more, however long it takes: No with [ErrBroken] where its connection broke
// and was ended on the server, Maybe only where nobody will ever know.
func Restore(key, token string, ttl time.Duration) *Command {
	return &Command{kind: restore, script: lua.Extend(), key: key, token: token, ttl: millis(ttl + time.Millisecond - 1), how: "exact"}
}

// words appends the command as Redis takes it: the script by its source, which the
// server then knows, or by its hash.
func (c *Command) words(words []string, source bool) []string {
	switch {
	case c.kind == ping:
		return append(words, "PING")
	case c.kind == acquire:
		return append(words, "SET", c.key, c.token, "NX", "PX", c.ttl)
	case source:
		words = append(words, "EVAL", c.script.Source)
	default:
		words = append(words, "EVALSHA", c.script.Hash)
	}
	words = append(words, "1", c.key, c.token)
	if c.kind == release {
		return words
	}
	return append(words, c.ttl, c.how)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
