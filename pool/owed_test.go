package pool_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// Trap 3: an acquire whose answer is missing must not take effect after its release.

func TestAReleaseFollowsTheAcquireThatAFrozenServerHasNotReadYet(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), pool.WithTimeout(500*time.Millisecond), pool.WithMaxOverdue(time.Hour))
	requireBack(t, node)
	client := clients(t, server)
	server.Freeze()
	requireReply(t, pool.Maybe, pool.ErrTimeout, ask(t, node, pool.Acquire("key", "token", ttl)))
	requireReply(t, pool.Maybe, pool.ErrTimeout, ask(t, node, pool.Release("key", "token", ttl)))
	server.Thaw()
	requireCalls(t, server, "eval", 1)
	require.Empty(t, holds(t, server, "key"))
	require.Equal(t, client, clients(t, server), "on the same connection")
}

func TestAReleaseIsSentAgainOnTheNextConnectionUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var releases atomic.Int32
		f := newFake(t, func(c *peer, args []string) string {
			if isScript(args) && releases.Add(1) < 5 {
				_ = c.Close() // before the answer
				return ""
			}
			return likeRedis(c, args)
		})
		node := f.open(t)
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		requireReply(t, pool.Maybe, pool.ErrBroken, ask(t, node, pool.Release("key", "token", ttl)))
		pass(ttl / 2)
		require.EqualValues(t, 5, releases.Load())
		pass(2 * ttl)
		require.EqualValues(t, 5, releases.Load(), "it was sent after its answer")
	})
}

func TestOwedReleasesGoOutInOrderBeforeAnythingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		var f *fake
		f = newFake(t, func(c *peer, args []string) string {
			switch {
			case c.number == 1 && args[0] == "SET":
				<-f.end // and reads no more: what is written next hangs, and the rest is queued
			case args[0] == "SET":
				got = append(got, "acquire "+args[1])
			case isScript(args):
				got = append(got, "release "+args[3])
			}
			return likeRedis(c, args)
		})
		node := f.open(t)
		lost := []inbox{send(node, pool.Acquire("key", "token", ttl))}
		synctest.Wait()
		for i := range 4 {
			lost = append(lost, send(node, pool.Release(fmt.Sprint(i), "token", ttl)))
			synctest.Wait()
		}
		require.NoError(t, f.peer(1).Close())
		for i, reply := range lost {
			if i < 2 {
				requireReply(t, pool.Maybe, pool.ErrBroken, reply.next(t))
			} else {
				require.Equal(t, pool.Yes, reply.next(t).Answer)
			}
		}
		requireYes(t, node, pool.Acquire("next", "token", ttl))
		require.Equal(t, []string{"release 0", "release 1", "release 2", "release 3", "acquire next"}, got)
		for _, reply := range lost {
			require.Empty(t, reply, "told twice")
		}
	})
}

// breakable is a dialer of a fake that can be taken away.
type breakable struct {
	*fake
	down atomic.Bool
}

var errDown = errors.New("the network is down")

func (b *breakable) dial(context.Context, string, string) (net.Conn, error) {
	if b.down.Load() {
		return nil, errDown
	}
	return b.connect(), nil
}

// breakNetwork cuts the latest connection and lets no new one come about.
func (b *breakable) breakNetwork() {
	b.down.Store(true)
	_ = b.peer(b.connections()).Close()
}

func TestAReleaseIsForgottenWhenItIsNoLongerOwed(t *testing.T) {
	const owed = ttl
	for name, test := range map[string]struct {
		down time.Duration // for how long after the release
		want int32
	}{
		"the network is back before":     {owed - 2*time.Second, 1},
		"the network is back afterwards": {owed + time.Second, 0},
	} {
		for _, sent := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, written before: %v", name, sent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var releases atomic.Int32
					b := &breakable{fake: newFake(t, func(c *peer, args []string) string {
						if isScript(args) {
							if c.number == 1 {
								return ""
							}
							releases.Add(1)
						}
						return likeRedis(c, args)
					})}
					node := open(t, "redis://fake", pool.WithDialer(b.dial))
					requireYes(t, node, pool.Acquire("key", "token", ttl))
					if !sent {
						b.breakNetwork()
						synctest.Wait()
					}
					reply := send(node, pool.Release("key", "token", owed))
					synctest.Wait()
					if sent {
						b.breakNetwork()
					}
					require.Equal(t, pool.Maybe, reply.next(t).Answer)
					pass(test.down)
					b.down.Store(false)
					pass(1500 * time.Millisecond) // the longest pause between two attempts, and some more
					require.Equal(t, test.want, releases.Load())
				})
			})
		}
	}
}

func TestAReleaseOnANodeThatIsDownSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &breakable{fake: newFake(t, nil)}
		b.down.Store(true)
		node := open(t, "redis://fake", pool.WithDialer(b.dial))
		for range 10 {
			start := time.Now()
			reply := ask(t, node, pool.Release("key", "token", ttl))
			requireReply(t, pool.Maybe, errDown, reply)
			require.ErrorAs(t, reply.Err, new(*pool.ConnectError))
			require.LessOrEqual(t, time.Since(start), node.Timeout())
		}
	})
}

// What the network still holds back of a connection that was given up must not reach
// the key after the release came over the next one: the server is told to hang up first.
func TestAnAcquireThatTheNetworkHeldBackTakesNoEffectAfterTheRelease(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	network := newNetwork(t)
	node := open(t, server.URL(), pool.WithDialer(network.dial),
		pool.WithTimeout(200*time.Millisecond), pool.WithMaxOverdue(time.Millisecond), pool.WithDialTimeout(bound))
	require.Eventually(t, func() bool { return ask(t, node, pool.Acquire("other", "token", ttl)).Answer != pool.Unsent }, bound, tick)

	network.hold(0)
	requireReply(t, pool.Maybe, pool.ErrTimeout, ask(t, node, pool.Acquire("key", "token", ttl)))
	require.Eventually(t, func() bool { return network.count() == 2 }, bound, tick, "the connection is not given up")
	require.Eventually(t, func() bool {
		return ask(t, node, pool.Release("key", "token", ttl)).Answer == pool.No // there is no key yet
	}, bound, tick)
	network.deliver(0) // the acquire
	requireCalls(t, server, "client|kill", 1)
	require.Empty(t, holds(t, server, "key"))
}

func TestTheConnectionBeforeIsEndedOnlyWhereAnswersWereMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var killed []string
		f := newFake(t, func(c *peer, args []string) string {
			if args[0] == "CLIENT" && args[1] == "KILL" {
				killed = append(killed, args[3])
			}
			if args[0] == "SET" && c.number == 2 {
				return ""
			}
			return likeRedis(c, args)
		})
		node := f.open(t)
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		for number := 1; number <= 3; number++ {
			requireReplyOf(t, number == 2, send(node, pool.Acquire("key", "token", ttl)))
			require.NoError(t, f.peer(number).Close())
			pass(2 * time.Second)
		}
		require.Equal(t, []string{"2"}, killed)
	})
}

// requireReplyOf waits for a yes, or for the command to be under way where it is lost.
func requireReplyOf(t testing.TB, lost bool, reply inbox) {
	if lost {
		synctest.Wait()
	} else {
		require.Equal(t, pool.Yes, reply.next(t).Answer)
	}
}

// A new process knows no connection of the old one: the number may be anybody's by now.
func TestNobodyElsesConnectionIsEnded(t *testing.T) {
	for name, identity := range map[string]func(number int) string{
		"the server was restarted":     func(number int) string { return fmt.Sprintf("run_id:%d\r\n", number) },
		"the server tells no identity": func(int) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var kills atomic.Int32
				f := newFake(t, func(c *peer, args []string) string {
					switch {
					case args[0] == "INFO":
						return bulk(identity(c.number))
					case args[0] == "CLIENT" && args[1] == "KILL":
						kills.Add(1)
					case args[0] == "SET" && c.number == 1:
						return ""
					}
					return likeRedis(c, args)
				})
				node := f.open(t)
				reply := send(node, pool.Acquire("key", "token", ttl))
				synctest.Wait()
				require.NoError(t, f.peer(1).Close())
				requireReply(t, pool.Maybe, pool.ErrBroken, reply.next(t))
				requireYes(t, node, pool.Acquire("key", "token", ttl))
				require.Zero(t, kills.Load())
			})
		})
	}
}
