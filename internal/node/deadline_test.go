package node_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// requireInTime fails the test unless the command ends with the node timeout, and Send at once.
func requireInTime(t *testing.T, n *node.Node, cmd *wire.Command) wire.Reply {
	t.Helper()
	start := time.Now()
	replies := send(n, cmd)
	require.Zero(t, time.Since(start), "Send hangs")
	reply := replies.next(t)
	require.Equal(t, n.Config().Timeout, time.Since(start))
	require.ErrorIs(t, reply.Err, nodeerr.ErrTimeout)
	return reply
}

func TestDeadline_HoldsWhileConnectingHangs(t *testing.T) {
	for stage, open := range map[string]func(t testing.TB) *node.Node{
		"credentials": func(t testing.TB) *node.Node {
			return newFake(t, nil).open(t, withCredentials(func(ctx context.Context) (string, string, error) {
				<-ctx.Done()
				return "", "", ctx.Err()
			}))
		},
		"dial": func(t testing.TB) *node.Node {
			return open(t, "host", withDialer(hangingDial))
		},
		"TLS": func(t testing.TB) *node.Node {
			return open(t, "host", withDialer(blackHole(t)), withTLS(&tls.Config{ServerName: "host"}))
		},
		"AUTH": func(t testing.TB) *node.Node {
			return silentOn(t, "AUTH").open(t, withLogin("", "pw"))
		},
		"SELECT": func(t testing.TB) *node.Node {
			return silentOn(t, "SELECT").open(t, withDatabase(1))
		},
		"SETNAME":  func(t testing.TB) *node.Node { return silentOn(t, "CLIENT SETNAME").open(t, withClientName("name")) },
		"greeting": func(t testing.TB) *node.Node { return silentOn(t, "INFO").open(t) },
		"identity": func(t testing.TB) *node.Node { return silentOn(t, "CLIENT").open(t) },
		"Dial of a wrapped pool": func(t testing.TB) *node.Node {
			end := make(chan struct{})
			n := wrap(t, &redis.Pool{Dial: func() (redis.Conn, error) {
				<-end // no context can end this
				return nil, errors.New("over")
			}})
			t.Cleanup(func() { close(end) })
			return n
		},
		"TestOnBorrow of a wrapped pool": func(t testing.TB) *node.Node {
			end := make(chan struct{})
			redisPool := newFake(t, nil).pool()
			require.NoError(t, redisPool.Get().Close()) // there is one to borrow
			redisPool.TestOnBorrow = func(redis.Conn, time.Time) error {
				<-end
				return nil
			}
			n := wrap(t, redisPool)
			t.Cleanup(func() { close(end) })
			return n
		},
		"turn at a wrapped pool": func(t testing.TB) *node.Node {
			redisPool := newFake(t, nil).pool()
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
						require.Equal(t, quorum.Unknown, reply.Answer, "it goes out later")
					} else {
						require.Equal(t, quorum.Unsent, reply.Answer)
					}
				})
			})
		}
	}
}

func TestDeadline_HoldsWhileTheAnswerIsMissing(t *testing.T) {
	for kind := range everyKind() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFake(t, func(c *peer, args []string) string {
					if args[0] == "HELLO" || args[0] == "INFO" || args[0] == "CLIENT" {
						return likeRedis(c, args)
					}
					return ""
				}).open(t, withMaxOverdue(time.Hour))
				require.Equal(t, quorum.Unknown, requireInTime(t, n, everyKind()[kind]).Answer)
				// What is sent to a node that is suspect is clean-up, and has the same timeout.
				pass(time.Second)
				require.Equal(t, quorum.Unknown, requireInTime(t, n, newRelease("key", "token", ttl)).Answer)
			})
		})
	}
}

func TestDeadline_HoldsAfterALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := silentOn(t, "SET")
		n := f.open(t, withMaxOverdue(time.Hour))
		for range 3 {
			require.Equal(t, quorum.Unknown, requireInTime(t, n, newAcquire("key", "token", ttl)).Answer)
			_, err := io.WriteString(f.peer(1), "+OK\r\n") // which makes the node good again
			require.NoError(t, err)
			synctest.Wait()
		}
		require.Equal(t, 1, f.connections())
	})
}

func TestDeadline_HoldsWhileWritingHangs(t *testing.T) {
	for kind := range everyKind() {
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
				n := f.open(t, withMaxOverdue(time.Hour))
				requireYes(t, n, newAcquire("key", "token", ttl))
				require.Equal(t, quorum.Unknown, requireInTime(t, n, everyKind()[kind]).Answer)
				// The queue behind it is for clean-up only.
				requireReply(t, quorum.Unsent, nodeerr.ErrSuspended, ask(t, n, newAcquire("key", "token", ttl)))
				require.Equal(t, quorum.Unknown, requireInTime(t, n, newRelease("key", "token", ttl)).Answer)
			})
		})
	}
}

func TestDeadline_WhatIsBehindAHangingWriteIsUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *fake
		f = newFake(t, func(c *peer, args []string) string {
			if args[0] == "SET" {
				<-f.end // it has read one, and reads no more
			}
			return likeRedis(c, args)
		})
		n := f.open(t, withMaxOverdue(time.Hour))
		start := time.Now()
		read := send(n, newAcquire("read", "token", ttl))
		synctest.Wait()
		hanging := send(n, newAcquire("hanging", "token", ttl))
		synctest.Wait()
		behind := send(n, newAcquire("behind", "token", ttl))
		require.Zero(t, time.Since(start), "Send hangs")
		requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, read.next(t))
		requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, hanging.next(t))
		requireReply(t, quorum.Unsent, nodeerr.ErrTimeout, behind.next(t))
		require.Equal(t, n.Config().Timeout, time.Since(start))
	})
}
