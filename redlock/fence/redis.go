package fence

import (
	"context"
	_ "embed" // the scripts are files of this package
	"fmt"
	"strings"
)

// maxWords is the highest number of words in a command. Lua's stack takes a little less than 8000.
const maxWords = 7000

// Doer is a Redis client or connection. [DoFunc] adapts one.
type Doer interface {
	// Do sends a command, once, and returns its reply: int64, string or []byte, []any, or nil for the nil reply. An error
	// reply is an error, within an array an element; the text of NOSCRIPT begins with that word.
	//
	// Do returns when ctx ends, if the client can. It never returns a late reply as that of another command. A client that
	// sends a command again writes twice.
	Do(ctx context.Context, command string, args ...any) (reply any, err error)
}

// DoFunc is a function that is a [Doer]. The example adapts redigo. For go-redis use Doer of
// github.com/quorumlock/quorumlock/adapters/goredis. For rueidis see
// https://github.com/quorumlock/quorumlock/blob/main/docs/fencing.md.
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

// Command is a Redis command: its name and its arguments, of types that the client takes, from 1 to 7000 in all. Names
// of keys are [Key].
type Command []any

// Key is an argument of a [Command] that names a key. [Run] declares it to the server, as Redis Cluster needs while a
// slot migrates.
type Key string

//go:embed commands.lua
var commandsSource string

var runCommands = presetScript(commandsSource, "94373e3217d41031194ac2fdeee63b482035f8f0")

// Run checks fence in the guard key and, if it passes, runs the commands, in one step. replies[i] is the reply to
// commands[i]. Without commands it only stores the fence, which shuts out earlier holders.
//
// The errors:
//   - a [*StaleError] with Seen, [ErrGuard] or [ErrInvalid]: nothing was written;
//   - the error of the client or of ctx, wrapped. The text of an error reply says which command failed. The commands
//     before it stay done, and the fence stored. If a reply was lost, all may have been done or nothing.
//
// The commands run in Lua: an integer reply above 2^53 is rounded.
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
