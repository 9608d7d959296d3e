package goredis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/goredis"
	"github.com/quorumlock/quorumlock/adapters/internal/clustertest"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

const guard = "{account-7}:guard"

// cluster starts a Redis Cluster of two masters, and makes a client of it.
func cluster(t *testing.T) goredis.Processor {
	t.Helper()
	servers := testredis.Real(t, 2, "--cluster-enabled", "yes")
	clustertest.Join(t, servers...)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses(servers)})
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func addresses(servers []*testredis.Process) (addrs []string) {
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

func TestDoer_WritesBehindAFence(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) goredis.Processor{
		"RESP2": func(t *testing.T) goredis.Processor {
			return client(t, &redis.Options{Addr: testredis.Real(t, 1)[0].Addr(), Protocol: 2})
		},
		"RESP3": func(t *testing.T) goredis.Processor {
			return client(t, &redis.Options{Addr: testredis.Real(t, 1)[0].Addr()})
		},
		"connection": func(t *testing.T) goredis.Processor {
			conn := client(t, &redis.Options{Addr: testredis.Real(t, 1)[0].Addr()}).Conn()
			t.Cleanup(func() { assert.NoError(t, conn.Close()) })
			return conn
		},
		"cluster": cluster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := goredis.Doer(start(t))
			replies, err := fence.Run(t.Context(), c, guard, 34,
				fence.Command{"SET", fence.Key("{account-7}"), "text"},
				fence.Command{"GET", fence.Key("{account-7}:nothing")},
				fence.Command{"INCRBY", fence.Key("{account-7}:n"), 5},
				fence.Command{"MGET", fence.Key("{account-7}"), fence.Key("{account-7}:nothing")})
			require.NoError(t, err)
			require.Equal(t, []any{"OK", nil, int64(5), []any{"text", nil}}, replies)
			_, err = fence.Run(t.Context(), c, guard, 33, fence.Command{"SET", fence.Key("{account-7}"), "late"})
			var stale *fence.StaleError
			require.ErrorAs(t, err, &stale)
			require.EqualValues(t, 34, stale.Seen)
			_, err = fence.Run(t.Context(), c, guard, 34, fence.Command{"INCR", fence.Key("{account-7}")})
			require.ErrorContains(t, err, "value is not an integer")

			script, err := fence.NewScript("return redis.call('GET', KEYS[1])")
			require.NoError(t, err)
			for range 2 {
				text, err := script.Run(t.Context(), c, guard, 34, []string{"{account-7}"})
				require.NoError(t, err)
				require.Equal(t, "text", text)
			}
			none, err := c.Do(t.Context(), "GET", "{account-7}:nothing")
			require.NoError(t, err)
			require.Nil(t, none)
			hash, err := c.Do(t.Context(), "SCRIPT", "LOAD", "return 1")
			require.NoError(t, err)
			require.Equal(t, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", hash)
		})
	}
}

func TestDoer_RunsATransactionOnOneConnection(t *testing.T) {
	t.Parallel()
	c := client(t, &redis.Options{Addr: testredis.Real(t, 1)[0].Addr()})
	conn := c.Conn()
	defer conn.Close()
	over := goredis.Doer(conn)
	replies, err := fence.Transact(t.Context(), over, guard, 33, func() error { return conn.Set(t.Context(), "a", "first", 0).Err() })
	require.NoError(t, err)
	require.Equal(t, []any{"OK"}, replies)
	_, err = fence.Transact(t.Context(), over, guard, 33, func() error {
		_, err := fence.Run(t.Context(), goredis.Doer(c), guard, 34)
		return errors.Join(err, conn.Set(t.Context(), "a", "late", 0).Err())
	})
	require.ErrorIs(t, err, fence.ErrConflict)
}

