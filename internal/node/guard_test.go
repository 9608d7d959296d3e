package node_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

const guard = 10 * time.Second

// requireQuarantined wants an acquire refused with so much time left.
func requireQuarantined(t *testing.T, n *node.Node, left time.Duration) {
	t.Helper()
	for _, cmd := range []*wire.Command{
		newAcquire("key", "token", time.Second), newAcquireFenced("key", "token", time.Second, counted{}),
		newAcquireAll("token", time.Second, "key", "beside"), newAcquireAllFenced("token", time.Second, counted{}, "key", "beside"),
	} {
		reply := ask(t, n, cmd)
		requireReply(t, quorum.Unsent, nodeerr.ErrQuarantined, reply)
		refusal := (*nodeerr.QuarantineError)(nil)
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

func TestGuard_AServerThatHasJustComeUpDoesNotVote(t *testing.T) {
	for _, up := range []time.Duration{0, 300 * time.Millisecond, time.Second, 4700 * time.Millisecond, 9 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			pass(700 * time.Millisecond) // so that it may report a second too much
			born := time.Now()
			pass(up)
			n := upSince(t, born, new(atomic.Int64)).open(t, withGuard(guard))
			for {
				reply := ask(t, n, newAcquire("key", "token", time.Second))
				if reply.Answer == quorum.Yes {
					break
				}
				require.ErrorIs(t, reply.Err, nodeerr.ErrQuarantined)
				pass(50 * time.Millisecond)
			}
			age := time.Since(born)
			require.GreaterOrEqual(t, age, guard+guard/100, "it may have forgotten a lock")
			require.Less(t, age, guard+guard/100+2*time.Second+100*time.Millisecond)
			requireYes(t, n, newAcquire("key", "token", time.Second))
		})
	}
}

func TestGuard_AllButAcquiresIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := upSince(t, time.Now(), new(atomic.Int64)).open(t, withGuard(guard))
		for kind, cmd := range everyKind() {
			if !strings.HasPrefix(kind, "acquire") {
				requireYes(t, n, cmd)
			}
		}
		requireQuarantined(t, n, guard+guard/100)
		require.Equal(t, guard, n.Config().MaxTTL)
	})
}

func TestGuard_AServerInThePlaceOfAnotherDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := new(atomic.Int64)
		f := upSince(t, time.Now().Add(-time.Hour), id)
		n := f.open(t, withGuard(guard))
		for number := 1; number <= 2; number++ { // it is the same one
			requireYes(t, n, newAcquire("key", "token", time.Second))
			require.NoError(t, f.peer(number).Close())
			synctest.Wait()
		}
		id.Store(1)
		require.NoError(t, f.peer(3).Close())
		synctest.Wait()
		requireQuarantined(t, n, guard+guard/100)
	})
}

func TestGuard_AServerWithoutAnUptimeNeverVotes(t *testing.T) {
	server := testredis.Mini(t, 1)[0]
	n := open(t, server.Addr(), patient(), withGuard(guard))
	requireQuarantined(t, n, 0)
	requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, newRelease("key", "token", ttl)))
	require.Empty(t, holds(t, server, "key"))
}

func TestGuard_ARealServerThatWasRestartedDoesNotVote(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	n := open(t, server.Addr(), patient(), withGuard(time.Hour))
	for range 2 {
		reply := ask(t, n, newAcquire("key", "token", time.Second))
		requireReply(t, quorum.Unsent, nodeerr.ErrQuarantined, reply)
		require.ErrorContains(t, reply.Err, "the server may have forgotten locks: asked again in 1h0m")
		require.Empty(t, holds(t, server, "key"))
		server.Stop()
		server.Start()
		require.Eventually(t, func() bool {
			return ask(t, n, form.Exclusive{}.Observe("key")).Answer == quorum.No
		}, bound, 10*time.Millisecond, "connected again")
	}
}
