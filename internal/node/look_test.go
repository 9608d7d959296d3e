package node_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func withLooks(every time.Duration) option { return func(c *node.Config) { c.LookEvery = every } }

// named are servers behind one name, which leads to the first one.
type named struct {
	testredis.Name
	servers []*testredis.Process
}

func newNamed(t *testing.T) *named {
	s := &named{servers: testredis.Real(t, 2)}
	s.Lead(s.servers[0])
	return s
}

// pool makes a redigo pool of the name.
func (s *named) pool() *redis.Pool {
	return &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
		conn, err := s.Dial(ctx, "tcp", "")
		return redis.NewConn(conn, 0, 0), err
	}}
}

// requireServedBy waits until what the node is asked is answered by a server.
func requireServedBy(t *testing.T, n *node.Node, server *testredis.Process) {
	t.Helper()
	process := testredis.Info(t, server, "server", "run_id")
	require.Eventually(t, func() bool { return ask(t, n, newRelease("nothing", "token", ttl)).Server == process }, bound, tick)
}

// The danger: programs that know the former server and those that connect later hold the same lock.
func TestLook_ANameThatMovesWhileTheFormerServerLivesEndsTheConnection(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, s *named) *node.Node{
		"connects": func(t *testing.T, s *named) *node.Node {
			return open(t, "name", withDialer(s.Dial), withLooks(50*time.Millisecond), patient())
		},
		"wrapped": func(t *testing.T, s *named) *node.Node {
			return wrap(t, s.pool(), withLooks(50*time.Millisecond), patient())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newNamed(t)
			n := open(t, s)
			for _, to := range []int{0, 1, 0} {
				s.Lead(s.servers[to])
				requireServedBy(t, n, s.servers[to])
				requireYes(t, n, newAcquire(fmt.Sprint("key ", to), "token", ttl))
				requireYes(t, n, newRelease(fmt.Sprint("key ", to), "token", ttl))
			}
		})
	}
}

// The danger: the program has used its pool, too, and the node is handed a connection to the former server again and again.
func TestLook_WhatAPoolHasKeptFromTheFormerServerIsDropped(t *testing.T) {
	s := newNamed(t)
	redisPool := s.pool()
	n := wrap(t, redisPool, withLooks(time.Second), patient())
	kept := []redis.Conn{redisPool.Get(), redisPool.Get(), redisPool.Get()}
	for _, conn := range kept {
		_, err := conn.Do("PING")
		require.NoError(t, err)
	}
	requireServedBy(t, n, s.servers[0])
	for _, conn := range kept {
		require.NoError(t, conn.Close())
	}
	s.Lead(s.servers[1])
	looks := s.Dials()
	requireServedBy(t, n, s.servers[1])
	require.LessOrEqual(t, s.Dials()-looks, 4, "one look has to be enough: a second one only if it began before the name moved")
}

func TestLook_AFailureOrTheSameServerSaysNothing(t *testing.T) {
	for name, other := range map[string]func(f *fake, c *peer) string{
		"the same server": func(*fake, *peer) string { return testredis.Bulk("# Server\r\nrun_id:fake\r\n") },
		"who is unknown":  func(*fake, *peer) string { return testredis.Bulk("# Server\r\n") },
		"a replica":       func(*fake, *peer) string { return testredis.Bulk("# Server\r\nrun_id:another\r\nrole:slave\r\n") },
		"a refusal":       func(*fake, *peer) string { return "-NOAUTH Authentication required.\r\n" },
		"no answer":       func(f *fake, _ *peer) string { <-f.end; return "" },
		"a hang-up":       func(_ *fake, c *peer) string { _ = c.Close(); return "" },
	} {
		bubble(t, name, func(t *testing.T) {
			var f *fake
			f = newFake(t, func(c *peer, args []string) string {
				if c.number > 1 {
					return other(f, c)
				}
				return likeRedis(c, args)
			})
			n := f.open(t, withLooks(time.Minute), withDialTimeout(time.Second))
			requireYes(t, n, newAcquire("key", "token", ttl))
			pass(10 * time.Minute)
			requireYes(t, n, newAcquire("key", "token", ttl))
			require.Greater(t, f.connections(), 10)
			require.Equal(t, 2, f.count("1 SET key"))
		})
	}
}

// Who operates the server finds no further command, and no further connection with a name.
func TestLook_AsksWhoTheServerIsAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		n := f.open(t, withLooks(time.Minute), withLogin("user", "pw"), withClientName("name"), withDatabase(3))
		requireYes(t, n, newAcquire("key", "token", ttl))
		pass(time.Minute)
		synctest.Wait()
		require.Equal(t, 2, f.connections())
		require.Equal(t, 3, f.count("2 "))
		for _, words := range []string{"2 AUTH user pw", "2 INFO server", "2 INFO replication"} {
			require.Equal(t, 1, f.count(words))
		}
	})
}

func TestLook_ComesWithinHalfAndAWholeInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		n := f.open(t, withLooks(time.Minute))
		requireYes(t, n, newAcquire("key", "token", ttl))
		for looks := range 20 {
			pass(30*time.Second - time.Millisecond)
			synctest.Wait()
			require.Equal(t, 1+looks, f.connections())
			for f.connections() == 1+looks {
				pass(time.Millisecond)
				synctest.Wait()
			}
		}
	})
}

// What was written is answered first, so that nothing becomes unknown, and what comes meanwhile goes to the new server.
func TestLook_TheConnectionEndsWithItsLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		f := newFake(t, func(c *peer, args []string) string {
			text := strings.Join(args, " ")
			switch {
			case c.number > 1 && strings.HasPrefix(text, "INFO"):
				return testredis.Bulk("# Server\r\nrun_id:another\r\n")
			case c.number == 1 && strings.Contains(text, "slow"):
				<-answer
			}
			return likeRedis(c, args)
		})
		n := f.open(t, withLooks(time.Minute), withTimeout(time.Hour))
		requireYes(t, n, newAcquire("key", "token", ttl))
		pass(29 * time.Second)
		slow := send(n, newExtend("slow", "token", ttl))
		pass(time.Minute)
		later := send(n, newExtend("later", "token", ttl))
		pass(time.Minute)
		synctest.Wait()
		require.Equal(t, 2, f.connections(), "no further look, and no other connection yet")
		close(answer)
		requireReply(t, quorum.Yes, nil, slow.next(t))
		requireReply(t, quorum.Yes, nil, later.next(t))
		require.Equal(t, 3, f.connections())
		require.Equal(t, 1, f.count("later"))
		require.Contains(t, f.lastAsked(), "3 EVAL")
	})
}

// A look may hang.
func TestLook_EndsWithItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, dials := newFake(t, nil), 0
		n := f.openUnowned(withLooks(time.Minute), withDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials++; dials > 1 {
				return hangingDial(ctx, network, address)
			}
			return f.dial(ctx, network, address)
		}), withDialTimeout(time.Hour))
		requireYes(t, n, newAcquire("key", "token", ttl))
		pass(10 * time.Minute)
		synctest.Wait()
		require.Equal(t, 2, dials, "one look at a time")
		begun := time.Now()
		require.NoError(t, n.Close())
		require.Zero(t, time.Since(begun))
	})
}

// A server that does not say who it is cannot be compared.
func TestLook_IsLeftOutIfTheServerDoesNotSayWhoItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, answering("INFO", "-NOPERM this user has no permissions to run the 'info' command\r\n"))
		n := f.open(t, withLooks(time.Minute))
		requireYes(t, n, newAcquire("key", "token", ttl))
		pass(time.Hour)
		require.Equal(t, 1, f.connections())
	})
}
