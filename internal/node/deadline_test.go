package node_test

import (
	"errors"
	"maps"
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
	return requireWithin(t, n.Config().Timeout, n, cmd)
}

// requireWithin is requireInTime for another time.
func requireWithin(t *testing.T, timeout time.Duration, n *node.Node, cmd *wire.Command) wire.Reply {
	t.Helper()
	start := time.Now()
	replies := send(n, cmd)
	require.Zero(t, time.Since(start), "Send hangs")
	reply := replies.next(t)
	require.Equal(t, timeout, time.Since(start))
	require.ErrorIs(t, reply.Err, nodeerr.ErrTimeout)
	return reply
}

func TestDeadline_HoldsWhileConnectingHangs(t *testing.T) {
	stages := maps.Clone(hanging)
	stages["Dial of a wrapped pool"] = func(t testing.TB, _ ...option) *node.Node {
		end := make(chan struct{})
		n := wrap(t, &redis.Pool{Dial: func() (redis.Conn, error) {
			<-end // no context can end this
			return nil, errors.New("over")
		}})
		t.Cleanup(func() { close(end) })
		return n
	}
	stages["TestOnBorrow of a wrapped pool"] = func(t testing.TB, _ ...option) *node.Node {
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
	}
	for stage, open := range stages {
		for kind := range everyKind() {
			bubble(t, stage+", "+kind, func(t *testing.T) {
				n := open(t)
				reply := requireWithin(t, n.Config().DialTimeout, n, everyKind()[kind]) // nobody has waited for it yet
				requireNoContext(t, reply.Err)
				if strings.HasPrefix(kind, "release") {
					require.Equal(t, quorum.Unknown, reply.Answer, "it goes out later")
				} else {
					require.Equal(t, quorum.Unsent, reply.Answer)
					start := time.Now()
					requireReply(t, quorum.Unsent, nodeerr.ErrTimeout, ask(t, n, everyKind()[kind]))
					require.Zero(t, time.Since(start), "the next does not wait as well")
				}
			})
		}
	}
}

func TestDeadline_HoldsWhileTheAnswerIsMissing(t *testing.T) {
	for kind := range everyKind() {
		bubble(t, kind, func(t *testing.T) {
			n := newFake(t, func(c *peer, args []string) string {
				if args[0] == "HELLO" || args[0] == "INFO" || args[0] == "CLIENT" {
					return likeRedis(c, args)
				}
				return ""
			}).open(t, withMaxOverdue(time.Hour))
			require.Equal(t, quorum.Unknown, requireInTime(t, n, everyKind()[kind]).Answer)
			requireSuspended(t, n)
		})
	}
}

// requireSuspended fails the test unless a node whose answers are overdue is sent clean-up only, and nobody waits for it
// after the first.
func requireSuspended(t *testing.T, n *node.Node) {
	t.Helper()
	require.Equal(t, quorum.Unknown, requireInTime(t, n, newRelease("key", "first", ttl)).Answer)
	start := time.Now()
	requireReply(t, quorum.Unsent, nodeerr.ErrSuspended, ask(t, n, newAcquire("key", "token", ttl)))
	requireReply(t, quorum.Unknown, nodeerr.ErrSuspended, ask(t, n, newRelease("key", "token", ttl)))
	require.Zero(t, time.Since(start))
}

func TestDeadline_HoldsAfterALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := silentOn(t, "SET")
		n := f.open(t, withMaxOverdue(time.Hour))
		for range 3 {
			require.Equal(t, quorum.Unknown, requireInTime(t, n, newAcquire("key", "token", ttl)).Answer)
			f.send(t, 1, "+OK\r\n") // which makes the node good again
			synctest.Wait()
		}
		require.Equal(t, 1, f.connections())
	})
}

func TestDeadline_HoldsWhileWritingHangs(t *testing.T) {
	for kind := range everyKind() {
		bubble(t, kind, func(t *testing.T) {
			n := stuckOn(t, "SET").open(t, withMaxOverdue(time.Hour))
			start := time.Now()
			read := send(n, newAcquire("read", "token", ttl))
			synctest.Wait()
			hangs := send(n, everyKind()[kind])
			synctest.Wait()
			behind := send(n, newAcquire("behind", "token", ttl))
			require.Zero(t, time.Since(start), "Send hangs")
			requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, read.next(t))
			requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, hangs.next(t))
			requireReply(t, quorum.Unsent, nodeerr.ErrTimeout, behind.next(t))
			require.Equal(t, n.Config().Timeout, time.Since(start))
			requireSuspended(t, n)
		})
	}
}
