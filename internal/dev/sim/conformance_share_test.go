package sim_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/dev/sim"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Random commands about keys that some share: the same answers of a real server and of the simulated one, and the same keys with the same
// TTLs afterwards. Beside the real time that goes by, whole hours do at times.
func TestKeyspace_UnderstandsSharersAsRedisDoes(t *testing.T) {
	server := testredis.Lasting(t, testredis.Real(t, 1)[0])
	s := onRedis(t, server, nil)
	s.run(server.URL(), 2000)
	s.covers(44)
}

// onRedis compares with a real server.
func onRedis(t *testing.T, server testredis.Server, f *refuser) *sharing {
	s := &sharing{T: t, refuser: f, do: server.Do, unit: 36 * time.Second, tolerance: 5 * time.Second}
	s.pass = func(d time.Duration) {
		for _, key := range s.all() {
			s.age(key, d)
		}
	}
	return s
}

// Likewise of miniredis, to the millisecond: its clock stands still.
func TestKeyspace_UnderstandsSharersAsMiniredisDoes(t *testing.T) {
	server := miniredis.RunT(t)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	server.SetTime(at)
	c, err := redis.Dial("tcp", server.Addr())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	s := &sharing{T: t, do: c.Do, unit: time.Millisecond}
	s.pass = func(d time.Duration) {
		at = at.Add(d)
		server.SetTime(at)
		server.FastForward(d)
	}
	s.run("redis://"+server.Addr(), 3000)
	s.covers(44)
}

func (s *sharing) covers(least int) {
	s.Log(s.answers)
	require.GreaterOrEqual(s, len(s.answers), least, "nearly every command has had every answer")
}

// sharing is a server, and a simulated one, in which keys are shared.
type sharing struct {
	*testing.T
	*refuser
	r         *rand.Rand
	node      *node.Node
	do        func(command string, args ...any) (any, error)
	pass      func(time.Duration) // lets time go by on the server
	unit      time.Duration       // of TTLs
	tolerance time.Duration
	last      time.Time // when real time was added to now
	simulated *sim.Keyspace
	now       time.Duration
	what      string
	answers   map[string]int
}

func (s *sharing) all() (keys []string) {
	for _, key := range []string{"key-0", "key-1"} {
		keys = append(keys, key, sharersOf(key), sim.Wanted(key), sim.Slots(key))
	}
	return keys
}

func sharersOf(key string) string { return "{" + key + "}:sharers" }

func (s *sharing) redis(command string, args ...any) any {
	reply, err := s.do(command, args...)
	require.NoError(s, err, s.what)
	return reply
}

func (s *sharing) run(url string, steps int) {
	seed := rand.Uint64()
	s.Logf("seed %d", seed)
	nodes, err := pool.Open([]string{url}, pool.WithTimeout(20*time.Second))
	require.NoError(s.T, err)
	defer nodes[0].Close()
	s.r, s.node, s.simulated, s.answers = rand.New(rand.NewPCG(seed, 0)), (*node.Node)(nodes[0]), sim.NewKeyspace(), map[string]int{}
	s.last = time.Now()
	for step := range steps {
		if s.tolerance > 0 {
			s.goOn(time.Since(s.last).Truncate(time.Millisecond))
		}
		s.what = fmt.Sprintf("step %d", step)
		s.step()
		s.same()
	}
}

// goOn lets the simulated server's time pass like the real time. If that is long, nobody knows at which instant of it the server did
// something, so both drop all keys.
func (s *sharing) goOn(d time.Duration) {
	s.last, s.now = s.last.Add(d), s.now+d
	if d > time.Second {
		s.redis("FLUSHALL")
		s.simulated.Flush()
	}
}

