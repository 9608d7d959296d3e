package pool_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// Trap 21: a connection that announces nothing any more does not do so in silence.

// impatient makes a node that soon takes a silent server for dead.
func impatient() []pool.Option {
	return []pool.Option{
		pool.WithTimeout(200 * time.Millisecond), pool.WithMaxOverdue(100 * time.Millisecond), pool.WithDialTimeout(time.Second),
	}
}

// ofType returns the numbers of the server's connections of a type, without the one that asks.
func ofType(t testing.TB, server redistest.Server, kind string) []string {
	t.Helper()
	list, err := redis.String(do(t, server, "CLIENT", "LIST", "TYPE", kind), nil)
	require.NoError(t, err)
	var numbers []string
	for client := range strings.Lines(list) {
		if !strings.Contains(client, " cmd=client|list ") {
			number, _, _ := strings.Cut(strings.TrimPrefix(client, "id="), " ")
			numbers = append(numbers, number)
		}
	}
	return numbers
}

func TestAnEarThatIsKilledIsDeafAtOnceAndHearsAgain(t *testing.T) {
	onBothNodes(t, []pool.Option{patient()}, func(t *testing.T, server *redistest.Process, node *pool.Node) {
		l := listen(node, "channel")
		require.Equal(t, "0 hearing", l.next(t))
		for range 3 {
			ears, links := ofType(t, server, "pubsub"), ofType(t, server, "normal")
			require.Len(t, ears, 1)
			do(t, server, "CLIENT", "KILL", "ID", ears[0])
			require.Equal(t, "0 deaf", l.next(t))
			require.Equal(t, "0 hearing", l.next(t))
			requireTold(t, server, node, l)
			require.Equal(t, links, ofType(t, server, "normal"), "the node's link has been replaced")
			requireSubscribed(t, server, "channel", 1)
		}
	})
}

func TestTrackingIsSetAgainWhenTheLinkIsCut(t *testing.T) {
	onBothNodes(t, []pool.Option{patient()}, func(t *testing.T, server *redistest.Process, node *pool.Node) {
		l := listen(node, "")
		require.Equal(t, "0 hearing", l.next(t))
		ears := ofType(t, server, "pubsub")
		for range 3 {
			requireWatched(t, node, "key")
			do(t, server, "CLIENT", "KILL", "TYPE", "normal")
			require.Equal(t, "0 deaf", l.next(t), "what was looked at is not tracked any more")
			require.Equal(t, "0 hearing", l.next(t))
			requireTold(t, server, node, l)
			require.Equal(t, ears, ofType(t, server, "pubsub"), "the ear has been replaced")
		}
	})
}

func TestANodeHearsAgainAfterARestartOfItsServer(t *testing.T) {
	onBothNodes(t, []pool.Option{patient()}, func(t *testing.T, server *redistest.Process, node *pool.Node) {
		l := listen(node, "channel")
		require.Equal(t, "0 hearing", l.next(t))
		for range 3 {
			server.Stop()
			require.Equal(t, "0 deaf", l.next(t))
			server.Start()
			require.Equal(t, "0 hearing", l.next(t))
			requireTold(t, server, node, l)
			requireSubscribed(t, server, "channel", 1)
		}
	})
}

func TestANodeHearsAgainAfterItsServerWasFrozen(t *testing.T) {
	onBothNodes(t, impatient(), func(t *testing.T, server *redistest.Process, node *pool.Node) {
		l := listen(node, "")
		require.Equal(t, "0 hearing", l.next(t))
		for range 2 {
			server.Freeze()
			requireReply(t, pool.Maybe, pool.ErrTimeout, ask(t, node, pool.Look("key")))
			l.await(t, "0 deaf")
			server.Thaw()
			l.await(t, "0 hearing")
			// Where the ear gave way between two attempts of the node, it hears a second time.
			require.Eventually(t, func() bool { return ask(t, node, pool.Look("told")).Watched }, bound, tick)
			requireTold(t, server, node, l)
		}
	})
}

func TestAnEarIsMadeAfterTheLinkAndTracksWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEarFake(t, nil)
		l := listen(f.open(t), "channel")
		synctest.Wait()
		require.Equal(t, "0 hearing", l.next(t))
		require.Equal(t, 1, f.count("2 SUBSCRIBE __redis__:invalidate"))
		require.Equal(t, 1, f.count("2 SUBSCRIBE channel"))
		require.Equal(t, 1, f.count("1 CLIENT TRACKING ON REDIRECT 2 OPTIN"))
		pass(9 * time.Second)
		require.Empty(t, l)
		require.Equal(t, 1, f.count("PING"), "the ear, once it has been told of")
	})
}

