package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/goredis"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

const guard = "{account}:guard"

// overRueidis adapts a client of rueidis. The arguments of commands and scripts are strings and
// numbers.
func overRueidis(client rueidis.CoreClient) fence.DoFunc {
	_, shared := client.(rueidis.Client)
	return func(ctx context.Context, command string, args ...any) (any, error) {
		if shared && (command == "WATCH" || command == "MULTI") {
			return nil, fmt.Errorf("%w: %s needs client.Dedicate()", fence.ErrInvalid, command)
		}
		words := make([]string, len(args))
		for i, arg := range args {
			words[i] = fmt.Sprint(arg)
		}
		reply, err := client.Do(ctx, client.B().Arbitrary(command).Args(words...).Build()).ToAny()
		if rueidis.IsRedisNil(err) {
			return nil, nil
		}
		return reply, err
	}
}

// clients are two of one server: conn has one connection.
type clients struct{ pool, conn fence.Doer }

// do sends a command that is no part of a check.
func (c clients) do(t *testing.T, command string, args ...any) any {
	t.Helper()
	reply, err := c.pool.Do(t.Context(), command, args...)
	require.NoError(t, err)
	return reply
}

// eachClient runs a test with each client. go-redis reads some replies otherwise in RESP3; rueidis has no other protocol.
func eachClient(t *testing.T, test func(t *testing.T, c clients)) {
	for name, protocol := range map[string]int{"go-redis, RESP2": 2, "go-redis, RESP3": 3} {
		t.Run(name, func(t *testing.T) {
			server := testredis.Real(t, 1)[0]
			client := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: protocol, ContextTimeoutEnabled: true})
			conn := client.Conn()
			t.Cleanup(func() { assert.NoError(t, errors.Join(conn.Close(), client.Close())) })
			test(t, clients{goredis.Doer(client), goredis.Doer(conn)})
		})
	}
	t.Run("rueidis", func(t *testing.T) {
		server := testredis.Real(t, 1)[0]
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		conn, release := client.Dedicate()
		t.Cleanup(release)
		test(t, clients{overRueidis(client), overRueidis(conn)})
	})
}

func requireSeen(t *testing.T, err error, seen uint64) {
	t.Helper()
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, seen, stale.Seen)
}

func TestClients_RunCommandsAndScriptsBehindAFence(t *testing.T) {
	eachClient(t, func(t *testing.T, c clients) {
		replies, err := fence.Run(t.Context(), c.pool, guard, 34,
			fence.Command{"SET", fence.Key("a"), "text"},
			fence.Command{"GET", fence.Key("nothing")},
			fence.Command{"INCRBY", fence.Key("n"), 5},
			fence.Command{"MGET", fence.Key("a"), fence.Key("nothing")})
		require.NoError(t, err)
		require.Equal(t, []any{"OK", nil, int64(5), []any{"text", nil}}, replies)
		_, err = fence.Run(t.Context(), c.pool, guard, 33, fence.Command{"SET", fence.Key("a"), "late"})
		requireSeen(t, err, 34)
		_, err = fence.Run(t.Context(), c.pool, guard, 35, fence.Command{"INCR", fence.Key("a")})
		require.ErrorContains(t, err, "value is not an integer or out of range (command 1 of 1, INCR)")

		script, err := fence.NewScript("return redis.call('GET', KEYS[1])")
		require.NoError(t, err)
		for _, flush := range []bool{false, false, true} {
			if flush {
				c.do(t, "SCRIPT", "FLUSH")
			}
			text, err := script.Run(t.Context(), c.pool, guard, 35, []string{"a"})
			require.NoError(t, err)
			require.Equal(t, "text", text)
		}
		none, err := script.Run(t.Context(), c.pool, guard, 35, []string{"nothing"})
		require.NoError(t, err)
		require.Nil(t, none)
		c.do(t, "SET", guard, "garbage")
		_, err = script.Run(t.Context(), c.pool, guard, 35, []string{"a"})
		require.ErrorIs(t, err, fence.ErrGuard)
	})
}

