package integration_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

const guard = "{account}:guard"

// doer is what the clients of go-redis have in common.
type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// adapt is the example of fence.DoFunc.
func adapt(ctx context.Context, client doer) fence.DoFunc {
	return func(command string, args ...any) (any, error) {
		reply, err := client.Do(ctx, append([]any{command}, args...)...).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		return reply, err
	}
}

// eachProtocol runs a test with RESP2 and RESP3, in which go-redis reads some replies otherwise.
func eachProtocol(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	for name, protocol := range map[string]int{"RESP2": 2, "RESP3": 3} {
		t.Run(name, func(t *testing.T) {
			server := testredis.Real(t, 1)[0]
			client := redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: protocol})
			t.Cleanup(func() { assert.NoError(t, client.Close()) })
			test(t, client)
		})
	}
}

func requireSeen(t *testing.T, err error, seen uint64) {
	t.Helper()
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, seen, stale.Seen)
}

func TestGoRedis_RunsCommandsAndScriptsBehindAFence(t *testing.T) {
	eachProtocol(t, func(t *testing.T, client *redis.Client) {
		c := adapt(t.Context(), client)
		replies, err := fence.Run(c, guard, 34,
			fence.Command{"SET", fence.Key("a"), "text"},
			fence.Command{"GET", fence.Key("nothing")},
			fence.Command{"INCRBY", fence.Key("n"), 5})
		require.NoError(t, err)
		require.Equal(t, []any{"OK", nil, int64(5)}, replies)
		_, err = fence.Run(c, guard, 33, fence.Command{"SET", fence.Key("a"), "late"})
		requireSeen(t, err, 34)
		_, err = fence.Run(c, guard, 35, fence.Command{"INCR", fence.Key("a")})
		require.ErrorContains(t, err, "ERR value is not an integer or out of range (command 1 of 1, INCR)")

		script, err := fence.NewScript("return redis.call('GET', KEYS[1])")
		require.NoError(t, err)
		for _, flush := range []bool{false, false, true} {
			if flush {
				require.NoError(t, client.ScriptFlush(t.Context()).Err())
			}
			text, err := script.Run(c, guard, 35, []string{"a"})
			require.NoError(t, err)
			require.Equal(t, "text", text)
		}
		none, err := script.Run(c, guard, 35, []string{"nothing"})
		require.NoError(t, err)
		require.Nil(t, none)
		require.NoError(t, client.Set(t.Context(), guard, "garbage", 0).Err())
		_, err = script.Run(c, guard, 35, []string{"a"})
		require.ErrorIs(t, err, fence.ErrGuard)
	})
}

func TestGoRedis_RunsATransactionBehindAFenceOnOneConnection(t *testing.T) {
	eachProtocol(t, func(t *testing.T, client *redis.Client) {
		conn := client.Conn()
		defer conn.Close()
		c := adapt(t.Context(), conn)
		set := func(value string) func() error {
			return func() error { return conn.Do(t.Context(), "SET", "a", value).Err() }
		}
		replies, err := fence.Transact(c, guard, 33, set("first"))
		require.NoError(t, err)
		require.Equal(t, []any{"OK"}, replies)
		_, err = fence.Transact(c, guard, 33, func() error {
			_, err := fence.Run(adapt(t.Context(), client), guard, 34)
			return errors.Join(err, set("late")())
		})
		require.ErrorIs(t, err, fence.ErrConflict)
		_, err = fence.Transact(c, guard, 33, set("late"))
		requireSeen(t, err, 34)
		require.Equal(t, "first", client.Get(t.Context(), "a").Val())

		replies, err = fence.Transact(c, guard, 35, func() error {
			return errors.Join(conn.Do(t.Context(), "INCR", "a").Err(), conn.Do(t.Context(), "INCR", "n").Err())
		})
		require.ErrorContains(t, err, "command 1 of 2: ERR value is not an integer")
		require.Len(t, replies, 2)
		require.Equal(t, int64(1), replies[1])
	})
}

func TestGoRedis_GuardKeySharesTheHashTagOnRedisCluster(t *testing.T) {
	server := testredis.Real(t, 1, "--cluster-enabled", "yes")[0]
	_, err := server.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	require.NoError(t, err)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	defer client.Close()
	require.Eventually(t, func() bool { return errors.Is(client.Get(t.Context(), guard).Err(), redis.Nil) }, settleBound, settleLook)
	c := adapt(t.Context(), client)

	_, err = fence.Run(c, guard, 33, fence.Command{"SET", fence.Key("{account}:a"), 1}, fence.Command{"INCR", "{account}:a"})
	require.NoError(t, err)
	_, err = fence.Run(c, guard, 34, fence.Command{"SET", fence.Key("{account}:a"), 9}, fence.Command{"SET", fence.Key("elsewhere"), 9})
	require.ErrorContains(t, err, "CROSSSLOT")
	require.Equal(t, "33", client.Get(t.Context(), guard).Val(), "nothing was done")
	require.Equal(t, "2", client.Get(t.Context(), "{account}:a").Val(), "nothing was done")
	script, err := fence.NewScript("return redis.call('INCR', KEYS[1])")
	require.NoError(t, err)
	for want := range int64(2) {
		n, err := script.Run(c, guard, 34, []string{"{account}:n"})
		require.NoError(t, err)
		require.Equal(t, want+1, n)
	}
}