// Trap 30 for the ear: nothing else may ever come over it, so it is asked now and then.
func TestAnEarWhoseServerIsDeadIsReplaced(t *testing.T) {
	for name, frozen := range map[string]bool{"it does not answer": false, "it does not even read": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f *earFake
				var dead atomic.Bool
				f = newEarFake(t, func(c *peer, args []string) (string, bool) {
					if c.number == 2 && args[0] == "PING" && dead.Load() {
						if frozen {
							<-f.end
						}
						return "", true
					}
					return "", false
				})
				node := f.open(t)
				l := listen(node, "")
				synctest.Wait()
				require.Equal(t, "0 hearing", l.next(t))
				dead.Store(true)
				start := time.Now()
				require.Equal(t, "0 deaf", l.next(t))
				require.LessOrEqual(t, time.Since(start), 12*time.Second)
				require.Equal(t, "0 hearing", l.next(t))
				require.Equal(t, 3, f.connections())
				pass(time.Hour)
				require.Empty(t, l)
				require.Equal(t, 3, f.connections(), "an ear that lives is kept")
			})
		})
	}
}

// Whatever cut the link may have taken the ear with it: that is not found out ten seconds later.
func TestAnEarIsTriedAtOnceWhenTheLinkIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead atomic.Bool
		f := newEarFake(t, func(c *peer, _ []string) (string, bool) { return "", c.number == 2 && dead.Load() })
		l := listen(f.open(t), "")
		require.Equal(t, "0 hearing", l.next(t))
		synctest.Wait()
		dead.Store(true)
		require.NoError(t, f.peer(1).Close())
		require.Equal(t, "0 deaf", l.next(t))
		require.Equal(t, "0 hearing", l.next(t))
		start := time.Now()
		require.Equal(t, "0 deaf", l.next(t))
		require.LessOrEqual(t, time.Since(start), 1100*time.Millisecond)
		require.Equal(t, "0 hearing", l.next(t))
	})
}

// A server with room for few clients, or a pool with few connections, has them for the locks.
func TestAnEarGivesWayWhereTheNodeCannotConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEarFake(t, nil)
		b := &breakable{fake: f.fake}
		l := listen(open(t, "redis://fake", pool.WithDialer(b.dial)), "channel")
		require.Equal(t, "0 hearing", l.next(t))
		b.down.Store(true)
		require.NoError(t, f.peer(1).Close())
		require.Equal(t, "0 deaf", l.next(t))
		pass(time.Second)
		_, err := f.peer(2).Write([]byte("x"))
		require.Error(t, err, "the ear is still there")
		b.down.Store(false)
		require.Equal(t, "0 hearing", l.next(t))
		require.Equal(t, 4, f.connections())
	})
}

// The number of an ear means nothing to another process: it may be anybody's there.
func TestAnEarAtAnotherProcessThanTheLinkIsNotRelied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newEarFake(t, func(c *peer, args []string) (string, bool) {
			return bulk(fmt.Sprintf("run_id:%v\r\n", c.number == 2)), args[0] == "INFO"
		})
		l := listen(f.open(t), "")
		require.Equal(t, "0 hearing", l.next(t))
		require.Zero(t, f.count("REDIRECT 2"))
		require.Equal(t, 1, f.count("REDIRECT 3"))
	})
}

func TestAnEarThatEndsAgainAndAgainIsNotMadeWithoutAPause(t *testing.T) {
	for name, more := range map[string]func(*peer, []string) (string, bool){
		"it is cut": func(c *peer, args []string) (string, bool) {
			if args[0] == "SUBSCRIBE" {
				_ = c.Close()
			}
			return "", false
		},
		"it talks nonsense": func(_ *peer, args []string) (string, bool) {
			return "*1\r\n+x\r\n", args[0] == "SUBSCRIBE"
		},
		"it answers something else": func(_ *peer, args []string) (string, bool) {
			return "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", args[0] == "SUBSCRIBE"
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newEarFake(t, more)
				l := listen(f.open(t), "")
				pass(time.Minute)
				require.Empty(t, l)
				require.Greater(t, f.connections(), 50)
				require.Less(t, f.connections(), 150)
			})
		})
	}
}

// A tracking whose answer is late has been given up; it is asked for again.
func TestTrackingIsAskedForAgainWhereItsAnswerWasLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := true
		f := newEarFake(t, func(_ *peer, args []string) (string, bool) {
			if args[0] == "CLIENT" && args[1] == "TRACKING" && late {
				late = false
				pass(100 * time.Millisecond)
			}
			return "", false
		})
		l := listen(f.open(t), "")
		require.Equal(t, "0 hearing", l.next(t))
		require.Equal(t, 2, f.count("TRACKING"))
	})
}

// A tracking that was under way when its ear ended says nothing about the next ear.
func TestTheTrackingOfAnEarThatIsGoneIsNotTakenForThatOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *earFake
		f = newEarFake(t, func(_ *peer, args []string) (string, bool) {
			switch strings.Join(args, " ") {
			case "CLIENT TRACKING ON REDIRECT 2 OPTIN":
				pass(40 * time.Millisecond)
			case "CLIENT TRACKING ON REDIRECT 3 OPTIN":
				return "-ERR not yet\r\n", f.count("REDIRECT 3") < 3
			}
			return "", false
		})
		l := listen(f.open(t), "")
		synctest.Wait()
		require.NoError(t, f.peer(2).Close())
		require.Equal(t, "0 hearing", l.next(t))
		require.Equal(t, 3, f.count("REDIRECT 3"))
		pass(time.Minute)
		require.Empty(t, l)
	})
}