func TestDoer_RunsATransactionOverTheConnectionThatWatchPassesOn(t *testing.T) {
	t.Parallel()
	c := client(t, &redis.Options{Addr: testredis.Real(t, 1)[0].Addr()})
	require.NoError(t, c.Watch(t.Context(), func(tx *redis.Tx) error {
		over := goredis.Doer(struct{ *redis.Tx }{tx}) // also a type that embeds it
		replies, err := fence.Transact(t.Context(), over, guard, 33, func() error { return tx.Set(t.Context(), "a", "first", 0).Err() })
		require.Equal(t, []any{"OK"}, replies)
		return err
	}))
	require.Equal(t, "first", c.Get(t.Context(), "a").Val())
}

// The other commands of the program would get between MULTI and EXEC, and their replies would be QUEUED.
func TestDoer_SendsNothingOverAPoolThatNeedsOneConnection(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1)[0]
	one := client(t, &redis.Options{Addr: server.Addr(), PoolSize: 1})
	batches, err := one.AutoPipeline()
	require.NoError(t, err)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"shard": server.Addr()}})
	universal := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { require.NoError(t, errors.Join(batches.Close(), ring.Close(), universal.Close())) })
	for name, c := range map[string]goredis.Processor{
		"pool of one": one, "auto-pipeline": batches, "ring": ring, "universal": universal, "cluster": cluster(t),
		"embedded": struct{ *redis.Client }{one},
	} {
		t.Run(name, func(t *testing.T) {
			over := goredis.Doer(c)
			_, err := fence.Transact(t.Context(), over, guard, 33, func() error { panic("called") })
			require.ErrorIs(t, err, fence.ErrInvalid)
			require.NotContains(t, err.Error(), "\n")
			require.ErrorContains(t, err, "WATCH needs one connection")
			for _, words := range [][]any{{"multi"}, {"exec"}, {"discard"}, {"unwatch"}, {"select", 1}, {"subscribe", "channel"}} {
				_, err := over.Do(t.Context(), words[0].(string), words[1:]...)
				require.ErrorIs(t, err, fence.ErrInvalid)
			}
			_, err = fence.Run(t.Context(), over, guard, 33, fence.Command{"GET", fence.Key(guard)})
			require.NoError(t, err)
		})
	}
	stats, err := server.Do("INFO", "commandstats")
	require.NoError(t, err)
	require.Contains(t, string(stats.([]byte)), "cmdstat_eval")
	for _, command := range []string{"multi", "exec", "discard", "watch", "unwatch", "select", "subscribe"} {
		require.NotContains(t, string(stats.([]byte)), "cmdstat_"+command+":")
	}
}

// lossy loses the reply to every script.
type lossy struct {
	net.Conn
	scripts *atomic.Int32
	lost    atomic.Bool
}

func (c *lossy) Write(b []byte) (int, error) {
	if strings.Contains(strings.ToUpper(string(b)), "\r\nEVAL") {
		c.scripts.Add(1)
		c.lost.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *lossy) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.lost.Load() {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func TestDoer_SendsAScriptOnceIfItsReplyIsLost(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1)[0]
	var scripts atomic.Int32
	c := client(t, &redis.Options{Addr: server.Addr(), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &lossy{Conn: conn, scripts: &scripts}, err
	}})
	_, err := fence.Run(t.Context(), goredis.Doer(c), guard, 1, fence.Command{"INCR", fence.Key("n")})
	require.Error(t, err)
	require.EqualValues(t, 1, scripts.Load())
	require.Error(t, c.Eval(t.Context(), "return 1", nil).Err())
	require.EqualValues(t, 5, scripts.Load(), "go-redis itself sends a script four times")
}

func TestDoer_RefusesAPipeline(t *testing.T) {
	t.Parallel()
	pipeline := client(t, &redis.Options{}).Pipeline()
	_, err := fence.Run(t.Context(), goredis.Doer(pipeline), guard, 1, fence.Command{"INCR", fence.Key("n")})
	require.ErrorContains(t, err, "pipeline")
	require.ErrorIs(t, err, fence.ErrInvalid)
	require.Zero(t, pipeline.Len())
}

