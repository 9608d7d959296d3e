package sim

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// verb is what a command does.
type verb uint8

const (
	acquire verb = iota // SET key token NX PX ttl, or fenced_acquire.lua
	release             // release.lua, or fenced_release.lua
	extend              // extend.lua, or fenced_extend.lua
	force               // release.lua, with what was observed
	heal                // heal.lua
	observe             // observe.lua
	publish             // PUBLISH
	raise               // raise.lua
	greet               // HELLO, and CLIENT KILL of the connection before
)

var verbs = [...]string{"acquire", "release", "extend", "force", "heal", "observe", "publish", "raise", "greet"}

func (v verb) String() string { return verbs[v] }

// command is what goes over the wire.
type command struct {
	verb  verb
	key   string
	token string
	ttl   time.Duration // in whole milliseconds; of a release, for how long it is sent again
	sent  time.Duration // true time at which its call began

	fenced bool // of a key with a number
	fence  fencing

	of    *round // extend
	track bool   // observe, extend: CLIENT CACHING YES goes before it
	note  *note  // publish
	kill  *conn  // greet; nil means none
}

// fencing is what goes with a command to a key with a number.
type fencing struct {
	number   uint64        // of the lock; a rollback has none. raise: what was granted
	token    uint64        // raise: what is to take its place
	estimate uint64        // acquire: the time of the counters as the client estimates it
	forward  bool          // acquire: the counter goes forward in any case
	floor    uint64        // likewise; 0 means none
	block    uint64        // acquire: how many numbers; 0 means one
	keep     time.Duration // that a counter is kept beyond the TTL
}

// reply is what comes back.
type reply struct {
	code    int           // 1: yes, 2: recreated, 0: nil or not there, -1: another token is there; or refusal
	number  uint64        // acquire with fencing: what is granted; observe: the number that is there, 0 means none
	token   string        // observe: what is there
	ttl     time.Duration // likewise: that is left, or noTTL
	forever bool          // release: what is there has no TTL
	tracked bool          // observe: the next change will be pushed
	foreign bool          // likewise: somebody's data is there, so that the code is a refusal
	process string        // greeting: the name of the server's process
	up      int64         // likewise: seconds since it came up, as the difference of two times in whole seconds
}

const (
	refusal   = -2 // the code of an error reply
	noTTL     = wire.NoTTL
	off       = 1_000_000 // microseconds that a counter may be behind an estimate, and that off the node
	keepFence = form.DefaultKeep
	maxBlock  = form.MaxBlock
	maxNumber = 1 << 53
)

// keyspace is what a Redis server knows, and what the commands mean to it. Times are those of the server's
// clock, in whole milliseconds. The conformance test holds it beside a real server.
type keyspace struct {
	keys     map[string]entry
	counters map[string]counter
	changed  func(key string) // called after each change; nil means nobody
}

// entry is a token and when it ends.
type entry struct {
	token   string
	number  uint64 // that stands behind the token; 0 means none
	expires time.Duration
	foreign bool          // it is no token, but somebody's data
	forever bool          // it has no TTL
	born    time.Duration // since when the token is there: true time
	late    time.Duration // how long the command that set expires was on its way
}

// counter is what a node has granted last for a name, and when it forgets that.
type counter struct {
	number  uint64
	expires time.Duration
	foreign bool // it is no number, but somebody's data, which has no TTL
}

// peek returns what is there at an instant.
func (k *keyspace) peek(key string, now time.Duration) (entry, bool) {
	e, ok := k.keys[key]
	if ok && now > e.expires && !e.forever { // as Redis does: the last millisecond belongs to the key
		return entry{}, false
	}
	return e, ok
}

// get is peek by a command: a key whose time is over goes.
func (k *keyspace) get(key string, now time.Duration) (entry, bool) {
	e, ok := k.peek(key, now)
	if _, there := k.keys[key]; there && !ok {
		k.set(key, nil)
	}
	return e, ok
}

// set changes a key; nil deletes it.
func (k *keyspace) set(key string, e *entry) {
	if e == nil {
		delete(k.keys, key)
	} else {
		k.keys[key] = *e
	}
	if k.changed != nil {
		k.changed(key)
	}
}

