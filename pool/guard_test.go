package pool_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

const guard = 10 * time.Second

// requireQuarantined wants an acquire refused with so much time left.
func requireQuarantined(t *testing.T, node *pool.Node, left time.Duration) {
	t.Helper()
	for _, cmd := range []*pool.Command{pool.Acquire("key", "token", time.Second), pool.AcquireFenced("key", "token", time.Second, pool.Counter{})} {
		reply := ask(t, node, cmd)
		requireReply(t, pool.Unsent, pool.ErrQuarantined, reply)
		refusal := (*pool.QuarantineError)(nil)
		require.ErrorAs(t, reply.Err, &refusal)
		require.Equal(t, left, refusal.Left)
	}
}

// upSince answers like a server that came up at some time.
func upSince(t *testing.T, born time.Time, id *atomic.Int64) *fake {
	return newFake(t, func(c *peer, args []string) string {
		if args[0] == "INFO" {
			// As Redis does it: two times in whole seconds.
			up := time.Now().Unix() - born.Unix()
			return bulk(fmt.Sprintf("# Server\r\nrun_id:server-%d\r\nuptime_in_seconds:%d\r\nuptime_in_days:0\r\n", id.Load(), up))
		}
		return likeRedis(c, args)
	})
}

func TestAServerThatHasJustComeUpDoesNotVote(t *testing.T) {
	for _, up := range []time.Duration{0, 300 * time.Millisecond, time.Second, 4700 * time.Millisecond, 9 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			born := time.Now()
			pass(up)
			node := upSince(t, born, new(atomic.Int64)).open(t, pool.WithRestartGuard(guard))
			for {
				reply := ask(t, node, pool.Acquire("key", "token", time.Second))
				if reply.Answer == pool.Yes {
					break
				}
				require.ErrorIs(t, reply.Err, pool.ErrQuarantined)
				pass(50 * time.Millisecond)
			}
			age := time.Since(born)
			require.GreaterOrEqual(t, age, guard+guard/100, "it may have forgotten a lock")
			require.Less(t, age, guard+guard/100+2*time.Second+100*time.Millisecond)
			requireYes(t, node, pool.Acquire("key", "token", time.Second))
		})
	}
}

func TestAllButAcquiresIsAllowedInQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := upSince(t, time.Now(), new(atomic.Int64)).open(t, pool.WithRestartGuard(guard))
		for kind, cmd := range everyKind() {
			if kind != "acquire" && kind != "acquire with fencing" {
				requireYes(t, node, cmd)
			}
		}
		requireQuarantined(t, node, guard+guard/100)
		require.Equal(t, guard, node.MaxTTL())
	})
}

func TestAServerInThePlaceOfAnotherDoesNotVoteHoweverLongItHasBeenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		born, id := time.Now(), new(atomic.Int64)
		pass(time.Hour)
		f := upSince(t, born, id)
		node := f.open(t, pool.WithRestartGuard(guard))
		requireYes(t, node, pool.Acquire("key", "token", time.Second))
		require.NoError(t, f.peer(1).Close())
		synctest.Wait()
		requireYes(t, node, pool.Acquire("key", "token", time.Second)) // the same one

		id.Store(1)
		require.NoError(t, f.peer(2).Close())
		synctest.Wait()
		requireQuarantined(t, node, guard+guard/100)
		pass(time.Second)
		require.NoError(t, f.peer(3).Close()) // and is there again, which is no news
		synctest.Wait()
		requireQuarantined(t, node, guard+guard/100-time.Second)
		pass(guard + guard/100 - time.Second)
		requireYes(t, node, pool.Acquire("key", "token", time.Second))
	})
}

func TestAServerThatDoesNotTellItsUptimeNeverVotes(t *testing.T) {
	server := redistest.Mini(t, 1)[0]
	node := open(t, server.URL(), patient(), pool.WithRestartGuard(guard))
	requireQuarantined(t, node, 0)
	requireReply(t, pool.No, pool.ErrAbsent, ask(t, node, pool.Release("key", "token", ttl)))
	require.Empty(t, holds(t, server, "key"))
}

func TestWithoutAGuardEveryServerVotes(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient())
	requireYes(t, node, pool.Acquire("key", "token", ttl))
	require.Zero(t, node.MaxTTL())
}

func TestARealServerThatWasRestartedDoesNotVote(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node := open(t, server.URL(), patient(), pool.WithRestartGuard(time.Hour))
	for range 2 {
		reply := ask(t, node, pool.Acquire("key", "token", time.Second))
		requireReply(t, pool.Unsent, pool.ErrQuarantined, reply)
		require.ErrorContains(t, reply.Err, "the server may have forgotten locks: asked again in 1h0m")
		require.Empty(t, holds(t, server, "key"))
		server.Stop()
		server.Start()
		require.Eventually(t, func() bool {
			return ask(t, node, pool.Look("key")).Answer == pool.No
		}, bound, 10*time.Millisecond, "connected again")
	}
}

func TestDurableNodesAreExemptFromTheGuard(t *testing.T) {
	servers := redistest.Real(t, 2)
	nodes, err := pool.Open(redistest.URLs(servers), patient(), pool.WithRestartGuard(time.Hour), pool.WithDurable(func(i int) bool { return i == 1 }))
	require.NoError(t, err)
	for _, node := range nodes {
		defer closeInTime(t, node)
	}
	require.ErrorIs(t, ask(t, nodes[0], pool.Acquire("key", "token", ttl)).Err, pool.ErrQuarantined)
	requireYes(t, nodes[1], pool.Acquire("key", "token", ttl))
	require.Equal(t, time.Hour, nodes[0].MaxTTL())
	require.Zero(t, nodes[1].MaxTTL())
}

func TestOptionsOfTheGuardOutOfRange(t *testing.T) {
	for text, opts := range map[string][]pool.Option{
		"WithRestartGuard(0s)":             {pool.WithRestartGuard(0)},
		"WithRestartGuard(-1s)":            {pool.WithRestartGuard(-time.Second)},
		"WithRestartGuard(999µs)":          {pool.WithRestartGuard(time.Millisecond - time.Microsecond)},
		"WithDurable(nil)":                 {pool.WithRestartGuard(guard), pool.WithDurable(nil)},
		"WithDurable without WithRestartG": {pool.WithDurable(func(int) bool { return true })},
	} {
		_, err := pool.Open([]string{"redis://host"}, opts...)
		require.ErrorContains(t, err, text)
	}
}
