package pool_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lua"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// The first look was queued with what would make it watched, and goes out on a link that does not track yet.
func TestALookOnALaterLinkThanItWasQueuedForIsNotWatched(t *testing.T) {
	for name, lost := range map[string]bool{"with its caching": false, "without it": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				goOn := make(chan struct{})
				f := newEarFake(t, func(c *peer, args []string) (string, bool) {
					if c.number == 1 && args[0] == "SET" {
						<-goOn // and reads no more until then
					}
					if c.number != 1 && args[0] == "EVAL" && args[1] == lua.Look().Source {
						looks++
					}
					return "", false
				})
				node := f.open(t, pool.WithTimeout(time.Minute), pool.WithMaxOverdue(time.Hour))
				l := listen(node, "")
				require.Equal(t, "0 hearing", l.next(t))
				requireWatched(t, node, "key")

				send(node, pool.Acquire("being read", "token", ttl))
				synctest.Wait()
				send(node, pool.Acquire("being written", "token", ttl))
				synctest.Wait()
				long := strings.Repeat("x", 1000) // more than the server reads at a time
				for range 63 {                    // and the caching: the next write
					send(node, pool.Acquire(long, "token", ttl))
				}
				look := send(node, pool.Look("key"))
				if lost {
					goOn <- struct{}{}
					goOn <- struct{}{}
					synctest.Wait() // it hangs again, in the first of those
				}
				_ = f.peer(1).Close()
				close(goOn)
				reply := look.next(t)
				require.Equal(t, pool.Yes, reply.Answer)
				require.False(t, reply.Watched)
				require.Equal(t, 1, looks)
				wantCachings := 1
				if lost {
					wantCachings = 0
				}
				require.Equal(t, wantCachings, f.count("3 CLIENT CACHING"))

				require.Equal(t, "0 deaf", l.next(t))
				require.Equal(t, "0 hearing", l.next(t))
				requireWatched(t, node, "key")
			})
		})
	}
}

func TestALookIsWatchedOnlyIfItsCachingWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		f := newEarFake(t, func(_ *peer, args []string) (string, bool) {
			return "-NOPERM no\r\n", refuse.Load() && args[0] == "CLIENT" && args[1] == "CACHING"
		})
		node := f.open(t)
		l := listen(node, "")
		require.Equal(t, "0 hearing", l.next(t))
		for i := range 6 {
			refuse.Store(i%2 == 1)
			reply := ask(t, node, pool.Look("key"))
			require.Equal(t, pool.Yes, reply.Answer)
			require.Equal(t, i%2 == 0, reply.Watched)
			require.False(t, ask(t, node, pool.Acquire("key", "token", ttl)).Watched)
		}
	})
}

// Between the end of an ear and the next tracking nobody is told of changes.
func TestALookWhileTheNodeIsDeafIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		f := newEarFake(t, func(c *peer, args []string) (string, bool) {
			return "-ERR max number of clients reached\r\n", down.Load() && c.number > 2
		})
		node := f.open(t)
		l := listen(node, "")
		require.Equal(t, "0 hearing", l.next(t))
		down.Store(true)
		require.NoError(t, f.peer(2).Close())
		require.Equal(t, "0 deaf", l.next(t))
		require.False(t, ask(t, node, pool.Look("key")).Watched)
		down.Store(false)
		require.Equal(t, "0 hearing", l.next(t))
		requireWatched(t, node, "key")
	})
}

// The link still tracks then, for an ear that is gone.
func TestALookBehindATrackingThatIsRefusedIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEarFake(t, func(_ *peer, args []string) (string, bool) {
			if strings.Join(args, " ") != "CLIENT TRACKING ON REDIRECT 3 OPTIN" {
				return "", false
			}
			pass(40 * time.Millisecond)
			return "-NOPERM not any more\r\n", true
		})
		node := f.open(t)
		l := listen(node, "")
		require.Equal(t, "0 hearing", l.next(t))
		require.NoError(t, f.peer(2).Close())
		require.Equal(t, "0 deaf", l.next(t))
		pass(25 * time.Millisecond)
		require.Equal(t, 1, f.count("REDIRECT 3"), "it has not been asked for yet")
		reply := ask(t, node, pool.Look("key"))
		require.Equal(t, pool.Yes, reply.Answer)
		require.False(t, reply.Watched)
		require.Empty(t, l)
	})
}

// What the server did not carry out is not watched, whatever came before it.
func TestALookThatIsRefusedIsNotWatched(t *testing.T) {
	server, node := restricted(t, "allchannels", "-eval")
	listen(node, "").await(t, "0 hearing")
	for range 2 {
		reply := ask(t, node, pool.Look("key"))
		requireRefused(t, reply, "NOPERM")
		require.False(t, reply.Watched)
	}
	requireCalls(t, server, "client|caching", 2)
}

// Whenever what is cut: a look that is watched has the change told, or that the node was deaf.
func TestNoChangeIsMissedWhileConnectionsAreCut(t *testing.T) {
	onBothNodes(t, []pool.Option{patient()}, func(t *testing.T, server *redistest.Process, node *pool.Node) {
		l := listen(node, "")
		l.await(t, "0 hearing")
		watched := 0
		for i := 0; watched < 30; i++ {
			for len(l) > 0 {
				<-l
			}
			cut := make(chan error, 1)
			go func() {
				if kind := []string{"", "normal", "pubsub"}[i%3]; kind != "" {
					_, err := server.Do("CLIENT", "KILL", "TYPE", kind)
					cut <- err
				}
				close(cut)
			}()
			reply := ask(t, node, pool.Look("key"))
			require.NoError(t, <-cut) // which would cut what changes the key as well
			if reply.Watched {
				watched++
				do(t, server, "INCR", "key")
				l.next(t)
			}
		}
	})
}
