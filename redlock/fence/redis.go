package fence

import (
	"context"
	_ "embed" // the scripts are files of this package
	"fmt"
	"strings"
)

// maxWords is the highest number of words in a command. Lua's stack takes a little less than 8000.
const maxWords = 7000

// Doer is a Redis client or connection. No client has exactly this method: [DoFunc] adapts them.
type Doer interface {
	// Do sends a command and returns its reply. Integers are int64, strings are string or []byte, arrays are []any, and
	// the nil reply is nil without an error. An error reply is returned as an error; within an array it is an element that
	// is an error. If the reply begins with NOSCRIPT, so does the text of the error.
	//
	// Do returns when ctx ends, if the client can. It never returns a reply that it did not wait for as the reply to a
	// later command. Do sends a command once: a client that sends it again when its reply is late writes twice.
	Do(ctx context.Context, command string, args ...any) (reply any, err error)
}

// DoFunc is a function that is a [Doer]. The example adapts a connection of redigo. For a client of
// github.com/redis/go-redis/v9 use Doer of github.com/quorumlock/quorumlock/adapters/goredis. The recipes have one for
// rueidis: https://github.com/quorumlock/quorumlock/blob/main/docs/recipes.md#other-clients-of-redis.
type DoFunc func(ctx context.Context, command string, args ...any) (reply any, err error)

// Do calls f.
func (f DoFunc) Do(ctx context.Context, command string, args ...any) (any, error) {
	return f(ctx, command, args...)
}

// send sends a command unless ctx has ended. Without this check go-redis sends it even then.
func send(ctx context.Context, c Doer, command string, args ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.Do(ctx, command, args...)
}

// Command is a Redis command: its name, then its arguments, of the types that the client takes. It has from 1
// to 7000 words. Give the names of keys as [Key].
type Command []any

// Key is an argument of a [Command] that names a key. Run declares it to the server, and sends it as a string. Redis
// also takes keys that are not declared. But while a slot of a Redis Cluster migrates, an undeclared key may be on
// another server. The server may notice that only after earlier commands have run. Redis-compatible servers may reject
// a command with an undeclared key.
type Key string

//go:embed commands.lua
var commandsSource string

var runCommands = presetScript(commandsSource, "94373e3217d41031194ac2fdeee63b482035f8f0")

// Run checks fence in the guard key and, if it passes, runs the commands on Redis. Both are one step for
// other clients. Replies[i] is the reply to commands[i]. Without commands Run only stores the fence, which
// shuts out earlier holders before the first write. If ctx has ended, Run sends nothing.
//
// The guard key belongs to one resource: see section Redis of the package documentation.
//
// The errors:
//   - a [*StaleError] with Seen, [ErrGuard] or [ErrInvalid]: nothing was written.
//   - the error of the client or of ctx, wrapped. If it is a server's error reply to a command, that command
//     ended the run, and the error says which one it was. The commands before it stay done, and the fence
//     stays stored. If a reply was lost, all may have been done or nothing; the same fence passes again.
//
// The commands run in Lua, which counts in doubles: an integer reply above 2^53 is rounded.
func Run(ctx context.Context, c Doer, guard string, fence uint64, commands ...Command) (replies []any, err error) {
	var keys []string
	var words []any
	for i, command := range commands {
		if len(command) == 0 || len(command) > maxWords {
			return nil, invalid("command %d of %d has %d words: must be from 1 to %d",
				i+1, len(commands), len(command), maxWords)
		}
		words = append(words, len(command))
		for _, word := range command {
			if key, ok := word.(Key); ok {
				keys = append(keys, string(key))
				word = string(key)
			}
			words = append(words, word)
		}
	}
	reply, err := runCommands.Run(ctx, c, guard, fence, keys, words...)
	if err != nil {
		return nil, err
	}
	replies, ok := reply.([]any)
	if !ok && len(commands) > 0 {
		return nil, unexpected(guard, reply)
	}
	return replies, nil
}

// checkGuard returns an error for an invalid guard key or fence.
func checkGuard(guard string, fence uint64) error {
	switch {
	case guard == "":
		return invalid("the guard key is empty")
	case strings.HasPrefix(guard, "{") && strings.HasSuffix(guard, "}:fence"):
		return invalid("guard key %.64q is the counter of a lock, which expires: choose another name", guard)
	}
	return Valid(fence)
}

// textOf returns the text of a reply that is a string. It returns false for any other reply.
func textOf(reply any) (text string, ok bool) {
	switch reply := reply.(type) {
	case string:
		return reply, true
	case []byte:
		return string(reply), true
	default:
		return "", false
	}
}

// wrap adds the guard key to an error of the client.
func wrap(guard string, err error) error { return fmt.Errorf("fence: %q: %w", guard, err) }

func unexpected(guard string, reply any) error {
	return fmt.Errorf("fence: %q: unexpected reply %v", guard, reply)
}

func guardError(guard string, held any) error {
	return fmt.Errorf("%w: %q holds %.64q, which is no fence", ErrGuard, guard, held)
}

// expiringError returns the error about a guard key that has a TTL.
func expiringError(guard string, ttl any) error {
	return fmt.Errorf(
		"%w: %q has a TTL, %v ms are left: PERSIST it, or choose another name if it is another program's key",
		ErrGuard, guard, ttl)
}
