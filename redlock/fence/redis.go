package fence

import (
	_ "embed" // the scripts are files of this package
	"fmt"
	"strings"
)

// maxWords is the most words that a command may have. Lua's stack takes a little less than 8000.
const maxWords = 7000

// Doer sends a command to Redis and returns the reply. A redigo connection is a Doer; [DoFunc] adapts other
// clients.
//
// Integers are int64, strings are string or []byte, arrays are []any, and the nil reply is nil without an
// error. An error reply is an error whose text begins as the reply does. Contexts and timeouts are the
// client's business.
type Doer interface {
	Do(command string, args ...any) (reply any, err error)
}

// DoFunc is a function that is a [Doer]. This one adapts a client of github.com/redis/go-redis/v9
// ([Transact] needs its *redis.Conn):
//
//	do := fence.DoFunc(func(command string, args ...any) (any, error) {
//		reply, err := client.Do(ctx, append([]any{command}, args...)...).Result()
//		if errors.Is(err, redis.Nil) {
//			return nil, nil
//		}
//		return reply, err
//	})
type DoFunc func(command string, args ...any) (reply any, err error)

// Do calls f.
func (f DoFunc) Do(command string, args ...any) (any, error) { return f(command, args...) }

// Command is a Redis command: its name, then its arguments as the client takes them. It has from 1 to 7000
// words. Names of keys are given as [Key].
type Command []any

// Key is an argument of a [Command] that names a key. Redis also takes a plain string. But then Redis
// Cluster does not notice before the first command that a key is on another node (while a slot migrates),
// and Redis-compatible servers may reject it.
type Key string

//go:embed commands.lua
var commandsSource string

var runCommands = presetScript(commandsSource, "94373e3217d41031194ac2fdeee63b482035f8f0")

// Run checks fence in the guard key and, if it passes, runs the commands on Redis. Both are one step for
// other clients. Replies[i] is the reply to commands[i]. Without commands Run only stores the fence, which
// shuts out earlier holders before the first write.
//
// The guard key belongs to one resource: see section Redis of the package documentation.
//
// The errors:
//   - a [*StaleError] with Seen, [ErrGuard] or [ErrInvalid]: nothing was written.
//   - the client's error, wrapped. The first command that fails ends the run, and the error says which one.
//     The commands before it stay done, and the fence stays stored. If the reply was lost, all may have
//     been done or nothing; the same fence passes again.
//
// The commands run in Lua, which counts in doubles: an integer reply above 2^53 is rounded.
func Run(c Doer, guard string, fence uint64, commands ...Command) (replies []any, err error) {
	var keys []string
	var words []any
	for i, command := range commands {
		if len(command) == 0 || len(command) > maxWords {
			return nil, invalid("command %d of %d has %d words: must be from 1 to %d", i+1, len(commands), len(command), maxWords)
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
	reply, err := runCommands.Run(c, guard, fence, keys, words...)
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

// textOf returns a reply that is a string.
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

func expiringError(guard string, ttl any) error {
	return fmt.Errorf("%w: %q has a TTL, %v ms are left: PERSIST it, or choose another name if it is another program's key", ErrGuard, guard, ttl)
}
