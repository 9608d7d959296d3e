package pool_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
)

// Traps 13 and 14: whatever it is that hangs, every command ends with the node timeout.
// Within synctest time stands still while anything happens, so that "with" means exactly.

// everyKind makes one command of each kind.
func everyKind() map[string]*pool.Command {
	return map[string]*pool.Command{
		"acquire": pool.Acquire("key", "token", ttl),
		"release": pool.Release("key", "token", ttl),
		"extend":  pool.Extend("key", "token", ttl),
		"restore": pool.Restore("key", "token", ttl),
		"force":   pool.Force("key"),

		"acquire with fencing": pool.AcquireFenced("key", "token", ttl, pool.Counter{}),
		"raise":                pool.Raise("key", "token", 1, 2),
		"release with fencing": pool.ReleaseFenced("key", "token", 1, ttl),
		"extend with fencing":  pool.ExtendFenced("key", "token", 1, ttl, ttl),
		"restore with fencing": pool.RestoreFenced("key", "token", 1, ttl, ttl),

		"heal":    pool.Heal("key", "token"),
		"look":    pool.Look("key"),
		"publish": pool.Publish("channel", "message"),
	}
}

// requireInTime fails the test unless the command ends with the node timeout, and Send at once.
func requireInTime(t *testing.T, node *pool.Node, cmd *pool.Command) pool.Reply {
	t.Helper()
	start := time.Now()
	replies := send(node, cmd)
	require.Zero(t, time.Since(start), "Send hangs")
	reply := replies.next(t)
	require.Equal(t, node.Timeout(), time.Since(start))
	require.ErrorIs(t, reply.Err, pool.ErrTimeout)
	return reply
}

// blackHole is a dialer whose connections swallow everything.
func blackHole(t testing.TB) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = ours.Close() })
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		return theirs, nil
	}
}

// silentOn makes a fake that does not answer one command.
func silentOn(t testing.TB, command string) *fake { return newFake(t, answering(command, "")) }

func TestNoCommandOutlivesItsTimeoutWhenConnectingHangs(t *testing.T) {
	for stage, open := range map[string]func(t testing.TB) *pool.Node{
		"credentials": func(t testing.TB) *pool.Node {
			return newFake(t, nil).open(t, pool.WithCredentials(func(ctx context.Context) (string, string, error) {
				<-ctx.Done()
				return "", "", ctx.Err()
			}))
		},
		"dial": func(t testing.TB) *pool.Node {
			return open(t, "redis://host", pool.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}))
		},
		"TLS": func(t testing.TB) *pool.Node { return open(t, "rediss://host", pool.WithDialer(blackHole(t))) },
		"AUTH": func(t testing.TB) *pool.Node {
			return open(t, "redis://:pw@host", pool.WithDialer(silentOn(t, "AUTH").dial))
		},
		"SELECT": func(t testing.TB) *pool.Node {
			return open(t, "redis://host/1", pool.WithDialer(silentOn(t, "SELECT").dial))
		},
		"SETNAME":  func(t testing.TB) *pool.Node { return silentOn(t, "CLIENT").open(t, pool.WithClientName("name")) },
		"greeting": func(t testing.TB) *pool.Node { return silentOn(t, "INFO").open(t) },
		"identity": func(t testing.TB) *pool.Node { return silentOn(t, "CLIENT").open(t) },
		"Dial of a wrapped pool": func(t testing.TB) *pool.Node {
			end := make(chan struct{})
			node := wrap(t, &redis.Pool{Dial: func() (redis.Conn, error) {
				<-end // no context can end this
				return nil, errors.New("over")
			}})
			t.Cleanup(func() { close(end) })
			return node
		},
		"TestOnBorrow of a wrapped pool": func(t testing.TB) *pool.Node {
			end := make(chan struct{})
			redisPool := wrappable(newFake(t, nil))
			require.NoError(t, redisPool.Get().Close()) // there is one to borrow
			redisPool.TestOnBorrow = func(redis.Conn, time.Time) error {
				<-end
				return nil
			}
			node := wrap(t, redisPool)
			t.Cleanup(func() { close(end) })
			return node
		},
		"turn at a wrapped pool": func(t testing.TB) *pool.Node {
			redisPool := wrappable(newFake(t, nil))
			redisPool.MaxActive, redisPool.Wait = 1, true
			busy := redisPool.Get()
			t.Cleanup(func() { require.NoError(t, busy.Close()) })
			return wrap(t, redisPool)
		},
	} {
		for kind := range everyKind() {
			t.Run(stage+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					reply := requireInTime(t, open(t), everyKind()[kind])
					if strings.HasPrefix(kind, "release") {
						require.Equal(t, pool.Maybe, reply.Answer, "it goes out later")
					} else {
						require.Equal(t, pool.Unsent, reply.Answer)
					}
				})
			})
		}
	}
}