// count returns the counter of a key; the number 0 means that there is none.
func (k *keyspace) count(key string, now time.Duration) counter {
	if counted := k.counters[key]; now > counted.expires && !counted.foreign {
		delete(k.counters, key)
	}
	return k.counters[key]
}

// do carries out a command. wall is what TIME returns, in microseconds since 1970.
func (k *keyspace) do(c command, now time.Duration, wall int64) reply {
	held, ok := k.get(c.key, now)
	counted := k.count(c.key, now)
	ours := ok && held.token == c.token && (held.number > 0) == c.fenced
	exactly := ours && held.number == c.fence.number
	if c.verb == release && counted.number > 0 && counted.number < c.fence.number && !exactly {
		k.counters[c.key] = counter{number: c.fence.number, expires: counted.expires}
	}
	switch {
	case ok && held.foreign && (c.verb == release || c.verb == extend || c.verb == force):
		return reply{code: -1}
	case ok && held.foreign && c.verb != acquire:
		return reply{code: refusal, foreign: true}
	case c.verb == acquire:
		return k.grant(c, ok, counted, now, wall)
	case c.verb == extend && (ours || !ok):
		return k.extend(c, held, ok, counted, now, wall)
	case !ok:
		return reply{}
	case c.verb == observe && held.forever:
		return reply{code: 1, token: held.token, number: held.number, ttl: noTTL}
	case c.verb == observe:
		return reply{code: 1, token: held.token, number: held.number, ttl: held.expires - now}
	case c.verb == force && !exactly:
		return reply{code: -1}
	case c.verb == force:
	case !ours, c.verb == heal && !held.forever, c.verb == raise && !exactly:
		return reply{code: -1, forever: held.forever}
	case c.verb == raise && (held.forever || held.expires == now):
		return reply{}
	case c.verb == raise && counted.foreign:
		return reply{code: refusal}
	case c.verb == raise && counted.number == 0:
		return reply{}
	case c.verb == raise:
		k.counters[c.key] = counter{number: max(counted.number, c.fence.token), expires: counted.expires}
		held.number = c.fence.token
		k.set(c.key, &held)
		return reply{code: 1}
	}
	k.set(c.key, nil)
	return reply{code: 1}
}

// grant carries out an acquire.
func (k *keyspace) grant(c command, held bool, counted counter, now time.Duration, wall int64) reply {
	if c.fence.block > maxBlock || c.fenced && counted.foreign {
		return reply{code: refusal}
	}
	block := int64(max(1, c.fence.block))
	number, estimate := int64(counted.number)+block, int64(c.fence.estimate)
	forward := c.fence.forward || c.fence.floor > 0 || number <= estimate-off
	if forward {
		begin := wall
		if estimate-wall <= off && wall-estimate <= off {
			begin = estimate
		}
		number = max(number, begin+block, int64(c.fence.floor)+block)
	}
	if forward || block > 1 {
		counted.expires = now + c.ttl + c.fence.keep
	}
	if !c.fenced {
		number = 0
	}
	switch {
	case number >= maxNumber:
		return reply{code: refusal}
	case held:
		return reply{}
	case c.fenced:
		k.counters[c.key] = counter{number: uint64(number), expires: counted.expires}
	}
	k.set(c.key, &entry{token: c.token, number: uint64(number), expires: now + c.ttl})
	return reply{code: 1, number: uint64(number)}
}

// extend carries out an extension of a key that is the caller's, or is not there.
func (k *keyspace) extend(c command, held entry, ok bool, counted counter, now time.Duration, wall int64) reply {
	if c.fenced && counted.foreign && !ok {
		return reply{}
	}
	if c.fenced && !counted.foreign && (counted.number > 0 || !ok) {
		if counted.number == 0 {
			counted.number = uint64(wall)
		}
		if counted.number < c.fence.number {
			counted = counter{number: c.fence.number}
		}
		counted.expires = max(counted.expires, now+c.ttl+c.fence.keep)
		k.counters[c.key] = counted
	}
	longer := !ok || held.forever || held.expires-now < c.ttl
	if longer {
		held = entry{expires: now + c.ttl}
	}
	held.token, held.number = c.token, c.fence.number
	if longer || c.fenced {
		k.set(c.key, &held)
	}
	if !ok {
		return reply{code: 2}
	}
	return reply{code: 1}
}
