package fence_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

const (
	guard  = "{account}:guard"
	record = "{account}:record" // a list of what was written
)

// client is a connection that records the commands it sends.
type client struct {
	redis.Conn
	sent  []string
	lose  string                                // the command whose reply is lost
	guard string                                // the guard key of what is written over it
	asked func(context.Context) context.Context // returns the context to send with
}

var errLost = errors.New("connection reset by peer")

func (c *client) Do(ctx context.Context, command string, args ...any) (any, error) {
	c.sent = append(c.sent, command)
	if c.asked != nil {
		ctx = c.asked(ctx)
	}
	reply, err := redis.DoContext(c.Conn, ctx, command, args...)
	if command == c.lose {
		return nil, errLost
	}
	return reply, err
}

func connect(t *testing.T, server *testredis.Process) *client {
	t.Helper()
	conn, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	return &client{Conn: conn, guard: guard}
}

// guardedBy returns the client, which writes with another guard key from now on.
func (c *client) guardedBy(key string) *client {
	c.guard = key
	return c
}

// alone returns a client of a new server.
func alone(t *testing.T) *client {
	t.Helper()
	return connect(t, testredis.Real(t, 1)[0])
}

// written returns what was written to the record, in order.
func (c *client) written(t *testing.T) []string {
	t.Helper()
	list, err := redis.Strings(c.Conn.Do("LRANGE", record, 0, -1))
	require.NoError(t, err)
	return list
}

func (c *client) get(t *testing.T, key string) string {
	t.Helper()
	value, err := redis.String(c.Conn.Do("GET", key))
	if errors.Is(err, redis.ErrNil) {
		return ""
	}
	require.NoError(t, err)
	return value
}

// peak returns the most memory that the server has used, in bytes.
func (c *client) peak(t *testing.T) (bytes int) {
	t.Helper()
	info, err := redis.String(c.Conn.Do("INFO", "memory"))
	require.NoError(t, err)
	_, text, _ := strings.Cut(info, "used_memory_peak:")
	text, _, _ = strings.Cut(text, "\r\n")
	bytes, err = strconv.Atoi(text)
	require.NoError(t, err)
	return bytes
}

func (c *client) do(t *testing.T, command string, args ...any) {
	t.Helper()
	_, err := c.Conn.Do(command, args...)
	require.NoError(t, err)
}

// form is one of the ways to write: it appends text to the record.
type form func(ctx context.Context, c *client, number uint64, text string) error

// write is a form with the context of the test.
type write func(c *client, number uint64, text string) error

// eachForm runs a test with each way to write to Redis.
func eachForm(t *testing.T, test func(t *testing.T, write write)) {
	eachFormIn(t, func(t *testing.T, form form) {
		test(t, func(c *client, number uint64, text string) error { return form(t.Context(), c, number, text) })
	})
}

// eachFormIn is eachForm for a test that has a context of its own.
func eachFormIn(t *testing.T, test func(t *testing.T, form form)) {
	script, err := fence.NewScript("return redis.call('RPUSH', KEYS[1], ARGV[1])")
	require.NoError(t, err)
	for name, form := range map[string]form{
		"commands": func(ctx context.Context, c *client, number uint64, text string) error {
			_, err := fence.Run(ctx, c, c.guard, number, fence.Command{"RPUSH", fence.Key(record), text})
			return err
		},
		"script": func(ctx context.Context, c *client, number uint64, text string) error {
			_, err := script.Run(ctx, c, c.guard, number, []string{record}, text)
			return err
		},
		"transaction": func(ctx context.Context, c *client, number uint64, text string) error {
			_, err := fence.Transact(ctx, c, c.guard, number, func() error {
				_, err := c.Do(ctx, "RPUSH", record, text)
				return err
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, form) })
	}
}

func requireStale(t *testing.T, err error, resource string, number, seen uint64) {
	t.Helper()
	require.ErrorIs(t, err, fence.ErrStale)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, &fence.StaleError{Resource: resource, Fence: number, Seen: seen}, stale)
}
