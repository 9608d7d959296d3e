package sim_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/sim"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// inbox is where the answer to a command arrives.
type inbox chan wire.Reply

func (b inbox) Reply(_ wire.Tag, reply *wire.Reply) { b <- *reply }

// Random commands, each carried out by a real server, as package pool sends it, and by the simulated one:
// the same answers, and the same keys and counters with the same TTLs afterwards.
func TestKeyspace_UnderstandsCommandsAsRedisDoes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p := newPair(t, seed, testredis.Lasting(t, testredis.Real(t, 1)[0]), nil)
	for step := range 3000 {
		p.step(step)
	}
	t.Log(p.answers)
	require.GreaterOrEqual(t, len(p.answers), 33, "nearly every command has had every answer: there are 36")
}

// pair is a real server and a simulated one.
type pair struct {
	*testing.T
	*refuser
	r         *rand.Rand
	server    testredis.Server
	node      *node.Node
	simulated *sim.Keyspace
	data      map[string]string // under the key of the counter of a key, if it is somebody's
	now       time.Duration     // no time goes by but when a key lapses
	block     int64             // how many numbers the last acquire has asked for
	what      string
	answers   map[string]int
}

func newPair(t *testing.T, seed uint64, server testredis.Server, f *refuser) *pair {
	nodes, err := pool.Open([]string{f.urlOf(server)}, pool.WithTimeout(20*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = nodes[0].Close() })
	return &pair{
		T: t, refuser: f, r: rand.New(rand.NewPCG(seed, 0)), server: server, node: (*node.Node)(nodes[0]), simulated: sim.NewKeyspace(),
		data: map[string]string{}, answers: map[string]int{},
	}
}

// step does one thing to both.
func (p *pair) step(step int) {
	key, token := fmt.Sprint("key-", p.r.IntN(3)), fmt.Sprint("token-", p.r.IntN(3))
	// No TTL is what another has left: the server's clock goes on.
	ttl := time.Duration(1+p.r.IntN(4))*time.Hour + time.Duration(step)*time.Second
	p.what = fmt.Sprintf("step %d: %s, %s, %v", step, key, token, ttl)
	switch n := p.r.IntN(22); n {
	case 0: // the end of all TTLs
		p.redis("FLUSHALL")
		p.simulated.Flush()
		p.now += 100 * time.Hour
	case 1:
		p.redis("SET", key, token)
		p.simulated.Stray(key, token)
	case 2: // a counter that was not used lately
		number := uint64(p.time()) - uint64(p.r.IntN(2*int(time.Minute/time.Microsecond)))
		p.redis("SET", counterOf(key), number, "PX", ttl.Milliseconds())
		p.simulated.Count(key, number, ttl, p.now)
	case 3:
		p.observe(key)
	case 4: // what is no counter, though Lua takes some of it for a number
		p.data[key] = []string{"data", "0", "-1", "3.14", "1e15", "0012", "inf", "9007199254740993"}[p.r.IntN(8)]
		p.redis("SET", counterOf(key), p.data[key])
		p.simulated.CounterData(key)
	case 6:
		p.redis("DEL", key)
		p.redis("RPUSH", key, "data")
		p.simulated.Data(key, sim.NoTTL, p.now)
		if p.r.IntN(2) == 0 {
			p.redis("PEXPIRE", key, ttl.Milliseconds())
			p.simulated.Data(key, ttl, p.now)
		}
	case 5:
		p.answers[p.do(key, p.together(token, ttl))]++
	default:
		cmd := p.plain(key, token, ttl)
		if n > 11 {
			cmd = p.fenced(key, token, ttl)
		}
		p.answers[p.do(key, cmd)]++
	}
}

func counterOf(key string) string { return "{" + key + "}:fence" }

func (p *pair) redis(command string, args ...any) any {
	reply, err := p.server.Do(command, args...)
	require.NoError(p, err, p.what)
	return reply
}

// time is the server's time of day, in microseconds.
func (p *pair) time() int64 {
	now, err := redis.Int64s(p.redis("TIME"), nil)
	require.NoError(p, err)
	return now[0]*1_000_000 + now[1]
}

// number is that which the server holds under key, beside the token.
func (p *pair) number(key string) (number uint64) {
	_, number, _ = p.simulated.Left(key, p.now)
	return number
}

// plain makes a random command without fencing.
func (p *pair) plain(key, token string, ttl time.Duration) *wire.Command {
	c, f, m := new(wire.Command), form.Exclusive{}, form.ID{Key: key, Token: token}
	switch p.r.IntN(5) {
	case 0:
		f.Acquire(c, m, form.Ask{TTL: ttl})
	case 1:
		f.Release(c, m, ttl)
	case 2:
		f.Extend(c, m, ttl)
	case 3:
		f.Remove(c, key, form.Observation{Value: token})
	default:
		c = form.Exclusive{}.Heal(key, token)
	}
	return c
}