// step does one thing to both.
func (s *sharing) step() {
	key, token := fmt.Sprint("key-", s.r.IntN(2)), fmt.Sprint("token-", s.r.IntN(4))
	ttl := time.Duration(1+s.r.IntN(400)) * s.unit
	s.what += fmt.Sprintf(": %s, %s, %v", key, token, ttl)
	s.hold(key)
	shared, plain, c, m := form.Shared{Kind: form.KindShared}, form.Exclusive{}, new(wire.Command), form.ID{Key: key, Token: token}
	slot := s.r.IntN(4)
	if slots := map[string]int{"key-0": 7, "key-1": 1}[key]; s.r.IntN(8) < slots {
		shared, m.Number = form.Shared{Kind: form.KindSlot, Slots: uint16(1 + s.r.IntN(4))}, uint64(1+slot)
	}
	if slots, _ := s.simulated.Taken(key, s.now); shared.HasSlots() && s.r.IntN(3) > 0 {
		if at, is := slots[token]; is {
			m.Number = uint64(1 + at)
		}
	}
	mark := []string{"|shared", "|slots"}[shared.Kind-form.KindShared]
	shared.Pass = s.r.IntN(3) == 0
	d := form.Demand{Limit: uint16(s.r.IntN(4)), Kind: form.Kind(s.r.IntN(3))}
	process := fmt.Sprint("process", s.r.IntN(2))
	switch n := s.r.IntN(64); {
	case n < 6:
		s.wait(time.Duration(1+s.r.IntN(200))*s.unit + time.Duration(s.r.IntN(1000))*time.Millisecond%s.unit)
		return
	case n < 8:
		s.redis("DEL", key)
		s.simulated.Delete(key)
	case n == 8:
		s.redis("PERSIST", key)
		s.simulated.Persist(key, s.now)
	case n == 9:
		s.redis("SET", key, token)
		s.simulated.Stray(key, token)
	case n == 10 && s.r.IntN(2) == 0: // somebody else's key
		s.redis("SET", sim.Wanted(key), "other")
		s.simulated.Stray(sim.Wanted(key), "other")
	case n == 10: // somebody else's entry, or one of a clock that was set back
		if _, is := s.simulated.Entries(key, s.now); is {
			entry := []string{"other", "|other", "0|", "x|other", "12|other", "0|other|shared|x", "0|other|shared", "3|other|slots"}[s.r.IntN(8)]
			s.enter(key, entry, []time.Duration{2 * time.Second, time.Hour}[s.r.IntN(2)])
		}
	case n == 11 && s.r.IntN(2) == 0:
		s.redis("DEL", sim.Wanted(key))
		s.simulated.Delete(sim.Wanted(key))
	case n == 12 && s.r.IntN(2) == 0: // evicted
		s.redis("DEL", sharersOf(key))
		s.simulated.Evict(key)
	case n == 12:
		s.redis("DEL", sim.Slots(key))
		s.simulated.EvictSlots(key)
	case n == 13:
		s.redis("DEL", key)
		s.redis("RPUSH", key, "data")
		s.simulated.Data(key, sim.NoTTL, s.now)
		if s.r.IntN(2) == 0 {
			s.redis("PEXPIRE", key, ttl.Milliseconds())
			s.simulated.Data(key, ttl, s.now)
		}
	case n == 14:
		s.redis("SET", key, mark, "PX", ttl.Milliseconds()) // whoever is in, or nobody
		s.simulated.Give(key, mark, ttl, s.now)
	default:
		switch n {
		case 15, 16:
			plain.Acquire(c, m, form.Ask{TTL: ttl})
		case 17:
			plain.Extend(c, m, ttl)
		case 18, 19, 20:
			plain.Release(c, m, ttl)
		case 21:
			plain.Remove(c, key, form.Observation{Value: mark})
		case 22:
			c = plain.Heal(key, []string{mark, token}[s.r.IntN(2)])
		case 23, 24:
			c = plain.Observe(key)
		case 25, 26, 11:
			c = form.Want(key, process, d)
		case 27, 28, 29:
			c = form.Unwant(key, process, d)
		case 30:
			shared.Remove(c, key, form.Observation{Token: []string{token, ""}[s.r.IntN(2)]})
		case 31, 32:
			c = shared.Observe(key)
		case 33, 34, 35:
			m.Number *= uint64(s.r.IntN(2)) // who knows the token only
			c = shared.Look(m)
		case 36, 37:
			c = shared.Sharers(key, s.r.IntN(3))
		case 38, 39, 40:
			shared.Release(c, m, ttl)
		case 41, 42, 43:
			if shared.TakeBack(c, m, wire.Slot(m.Number)); m.Number == 0 {
				shared.Release(c, m, ttl)
			}
		case 44, 45, 46, 47, 48, 49, 50, 51:
			shared.Extend(c, m, ttl)
		default:
			shared.Acquire(c, m, form.Ask{TTL: ttl, Start: slot % max(1, int(shared.Slots))})
		}
		s.send(c)
	}
}

