package sim_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/sim"
	"github.com/quorumlock/quorumlock/pool"
)

// inbox is where the answer to a command arrives.
type inbox chan pool.Reply

func (b inbox) Reply(_ int, _ *pool.Command, reply pool.Reply) { b <- reply }

// Random commands, each carried out by a real server, as package pool sends it, and by the simulated one: the same answers,
// and the same keys with the same TTLs afterwards.
func TestASimulatedNodeUnderstandsCommandsAsRedisDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	server := redistest.Real(t, 1)[0]
	nodes, err := pool.Open([]string{server.URL()}, pool.WithTimeout(20*time.Second))
	require.NoError(t, err)
	defer nodes[0].Close()

	simulated, now := sim.NewKeyspace(), int64(0) // no time goes by but where a key lapses
	for step := range 3000 {
		key, token := fmt.Sprint("key-", r.IntN(3)), fmt.Sprint("token-", r.IntN(3))
		ttl := time.Duration(1+r.IntN(4)) * time.Hour
		if r.IntN(10) == 0 { // the end of all TTLs
			_, err := server.Do("FLUSHALL")
			require.NoError(t, err)
			simulated.Flush()
			now += 5 * time.Hour.Milliseconds()
			continue
		}
		var real *pool.Command
		verb := sim.AcquireCommand
		switch r.IntN(8) {
		case 0:
			real = pool.Acquire(key, token, ttl)
		case 1:
			verb, real = sim.ReleaseCommand, pool.Release(key, token, ttl)
		case 2:
			verb, real = sim.ExtendCommand, pool.Extend(key, token, ttl)
		case 3:
			verb, real = sim.RestoreCommand, pool.Restore(key, token, ttl)
		case 4:
			verb, real = sim.ForceCommand, pool.Force(key)
		case 5:
			requireSameLook(t, nodes[0], simulated, key, now)
			continue
		case 6:
			_, err := server.Do("SET", key, token)
			require.NoError(t, err)
			simulated.Stray(key, token)
			continue
		case 7:
			verb, real = sim.HealCommand, pool.Heal(key, token)
		}
		replies := make(inbox, 1)
		nodes[0].Send(time.Now(), real, replies, 0)
		reply := <-replies
		got := simulated.Do(verb, key, token, ttl.Milliseconds(), now)
		what := fmt.Sprintf("step %d: %v of %s under %s for %v", step, verb, token, key, ttl)
		switch {
		case reply.Answer == pool.Yes:
			require.Equal(t, 1, got, what)
		case reply.Answer == pool.Planted:
			require.Equal(t, 2, got, what)
		case verb != sim.AcquireCommand && errors.Is(reply.Err, pool.ErrHeld):
			require.Equal(t, -1, got, what)
		default:
			require.Equal(t, pool.No, reply.Answer, what)
			require.Equal(t, 0, got, what)
		}
		requireSameKeys(t, server, simulated, now, what)
	}
}

func requireSameLook(t *testing.T, node *pool.Node, simulated *sim.Keyspace, key string, now int64) {
	replies := make(inbox, 1)
	node.Send(time.Now(), pool.Look(key), replies, 0)
	reply := <-replies
	token, ttl, held := simulated.Look(key, now)
	require.Equal(t, held, reply.Answer == pool.Yes, "look at %s", key)
	if held {
		require.Equal(t, token, reply.Value)
		require.InDelta(t, ttl, reply.TTL.Milliseconds(), float64(30*time.Minute.Milliseconds()))
	} else {
		require.Equal(t, pool.No, reply.Answer)
	}
}

func requireSameKeys(t *testing.T, server *redistest.Process, simulated *sim.Keyspace, now int64, what string) {
	for i := range 3 {
		key := fmt.Sprint("key-", i)
		token, ttl := simulated.Left(key, now)
		held, err := redis.String(server.Do("GET", key))
		if !errors.Is(err, redis.ErrNil) {
			require.NoError(t, err)
		}
		require.Equal(t, token, held, what)
		left, err := redis.Int64(server.Do("PTTL", key))
		require.NoError(t, err)
		if token != "" {
			require.InDelta(t, ttl, left, float64(30*time.Minute.Milliseconds()), what)
		}
	}
}

// A key lives to the end of its last millisecond, which the simulated nodes rely on.
func TestASimulatedKeyLapsesWhenARealOneDoes(t *testing.T) {
	simulated := sim.NewKeyspace()
	require.Equal(t, 1, simulated.Do(sim.AcquireCommand, "key", "token", 100, 0))
	token, _ := simulated.Left("key", 100)
	require.Equal(t, "token", token)
	token, _ = simulated.Left("key", 101)
	require.Empty(t, token)
}