// most is the highest number here: beyond, floating-point numbers are not exact.
const most = 1<<53 - 2

// fenced makes a random command with fencing. Its numbers are those that are there, or near them.
func (p *pair) fenced(key, token string, ttl time.Duration) *wire.Command {
	day := p.time()
	near := func(of uint64) uint64 {
		return []uint64{of, of, of, 0, of + 1, uint64(day), uint64(day) + 7}[p.r.IntN(7)]
	}
	counted, _ := p.simulated.Counted(key, p.now)
	number := min(most, near(p.number(key)))
	keep := []time.Duration{form.DefaultKeep, 48 * time.Hour}[p.r.IntN(2)]
	c, f, m := new(wire.Command), form.Fenced{Keep: keep}, form.ID{Key: key, Token: token, Number: number}
	switch p.r.IntN(7) {
	case 0, 1:
		ahead := []time.Duration{-time.Hour, -3 * time.Second, -300 * time.Millisecond, 300 * time.Millisecond, time.Hour}[p.r.IntN(5)]
		a := form.Ask{TTL: ttl, Advance: p.r.IntN(3) == 0, Time: uint64(day + ahead.Microseconds())}
		a.Floor = []uint64{0, 0, counted, uint64(day) + 3_600_000_000, 1<<53 - 3}[p.r.IntN(5)]
		a.Block = []uint64{0, 0, 1, 2, 1000, form.MaxBlock, form.MaxBlock + 1}[p.r.IntN(7)]
		p.block = int64(max(1, a.Block))
		f.Acquire(c, m, a)
	case 2:
		f.Raise(c, m, number, min(most, near(counted))+1)
	case 3:
		f.Release(c, m, ttl)
	case 4:
		form.Exclusive{}.Remove(c, key, form.Observation{Value: value(token, max(1, number))})
	case 5:
		f.Remove(c, key, form.Observation{Value: value(token, number), Token: token, Fence: number})
	default:
		m.Number++ // a lock that is held has one
		f.Extend(c, m, ttl)
	}
	return c
}

// together makes a random command that takes the locks of two or three keys. Its numbers do not depend on the server's clock, which may go on
// from one to the next.
func (p *pair) together(token string, ttl time.Duration) *wire.Command {
	c, day, first := new(wire.Command), p.time(), p.r.IntN(3)
	ahead := []time.Duration{-300 * time.Millisecond, 300 * time.Millisecond}[p.r.IntN(2)]
	var ids []form.ID
	var asks []form.Ask
	for i := range 2 + p.r.IntN(2) {
		key := fmt.Sprint("key-", (first+i)%3)
		counted, _ := p.simulated.Counted(key, p.now)
		a := form.Ask{TTL: ttl, Advance: p.r.IntN(3) == 0, Time: uint64(day + ahead.Microseconds())}
		a.Floor = []uint64{0, 0, 0, 0, counted, uint64(day) + 3_600_000_000, 1<<53 - 3, 1<<53 - 2}[p.r.IntN(8)]
		ids, asks = append(ids, form.ID{Key: key, Token: token}), append(asks, a)
	}
	if p.r.IntN(2) == 0 { // as a rule one of them is in the way
		for i, m := range ids {
			p.redis("DEL", m.Key)
			p.simulated.Delete(m.Key)
			if p.r.IntN(4) == 0 {
				p.redis("DEL", counterOf(m.Key))
				p.simulated.Count(m.Key, 0, 0, p.now)
			}
			p.what += fmt.Sprintf(", %s above %d", m.Key, asks[i].Floor)
		}
	}
	if p.r.IntN(2) == 0 {
		form.Exclusive{}.AcquireAll(c, ids, asks)
	} else {
		keep := []time.Duration{form.DefaultKeep, 48 * time.Hour}[p.r.IntN(2)]
		(&form.Fenced{Keep: keep}).AcquireAll(c, ids, asks)
	}
	return c
}