// hold keeps the entries of those that wait from ending: in real time nobody knows when that is.
func (s *sharing) hold(key string) {
	if s.tolerance == 0 {
		return
	}
	entries, _ := s.simulated.Entries(key, s.now)
	for entry, left := range entries {
		if left <= 10*time.Second {
			s.enter(key, entry, 2500*time.Millisecond)
		}
	}
}

// enter leaves an entry with a TTL, and the key with the same.
func (s *sharing) enter(key, entry string, ttl time.Duration) {
	s.redis("ZADD", sim.Wanted(key), s.clock()+ttl.Milliseconds(), entry)
	s.redis("PEXPIRE", sim.Wanted(key), ttl.Milliseconds())
	s.simulated.Enter(key, entry, ttl, s.now)
}

// wait lets time go by, but not to the very millisecond in which something ends: servers do not agree on that one.
func (s *sharing) wait(d time.Duration) {
	margin := time.Millisecond + 2*s.tolerance
	for i := 0; i < 6; i++ {
		key := fmt.Sprint("key-", i%2)
		_, _, left := s.simulated.Left([]string{key, sim.Wanted(key)}[i/2%2], s.now)
		of, all := s.simulated.Shared(key, s.now)
		_, slots := s.simulated.Taken(key, s.now)
		near := s.near(left, d, margin) || s.near(all, d, margin) || s.near(slots, d, margin)
		for _, left := range of { // these end alike
			near = near || s.tolerance > 0 && s.near(left, d, margin)
		}
		if near {
			d, i = d+margin, -1
		}
	}
	s.what += fmt.Sprintf(", %v go by", d)
	s.pass(d)
	s.now += d
	s.same()
}

func (s *sharing) near(left, d, margin time.Duration) bool {
	return left != sim.NoTTL && left > d-margin && left < d+margin
}

// age takes a time off the TTL of a key, and off those of its members.
func (s *sharing) age(key string, d time.Duration) {
	left, err := redis.Int64(s.redis("PTTL", key), nil)
	require.NoError(s, err)
	switch {
	case left < 0:
	case left < d.Milliseconds():
		s.redis("DEL", key)
	default:
		s.redis("PEXPIRE", key, left-d.Milliseconds())
	}
	if kind, _ := redis.String(s.redis("TYPE", key), nil); kind != "zset" {
		return
	}
	in, err := redis.Strings(s.redis("ZRANGE", key, 0, -1, "WITHSCORES"), nil)
	require.NoError(s, err)
	for i := 0; i < len(in) && !strings.HasSuffix(key, ":slots"); i += 2 {
		score, err := strconv.ParseInt(in[i+1], 10, 64)
		require.NoError(s, err)
		s.redis("ZADD", key, score-d.Milliseconds(), in[i])
	}
}

// send has both carry out a command.
func (s *sharing) send(c *wire.Command) {
	script, replies := s.carrier(c), make(inbox, 1)
	s.begin(s.T, s.r, s.simulated)
	require.NoError(s.T, s.node.Send(time.Now(), c, replies, wire.Tag{}))
	reply, simulated := <-replies, s.simulated.Do(c, script, s.now, 0)
	what := sim.Does(c)
	if slices.Contains(c.Args, "|slots") {
		what += " with slots"
	}
	s.end(s.T, s.simulated, what, c, &simulated)
	s.what += ", " + what
	s.equal(&reply, &simulated)
	require.Len(s, simulated.Each, len(reply.Each), s.what)
	for i := range reply.Each {
		s.equal(&reply.Each[i], &simulated.Each[i])
	}
	s.answers[fmt.Sprint(what, " ", reply.Answer, " ", reply.Err != nil, " ", reply.Same)]++
}