// A restore that has been written is another matter, see restore_test.go.
var untilTimeout = []string{"acquire", "acquire with fencing", "raise", "extend with fencing", "release with fencing", "release", "extend", "force", "heal", "look", "publish"}

func TestNoCommandOutlivesItsTimeoutWhenTheAnswerHangs(t *testing.T) {
	for _, kind := range untilTimeout {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := newFake(t, func(c *peer, args []string) string {
					if args[0] == "INFO" || args[0] == "CLIENT" {
						return likeRedis(c, args)
					}
					return ""
				}).open(t, pool.WithMaxOverdue(time.Hour))
				require.Equal(t, pool.Maybe, requireInTime(t, node, everyKind()[kind]).Answer)
				// What is sent to a node that is suspect is clean-up, and has the same timeout.
				pass(time.Second)
				require.Equal(t, pool.Maybe, requireInTime(t, node, pool.Release("key", "token", ttl)).Answer)
			})
		})
	}
}

func TestNoCommandOutlivesItsTimeoutAfterALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := silentOn(t, "SET")
		node := f.open(t, pool.WithMaxOverdue(time.Hour))
		for range 3 {
			require.Equal(t, pool.Maybe, requireInTime(t, node, pool.Acquire("key", "token", ttl)).Answer)
			_, err := io.WriteString(f.peer(1), "+OK\r\n") // which makes the node good again
			require.NoError(t, err)
			synctest.Wait()
		}
		require.Equal(t, 1, f.connections())
	})
}

func TestNoCommandOutlivesItsTimeoutWhenWritingHangs(t *testing.T) {
	for _, kind := range untilTimeout {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f *fake
				f = newFake(t, func(c *peer, args []string) string {
					if args[0] != "SET" {
						return likeRedis(c, args)
					}
					_, _ = io.WriteString(c, "+OK\r\n")
					<-f.end // it reads no more, and nothing is under way
					return ""
				})
				node := f.open(t, pool.WithMaxOverdue(time.Hour))
				requireYes(t, node, pool.Acquire("key", "token", ttl))
				require.Equal(t, pool.Maybe, requireInTime(t, node, everyKind()[kind]).Answer)
				// The queue behind it is for clean-up only.
				requireReply(t, pool.Unsent, pool.ErrSuspended, ask(t, node, pool.Acquire("key", "token", ttl)))
				require.Equal(t, pool.Maybe, requireInTime(t, node, pool.Release("key", "token", ttl)).Answer)
				require.Equal(t, pool.Unsent, requireInTime(t, node, pool.Restore("key", "token", ttl)).Answer)
			})
		})
	}
}

func TestACommandWhoseWriteHangsIsMaybeAndThoseBehindItAreUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *fake
		f = newFake(t, func(c *peer, args []string) string {
			if args[0] == "SET" {
				<-f.end // it has read one, and reads no more
			}
			return likeRedis(c, args)
		})
		node := f.open(t, pool.WithMaxOverdue(time.Hour))
		start := time.Now()
		read := send(node, pool.Acquire("read", "token", ttl))
		synctest.Wait()
		hanging := send(node, pool.Acquire("hanging", "token", ttl))
		synctest.Wait()
		behind := send(node, pool.Acquire("behind", "token", ttl))
		require.Zero(t, time.Since(start), "Send hangs")
		requireReply(t, pool.Maybe, pool.ErrTimeout, read.next(t))
		requireReply(t, pool.Maybe, pool.ErrTimeout, hanging.next(t))
		requireReply(t, pool.Unsent, pool.ErrTimeout, behind.next(t))
		require.Equal(t, node.Timeout(), time.Since(start))
	})
}