// do carries out a command on both and compares. It returns what was answered to what.
func (p *pair) do(key string, cmd *wire.Command) string {
	before, script, replies := p.time(), p.carrier(cmd), make(inbox, 1)
	p.begin(p.T, p.r, p.simulated)
	require.NoError(p.T, p.node.Send(time.Now(), cmd, replies, wire.Tag{}))
	reply := <-replies
	// What the server's clock has shown meanwhile can be seen from what it counts.
	wall := before
	if counted, err := redis.Int64(p.server.Do("GET", counterOf(key))); err == nil {
		if reply.Number() > 0 {
			counted -= p.block
		}
		if counted >= before && counted <= p.time() {
			wall = counted
		}
	}
	what := sim.Does(cmd)
	p.what += ", " + what
	simulated := p.simulated.Do(cmd, script, p.now, wall)
	p.end(p.T, p.simulated, what, cmd, &simulated)
	p.equal(&reply, &simulated)
	require.Len(p, simulated.Each, len(reply.Each), p.what)
	for i := range reply.Each {
		p.equal(&reply.Each[i], &simulated.Each[i])
	}
	p.same()
	return fmt.Sprint(what, " ", reply.Answer, " ", errors.Is(reply.Err, nodeerr.ErrAbsent))
}

// equal compares the replies to a command, or what they say of one of its keys.
func (p *pair) equal(reply, simulated *wire.Reply) {
	require.Equal(p, reply.Answer, simulated.Answer, "%s: %v, %v", p.what, reply.Err, simulated.Err)
	require.Equal(p, reply.Number(), simulated.Number(), p.what)
	require.Equal(p, codeOf(reply.Err), codeOf(simulated.Err), "%s: %v, %v", p.what, reply.Err, simulated.Err)
	for _, reason := range []error{nodeerr.ErrAbsent, nodeerr.ErrHeld, nodeerr.ErrNoExpiry, nodeerr.ErrForeign, nodeerr.ErrRecreated, form.ErrOthersHeld} {
		require.Equal(p, errors.Is(reply.Err, reason), errors.Is(simulated.Err, reason), "%s: %v, %v", p.what, reply.Err, simulated.Err)
	}
}

const tolerance = float64(30 * time.Minute)

func (p *pair) observe(key string) {
	replies := make(inbox, 1)
	require.NoError(p.T, p.node.Send(time.Now(), form.Exclusive{}.Observe(key), replies, wire.Tag{}))
	reply, simulated := <-replies, p.simulated.Do(form.Exclusive{}.Observe(key), nil, p.now, 0)
	require.Equal(p, reply.Answer, simulated.Answer, "observation of %s", key)
	require.Equal(p, reply.Value, simulated.Value)
	require.Equal(p, errors.Is(simulated.Err, nodeerr.ErrForeign), errors.Is(reply.Err, nodeerr.ErrForeign))
	require.InDelta(p, simulated.TTL, reply.TTL, tolerance)
}

// value is what a key holds.
func value(token string, number uint64) string {
	if number == 0 {
		return token
	}
	return fmt.Sprintf("%s|%d", token, number)
}

// same compares all keys and counters.
func (p *pair) same() {
	for i := range 3 {
		key := fmt.Sprint("key-", i)
		token, number, ttl := p.simulated.Left(key, p.now)
		p.holds(key, value(token, number), ttl)
		counted, kept := p.simulated.Counted(key, p.now)
		text := ""
		if counted > 0 {
			text = fmt.Sprint(counted)
		}
		if p.simulated.ReservedData(key) {
			text, kept = p.data[key], sim.NoTTL
		}
		p.holds(counterOf(key), text, kept)
	}
}

// holds checks one on the real server.
func (p *pair) holds(key, value string, ttl time.Duration) {
	held, err := redis.String(p.server.Do("GET", key))
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		held, err = "data", nil
	}
	if !errors.Is(err, redis.ErrNil) {
		require.NoError(p, err)
	}
	require.Equal(p, value, held, "%s, %s", p.what, key)
	left, err := redis.Int64(p.server.Do("PTTL", key))
	require.NoError(p, err)
	switch {
	case value == "":
	case ttl == sim.NoTTL:
		require.EqualValues(p, -1, left, "%s, %s", p.what, key)
	default:
		require.InDelta(p, ttl, time.Duration(left)*time.Millisecond, tolerance, "%s, %s", p.what, key)
	}
}

// A key lives to the end of its last millisecond, which the simulated nodes rely on.
func TestKeyspace_KeyLapsesWhenARealOneDoes(t *testing.T) {
	simulated := sim.NewKeyspace()
	cmd := new(wire.Command)
	form.Exclusive{}.Acquire(cmd, form.ID{Key: "key", Token: "token"}, form.Ask{TTL: 100 * time.Millisecond})
	require.Equal(t, quorum.Yes, simulated.Do(cmd, nil, 0, 0).Answer)
	token, _, _ := simulated.Left("key", 100*time.Millisecond)
	require.Equal(t, "token", token)
	token, _, _ = simulated.Left("key", 101*time.Millisecond)
	require.Empty(t, token)
}