func (s *sharing) equal(reply, simulated *wire.Reply) {
	require.Equal(s, reply.Answer, simulated.Answer, "%s: %v, %v", s.what, reply.Err, simulated.Err)
	require.Equal(s, reply.Same, simulated.Same, s.what)
	require.Equal(s, codeOf(reply.Err), codeOf(simulated.Err), "%s: %v, %v", s.what, reply.Err, simulated.Err)
	require.Equal(s, reply.Value, simulated.Value, s.what)
	require.Equal(s, reply.Number(), simulated.Number(), s.what)
	s.left(reply.TTL, simulated.TTL)
	for _, reason := range []error{
		nodeerr.ErrAbsent, nodeerr.ErrHeld, nodeerr.ErrNoExpiry, nodeerr.ErrForeign, nodeerr.ErrRecreated, nodeerr.ErrWanted, nodeerr.ErrFull,
	} {
		require.Equal(s, errors.Is(reply.Err, reason), errors.Is(simulated.Err, reason), "%s: %v, %v", s.what, reply.Err, simulated.Err)
	}
}

func (s *sharing) left(real, simulated time.Duration) {
	if simulated == sim.NoTTL || real == sim.NoTTL {
		require.Equal(s, simulated, real, s.what)
		return
	}
	tolerance := s.tolerance
	if tolerance > 0 {
		tolerance += 2 * time.Since(s.last)
	}
	require.InDelta(s, simulated, real, float64(tolerance), s.what)
}

// same compares all keys.
func (s *sharing) same() {
	for i := range 2 {
		key := fmt.Sprint("key-", i)
		entries, waits := s.simulated.Entries(key, s.now)
		if waits {
			s.scores(sim.Wanted(key), entries)
		}
		for _, key := range []string{key, sim.Wanted(key)}[:map[bool]int{true: 1, false: 2}[waits]] {
			token, _, ttl := s.simulated.Left(key, s.now)
			held, err := redis.String(s.do("GET", key))
			if token == "data" {
				require.ErrorContains(s, err, "WRONGTYPE", s.what)
				continue
			}
			if !errors.Is(err, redis.ErrNil) {
				require.NoError(s, err, s.what)
			}
			require.Equal(s, token, held, "%s, %s", s.what, key)
			if token != "" {
				s.left(s.ttl(key), ttl)
			}
		}
		in, ttl := s.simulated.Shared(key, s.now)
		s.scores(sharersOf(key), in)
		if len(in) > 0 {
			s.left(s.ttl(sharersOf(key)), ttl)
		}
		slots, ttl := s.simulated.Taken(key, s.now)
		at, err := redis.Int64Map(s.do("ZRANGE", sim.Slots(key), 0, -1, "WITHSCORES"))
		require.NoError(s, err, s.what)
		require.Equal(s, at, slots, "%s, slots of %s", s.what, key)
		if len(slots) > 0 {
			s.left(s.ttl(sim.Slots(key)), ttl)
		}
	}
}

// scores compares those who are under a key, with the time that each has left.
func (s *sharing) scores(key string, in map[string]time.Duration) {
	is, err := redis.Int64Map(s.do("ZRANGE", key, 0, -1, "WITHSCORES"))
	require.NoError(s, err, s.what)
	require.Len(s, in, len(is), s.what)
	now := s.clock()
	for token, left := range in {
		require.Contains(s, is, token, s.what)
		s.left(time.Duration(is[token]-now)*time.Millisecond, left)
	}
}

// clock returns the server's time in milliseconds.
func (s *sharing) clock() int64 {
	times, err := redis.Int64s(s.redis("TIME"), nil)
	require.NoError(s, err)
	return times[0]*1000 + times[1]/1000
}

func (s *sharing) ttl(key string) time.Duration {
	left, err := redis.Int64(s.redis("PTTL", key), nil)
	require.NoError(s, err)
	return wire.TTL(left)
}
