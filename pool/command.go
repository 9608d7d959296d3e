package pool

import (
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/lua"
)

// Command is one lock command, ready to be sent to any number of nodes. Make one
// with [Acquire], [Release], [Extend] or [Restore]; it is not changed by sending.
type Command struct {
	kind kind
	name string
	args []any
	text string        // the script that the command runs; "": none
	owed time.Duration // how long a release is still worth sending after its connection broke
}

type kind uint8

const (
	acquire kind = iota
	release
	extend
	restore
	ping
)

// Acquire sets key to token with a TTL, if the key does not exist: SET NX PX. The
// ttl is sent in whole milliseconds, rounded down.
func Acquire(key, token string, ttl time.Duration) *Command {
	return &Command{kind: acquire, name: "SET", args: []any{key, token, "NX", "PX", millis(ttl)}}
}

// Release deletes key if it holds token.
//
// A release is owed: when its connection breaks before the answer is there, it is
// sent again on the next one, until owed is over. That is the longest TTL which
// an acquire or extend before it may have given the key.
func Release(key, token string, owed time.Duration) *Command {
	cmd := script(release, lua.Release(), key, token)
	cmd.owed = owed
	return cmd
}

// Extend gives key the TTL ttl if it holds token and has less left.
func Extend(key, token string, ttl time.Duration) *Command {
	return script(extend, lua.Extend(), key, token, millis(ttl), "longer")
}

// Restore gives key the TTL ttl if it holds token, even if it has more left. The
// ttl is sent in whole milliseconds, rounded up, so that it never cuts a lease short.
//
// A restore that takes effect late does harm, so its answer says when that cannot
// happen any more, however long it takes: No with [ErrBroken] where its connection broke
// and was ended on the server, Maybe only where nobody will ever know.
func Restore(key, token string, ttl time.Duration) *Command {
	return script(restore, lua.Extend(), key, token, millis(ttl+time.Millisecond-1), "exact")
}

func script(k kind, s lua.Script, key string, argv ...any) *Command {
	return &Command{
		kind: k,
		name: "EVALSHA",
		args: append([]any{s.Hash, 1, key}, argv...),
		text: s.Source,
	}
}

// source returns the arguments for EVAL, where the server does not know the script.
func (c *Command) source() []any { return append([]any{c.text}, c.args[1:]...) }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