// hook is a hook of a client that does something in the place of a command.
type hook func(cmd redis.Cmder, next redis.ProcessHook) error

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return h(cmd, next) }
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestDoer_TheHooksOfTheClientSeeEachCommand(t *testing.T) {
	t.Parallel()
	c := client(t, &redis.Options{Addr: testredis.Real(t, 1)[0].Addr()})
	var seen []string
	c.AddHook(hook(func(cmd redis.Cmder, next redis.ProcessHook) error {
		seen = append(seen, cmd.Name())
		return next(t.Context(), cmd)
	}))
	_, err := fence.Run(t.Context(), goredis.Doer(c), guard, 1, fence.Command{"SET", fence.Key("{account-7}"), "text"})
	require.NoError(t, err)
	reply, err := goredis.Doer(c).Do(t.Context(), "GET", "{account-7}")
	require.NoError(t, err)
	require.Equal(t, "text", reply)
	require.Contains(t, seen, "get")
	require.Subset(t, []string{"hello", "client", "evalsha", "eval", "get"}, seen)

	open := errors.New("the circuit is open")
	c.AddHook(hook(func(redis.Cmder, redis.ProcessHook) error { return open }))
	_, err = fence.Run(t.Context(), goredis.Doer(c), guard, 2)
	require.ErrorIs(t, err, open)
}

// The danger: a transaction watches nothing, because a hook has not passed the WATCH on.
func TestDoer_ACommandWithoutAReplyIsAnError(t *testing.T) {
	t.Parallel()
	c := client(t, &redis.Options{Addr: testredis.Real(t, 1)[0].Addr()})
	conn := c.Conn()
	defer conn.Close()
	conn.AddHook(hook(func(cmd redis.Cmder, next redis.ProcessHook) error {
		if cmd.Name() == "watch" {
			return nil
		}
		return next(t.Context(), cmd)
	}))
	_, err := fence.Transact(t.Context(), goredis.Doer(conn), guard, 1, func() error { return conn.Set(t.Context(), "a", "b", 0).Err() })
	require.ErrorContains(t, err, "no reply and no error")
	exists, err := c.Exists(t.Context(), "a", guard).Result()
	require.NoError(t, err)
	require.Zero(t, exists)

	_, err = goredis.Doer(queued{c.Pipeline()}).Do(t.Context(), "GET", "a")
	require.ErrorContains(t, err, "the command is in a queue")
}

// queued hides that it is a pipeline.
type queued struct{ goredis.Processor }

func TestDoer_ChecksTheFenceOfALock(t *testing.T) {
	t.Parallel()
	var options []*redis.Options
	for _, s := range testredis.Real(t, 3) {
		options = append(options, &redis.Options{Addr: s.Addr()})
	}
	nodes, err := goredis.Open(options)
	require.NoError(t, err)
	locker, err := redlock.New(nodes, redlock.WithFencing())
	require.NoError(t, err)
	data := goredis.Doer(client(t, &redis.Options{Addr: testredis.Real(t, 1)[0].Addr()}))
	var before uint64
	for range 2 {
		require.NoError(t, locker.Do(t.Context(), "account-7", func(ctx context.Context, lock *redlock.Lock) error {
			_, err := fence.Run(ctx, data, guard, lock.Fence(), fence.Command{"INCRBY", fence.Key("{account-7}:balance"), 10})
			if before != 0 {
				_, late := fence.Run(ctx, data, guard, before, fence.Command{"DEL", fence.Key("{account-7}:balance")})
				require.ErrorIs(t, late, fence.ErrStale)
			}
			before = lock.Fence()
			return err
		}))
	}
	balance, err := data.Do(t.Context(), "GET", "{account-7}:balance")
	require.NoError(t, err)
	require.Equal(t, "20", balance)
	require.NoError(t, locker.Close())
	for _, n := range nodes {
		require.NoError(t, n.Close())
	}
}