func TestClients_RefuseATransactionOverAPool(t *testing.T) {
	eachClient(t, func(t *testing.T, c clients) {
		_, err := fence.Transact(t.Context(), c.pool, guard, 33, func() error { panic("called") })
		require.ErrorIs(t, err, fence.ErrInvalid)
		require.Equal(t, "PONG", c.do(t, "PING"))
		require.Nil(t, c.do(t, "GET", guard))
	})
}

func TestClients_RunATransactionBehindAFenceOnOneConnection(t *testing.T) {
	eachClient(t, func(t *testing.T, c clients) {
		queue := func(command string, args ...any) error {
			_, err := c.conn.Do(t.Context(), command, args...)
			return err
		}
		set := func(value string) func() error {
			return func() error { return queue("SET", "a", value) }
		}
		replies, err := fence.Transact(t.Context(), c.conn, guard, 33, set("first"))
		require.NoError(t, err)
		require.Equal(t, []any{"OK"}, replies)
		ctx, cancel := context.WithCancel(t.Context())
		_, err = fence.Transact(ctx, c.conn, guard, 33, func() error {
			cancel()
			return set("late")()
		})
		require.ErrorIs(t, err, context.Canceled)
		_, err = fence.Transact(t.Context(), c.conn, guard, 33, func() error {
			_, err := fence.Run(t.Context(), c.pool, guard, 34)
			return errors.Join(err, set("late")())
		})
		require.ErrorIs(t, err, fence.ErrConflict)
		_, err = fence.Transact(t.Context(), c.conn, guard, 33, set("late"))
		requireSeen(t, err, 34)
		require.Equal(t, "first", c.do(t, "GET", "a"))

		replies, err = fence.Transact(t.Context(), c.conn, guard, 35, func() error {
			return errors.Join(queue("INCR", "a"), queue("INCR", "n"))
		})
		require.ErrorContains(t, err, "command 1 of 2: ")
		require.ErrorContains(t, err, "value is not an integer")
		require.Len(t, replies, 2)
		require.Equal(t, int64(1), replies[1])
	})
}

func TestClients_TheContextOfTheCallerEndsARun(t *testing.T) {
	eachClient(t, func(t *testing.T, c clients) {
		c.do(t, "CLIENT", "PAUSE", 500, "WRITE")
		ctx, cancel := context.WithTimeout(t.Context(), settleLook)
		defer cancel()
		_, err := fence.Run(ctx, c.pool, guard, 33)
		require.Error(t, err, "it waited for the server")
	})
}

func TestGoRedis_GuardKeySharesTheHashTagOnRedisCluster(t *testing.T) {
	server := testredis.Real(t, 1, "--cluster-enabled", "yes")[0]
	_, err := server.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	require.NoError(t, err)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	defer client.Close()
	require.Eventually(t, func() bool { return errors.Is(client.Get(t.Context(), guard).Err(), redis.Nil) }, settleBound, settleLook)
	c := goredis.Doer(client)

	_, err = fence.Run(t.Context(), c, guard, 33, fence.Command{"SET", fence.Key("{account}:a"), 1}, fence.Command{"INCR", "{account}:a"})
	require.NoError(t, err)
	_, err = fence.Run(t.Context(), c, guard, 34, fence.Command{"SET", fence.Key("{account}:a"), 9}, fence.Command{"SET", fence.Key("elsewhere"), 9})
	require.ErrorContains(t, err, "CROSSSLOT")
	require.Equal(t, "33", client.Get(t.Context(), guard).Val(), "nothing was done")
	require.Equal(t, "2", client.Get(t.Context(), "{account}:a").Val(), "nothing was done")
	script, err := fence.NewScript("return redis.call('INCR', KEYS[1])")
	require.NoError(t, err)
	for want := range int64(2) {
		n, err := script.Run(t.Context(), c, guard, 34, []string{"{account}:n"})
		require.NoError(t, err)
		require.Equal(t, want+1, n)
	}
}
