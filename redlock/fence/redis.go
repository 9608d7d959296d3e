package fence

import (
	_ "embed" // the scripts are files of this package
	"errors"
	"fmt"
)

// maxWords is how many words a command has at the most. Lua's stack takes a little less than 8000.
const maxWords = 7000

// Doer sends a command to Redis and returns the reply. A redigo connection is one; [DoFunc] makes one of another client.
//
// Integers come as int64, strings as string or []byte, arrays as []any, the nil reply as nil without an error, and the error
// reply of a server as an error whose text begins as the reply does. A context, and how long a call may take, are the
// client's affair.
type Doer interface {
	Do(command string, args ...any) (reply any, err error)
}

// DoFunc is a function that is a [Doer].
type DoFunc func(command string, args ...any) (reply any, err error)

// Do calls f.
func (f DoFunc) Do(command string, args ...any) (any, error) { return f(command, args...) }

// Command is a Redis command: its name, and its arguments as the client takes them. Names of keys are given as [Key].
// It has from 1 to 7000 words.
type Command []any

// Key is an argument of a [Command] that names a key. A plain string works too on Redis, but Redis Cluster then does not notice before the
// first command that a key is elsewhere (while a slot migrates), and servers that are only like Redis may refuse it.
type Key string

//go:embed commands.lua
var commandsSource string

var runCommands = presetScript(commandsSource, "e6766dddea31ff7880b6cd8fc272d1c041224cbd")

// Run runs the commands on Redis if token is at least the highest one that the guard key has seen, which it is then. All of
// this is one step to other clients (EVALSHA, or EVAL where the server does not know the script). Replies[i] is the reply to
// commands[i]; without commands it only raises the highest token, which shuts out earlier holders before the first write.
//
// The guard key belongs to one resource, and on Redis Cluster shares its hash tag: "{account-7}:fence" beside "{account-7}:balance".
// It has no TTL, and must be neither deleted nor evicted: see the package's section Redis.
//
// The errors: a [*StaleError] with Seen, [ErrGuard], one that names a bad argument, or that of the client, wrapped. Nothing is written
// in the first three cases. The first command that fails ends the run, and the error says which. Redis does not take back what was
// done: the commands before it stay done and the token stays raised. When the reply is lost, all may have been done or nothing.
// Running it again with the same token is safe as far as fencing goes.
//
// The commands run within Lua, which counts in doubles: an integer reply beyond 2^53 is rounded.
func Run(c Doer, guard string, token uint64, commands ...Command) (replies []any, err error) {
	var keys []string
	var words []any
	for i, command := range commands {
		if len(command) == 0 || len(command) > maxWords {
			return nil, fmt.Errorf("fence: command %d of %d has %d words: must be from 1 to %d", i+1, len(commands), len(command), maxWords)
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
	reply, err := runCommands.Run(c, guard, token, keys, words...)
	if err != nil {
		return nil, err
	}
	replies, ok := reply.([]any)
	if !ok && len(commands) > 0 {
		return nil, fmt.Errorf("fence: %q: unexpected reply %v", guard, reply)
	}
	return replies, nil
}

// checkGuard returns an error for a guard key or a token that cannot be one.
func checkGuard(guard string, token uint64) error {
	if guard == "" {
		return errors.New("fence: the guard key is empty")
	}
	return CheckToken(token)
}

// textOf returns what a client made of a string.
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

// wrap says which guard key an error of the client is about.
func wrap(guard string, err error) error { return fmt.Errorf("fence: %q: %w", guard, err) }

func guardError(guard string, held any) error {
	return fmt.Errorf("fence: %q: %w: %.64q", guard, ErrGuard, held)
}
