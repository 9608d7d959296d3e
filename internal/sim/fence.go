package sim

import "time"

// fencing is what goes with a command to a key with a number.
type fencing struct {
	number   uint64 // of the lock; a rollback has none. raise: what was granted
	token    uint64 // raise: what is to take its place
	estimate uint64 // acquire: the time of the counters as the client estimates it
	forward  bool   // acquire: the counter goes forward in any case
	floor    uint64 // likewise; 0 means none
	keep     int64  // milliseconds that a counter is kept beyond the TTL
}

// counter is what a node has granted last for a name, and when it forgets that, in milliseconds of the server's clock.
type counter struct {
	number  uint64
	expires int64
}

const (
	off       = 1_000_000 // microseconds that a counter may be behind a client's estimate, and that the estimate may be off the node's clock
	keepFence = 24 * int64(time.Hour/time.Millisecond)
	maxNumber = 1 << 53
)

// count returns the counter of a key, if it is there.
func (k *keyspace) count(key string, now int64) (counter, bool) {
	f, ok := k.counters[key]
	if ok && now > f.expires {
		delete(k.counters, key)
		return counter{}, false
	}
	return f, ok
}

// fenced carries out a command with fencing. wall is what TIME returns, in microseconds since 1970.
func (k *keyspace) fenced(c command, now, wall int64) reply {
	held, ok := k.get(c.key, now)
	counted, is := k.count(c.key, now)
	switch c.verb {
	case acquire: // fenced_acquire.lua
		return k.grant(c, ok, counted, now, wall)
	case raise: // raise.lua
		return k.raise(c, held, ok, counted, is, now)
	case release: // fenced_release.lua
		return k.release(c, held, ok, counted, is, now)
	default: // fenced_extend.lua
		return k.extend(c, held, ok, counted, is, now, wall)
	}
}

func (k *keyspace) grant(c command, held bool, counted counter, now, wall int64) reply {
	number, estimate := int64(counted.number)+1, int64(c.fence.estimate)
	forward := c.fence.forward || c.fence.floor > 0 || number <= estimate-off
	if forward {
		begin := wall
		if estimate-wall <= off && wall-estimate <= off {
			begin = estimate
		}
		number = max(number, begin+1, int64(c.fence.floor)+1)
		counted.expires = now + c.ttl + c.fence.keep
	}
	switch {
	case number >= maxNumber:
		return reply{code: refusal}
	case held:
		return reply{}
	}
	k.set(c.key, &entry{token: c.token, number: uint64(number), expires: now + c.ttl})
	k.counters[c.key] = counter{uint64(number), counted.expires}
	return reply{code: 1, number: uint64(number)}
}

func (k *keyspace) raise(c command, held entry, ok bool, counted counter, is bool, now int64) reply {
	switch {
	case ok && held.number == 0:
		return reply{code: -1}
	case ok && (held.token != c.token || held.number != c.fence.number):
		return reply{code: -1}
	case !ok, held.forever, held.expires == now, !is:
		return reply{}
	}
	if counted.number < c.fence.token {
		counted.number = c.fence.token
		k.counters[c.key] = counted
	}
	held.number = c.fence.token
	k.set(c.key, &held)
	return reply{code: 1}
}

func (k *keyspace) release(c command, held entry, ok bool, counted counter, is bool, now int64) reply {
	ours := ok && held.token == c.token && held.number > 0
	if is && counted.number < c.fence.number && (!ours || held.number != c.fence.number) {
		k.counters[c.key] = counter{c.fence.number, counted.expires}
	}
	switch {
	case !ok:
		return reply{}
	case !ours:
		return reply{code: -1}
	}
	k.set(c.key, nil)
	return reply{code: 1}
}

func (k *keyspace) extend(c command, held entry, ok bool, counted counter, is bool, now, wall int64) reply {
	switch {
	case ok && (held.token != c.token || held.number == 0):
		return reply{code: -1}
	case !ok && !is:
		counted, is = counter{number: uint64(wall)}, true
	}
	switch kept := now + c.ttl + c.fence.keep; {
	case is && counted.number >= c.fence.number:
		k.counters[c.key] = counter{counted.number, max(counted.expires, kept)}
	case is:
		k.counters[c.key] = counter{c.fence.number, kept}
	}
	if !ok || held.forever || held.expires-now < c.ttl {
		held.expires, held.late, held.forever = now+c.ttl, 0, false
	}
	held.token, held.number = c.token, c.fence.number
	k.set(c.key, &held)
	if !ok {
		return reply{code: 2}
	}
	return reply{code: 1}
}

// forget loses the counters, or has them come back from an older copy of the data: a little lower.
func (s *server) forget() {
	chance := s.world.chance(s.number, s.life, 14)
	for name := range s.world.plan.Names {
		counted, is := s.counters[key(name)]
		if !is {
			continue
		}
		delete(s.counters, key(name))
		if back := chance>>8%4 + 1; chance&1 == 0 && counted.number > back {
			s.counters[key(name)] = counter{counted.number - back, counted.expires}
		}
	}
}

// wall is the time of day, in microseconds since 1970.
func (c *clock) wall() int64 { return c.Now().UnixMicro() }

// counterLife is how long counters are kept beyond TTLs, in milliseconds.
func (p Plan) counterLife() int64 {
	if p.Keep > 0 {
		return p.Keep.Milliseconds()
	}
	return keepFence
}

// counterTime is the time of the counters as a client estimates it from the numbers that it was granted, as package redlock does.
// known is false as long as the client has been granted none.
func (c *client) counterTime(began time.Time) (estimate uint64, known bool) {
	if !c.learnt {
		return uint64(epoch.Add(time.Duration(float64(c.world.now)*c.clock.rate) + c.wall).UnixMicro()), false
	}
	return uint64(began.UnixMicro() + c.behind), true
}

// learn takes the token of a round that was won.
func (c *client) learn(r *round) {
	estimate, known := c.counterTime(r.grant.Start)
	if r.acquire.Fence() == 0 || known && r.acquire.Fence() <= estimate {
		return
	}
	if behind := int64(r.acquire.Fence()) - c.clock.Now().UnixMicro(); !known || behind > c.behind {
		c.learnt, c.behind = true, behind
	}
}

// since returns a number in microseconds since the run began.
func since(number uint64) int64 { return int64(number) - epoch.Add(noon).UnixMicro() }

// noon is what the clocks of nodes show when a run begins, but for their offset.
const noon = 12 * time.Hour
