package goredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/redlock/fence"
)

// Processor is what the clients and connections of go-redis have in common: [redis.Client], [redis.ClusterClient],
// [redis.UniversalClient], [redis.Conn] and others.
type Processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

var (
	errPipeline = fmt.Errorf("%w: goredis: a pipeline is no client for a fence: its replies come later", fence.ErrInvalid)
	errNoReply  = errors.New("goredis: the client returned no reply and no error: " +
		"the command is in a queue, or a hook of the client has not passed it on")
)

// stateful are the commands that change what later commands of the same connection do.
var stateful = []string{
	"WATCH", "UNWATCH", "MULTI", "EXEC", "DISCARD", "SELECT", "AUTH", "HELLO", "RESET", "MONITOR",
	"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE",
}

// Doer makes a client of go-redis what [fence.Run], [fence.Script] and [fence.Transact] write through.
//
// Transact needs one connection: client.Conn() returns a [redis.Conn], and client.Watch passes on a [redis.Tx]. Any other client has a
// pool, and the program's other commands would get between MULTI and EXEC. So WATCH, MULTI and other commands that change their
// connection, such as SELECT, are fence.ErrInvalid there, and are not sent. A type that embeds one of the two is one connection too.
//
// A command is sent once, whatever the MaxRetries of the client: go-redis would otherwise send a script again when its reply is
// late. Unless the client has ContextTimeoutEnabled, it ignores the deadline of a context, and returns after its ReadTimeout. A
// [redis.Pipeliner] is refused: every Do returns fence.ErrInvalid, and queues nothing.
//
// The hooks of the client see each command. It is a redis.Cmder that is no *redis.Cmd: a hook must not assert that type. If a hook
// does not pass a command on, Do returns an error.
func Doer(client Processor) fence.DoFunc {
	_, pipeline := client.(redis.Pipeliner)
	_, connection := client.(redis.StatefulCmdable)
	return func(ctx context.Context, command string, args ...any) (any, error) {
		switch {
		case pipeline:
			return nil, errPipeline
		case !connection && slices.Contains(stateful, strings.ToUpper(command)):
			return nil, fmt.Errorf("%w: goredis: %s needs one connection, and %T has a pool: take a redis.Conn",
				fence.ErrInvalid, command, client)
		}
		cmd := once{redis.NewCmd(ctx, append([]any{command}, args...)...)}
		if err := client.Process(ctx, cmd); err != nil && cmd.Err() == nil {
			return nil, err
		}
		reply, err := cmd.Result()
		switch {
		case errors.Is(err, redis.Nil):
			return nil, nil
		case err == nil && reply == nil: // the nil reply is the error redis.Nil
			return nil, errNoReply
		}
		return reply, err
	}
}

// once is a command that go-redis does not send again.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }
