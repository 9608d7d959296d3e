package sim

import (
	"fmt"
	"slices"
	"time"
)

// verb is what a command does.
type verb uint8

const (
	acquire verb = iota // SET key token NX PX ttl; with fencing this and what follows are other scripts
	release             // release.lua
	extend              // extend.lua
	force               // force.lua
	heal                // heal.lua
	observe             // observe.lua
	publish             // PUBLISH
	raise               // raise.lua
)

var verbs = [...]string{"acquire", "release", "extend", "force", "heal", "observe", "publish", "raise"}

func (v verb) String() string { return verbs[v] }

// command is what goes over the wire.
type command struct {
	verb  verb
	key   string
	token string
	ttl   int64         // milliseconds
	sent  time.Duration // true time at which its call began

	fenced bool // of a key with a number
	fence  fencing

	of    *round // extend
	track bool   // observe: CLIENT CACHING YES goes before it
	note  *note  // publish
}

// reply is what comes back.
type reply struct {
	code    int      // 1 for OK and yes, 2 for "set anew", 0 for nil and "not there", -1 for "another token is there", or refusal
	number  uint64   // acquire with fencing: what is granted; observe: the number that is there, 0 means none
	token   string   // observe: what is there
	ttl     int64    // likewise: how long still, in milliseconds
	tracked bool     // likewise: the next change will be pushed
	process identity // greeting
}

// refusal is the code of an error reply.
const refusal = -2

// noTTL is the TTL of a key that has none.
const noTTL = -1

// keyspace is what a Redis server knows, and what the commands mean to it. The
// conformance test holds it beside a real server.
type keyspace struct {
	keys     map[string]entry
	counters map[string]counter
	changed  func(key string) // called after each change; nil means nobody
}

// entry is a token and when it ends, in milliseconds of the server's clock.
type entry struct {
	token   string
	number  uint64 // that stands behind the token; 0 means none
	expires int64
	forever bool          // it has no TTL
	born    time.Duration // likewise: true time
	late    time.Duration // how long the command that set expires was on its way
}

// peek returns what is there at an instant, in milliseconds of the server's clock.
func (k *keyspace) peek(key string, now int64) (entry, bool) {
	e, ok := k.keys[key]
	if ok && now > e.expires && !e.forever { // as Redis does: the last millisecond belongs to the key
		return entry{}, false
	}
	return e, ok
}

// get is peek by a command: a key whose time is over goes.
func (k *keyspace) get(key string, now int64) (entry, bool) {
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

// do carries out a command. wall is what TIME returns, in microseconds since 1970.
func (k *keyspace) do(c command, now, wall int64) reply {
	if c.fenced {
		return k.fenced(c, now, wall)
	}
	held, ok := k.get(c.key, now)
	fresh := &entry{token: c.token, expires: now + c.ttl}
	switch {
	case c.verb == acquire && ok:
		return reply{}
	case c.verb == acquire:
		k.set(c.key, fresh)
	case c.verb == observe && ok && held.forever:
		return reply{code: 1, token: held.token, number: held.number, ttl: noTTL}
	case c.verb == observe && ok:
		return reply{code: 1, token: held.token, number: held.number, ttl: held.expires - now}
	case c.verb == force && ok:
		k.set(c.key, nil)
	case !ok && c.verb == extend:
		k.set(c.key, fresh)
		return reply{code: 2}
	case !ok:
		return reply{}
	case held.number > 0:
		return reply{code: -1}
	case held.token != c.token, c.verb == heal && !held.forever:
		return reply{code: -1}
	case c.verb == release || c.verb == heal:
		k.set(c.key, nil)
	case held.expires-now < c.ttl || held.forever:
		k.set(c.key, fresh)
	}
	return reply{code: 1}
}

// server is a node's process.
type server struct {
	world  *world
	number int
	clock  clock
	keyspace
	up      bool
	life    int           // how many processes there were before
	born    time.Duration // what the clock showed when this one came up
	foreign bool          // it had been up before it took another's place
	frozen  time.Duration // until when it stands still
	conns   []*conn       // with something to read, in the order in which it came

	open    []*conn            // that were greeted
	tracked map[string][]*conn // where a key was observed since it changed last
	current *conn              // whose command is carried out
	pending []func()           // pushes on it, to be sent behind the reply
}

func (s *server) now() int64 { return s.clock.reading().Milliseconds() }

// serve reads what has arrived, unless the server stands still.
func (s *server) serve() {
	w := s.world
	if w.now < s.frozen {
		return // thaw calls again
	}
	for len(s.conns) > 0 && w.failed == nil {
		i := int(w.chance(s.number, len(s.conns), int(w.now), 6) % uint64(len(s.conns)))
		c := s.conns[i]
		s.conns = slices.Delete(s.conns, i, i+1)
		for len(c.inbox) > 0 {
			m := c.inbox[0]
			c.inbox = c.inbox[1:]
			s.current = c
			s.handle(c, m)
			s.current = nil
			for _, push := range s.pending {
				push()
			}
			s.pending = nil
		}
	}
}

func (s *server) handle(c *conn, m message) {
	switch {
	case m.greets:
		s.greet(c)
		c.reply(m, reply{code: s.kill(m.kill), process: s.identity()})
		return
	case m.cmd.verb == publish:
		s.publish(m.cmd)
		c.reply(m, reply{code: 1})
		return
	}
	before, was := s.get(m.cmd.key, s.now())
	counted := s.counters[m.cmd.key]
	if _, is := s.count(m.cmd.key, s.now()); !is && counted.number > 0 {
		s.world.log("node %d: the counter of %s has come to its end", s.number, m.cmd.key)
		counted = counter{}
	}
	r := s.do(m.cmd, s.now(), s.clock.wall())
	if m.cmd.verb == observe {
		if r.tracked = m.cmd.track; r.tracked {
			s.track(c, m.cmd.key)
		}
		c.reply(m, r)
		return
	}
	after, is := s.peek(m.cmd.key, s.now())
	if s.world.trace != nil {
		what := m.cmd.token
		if m.cmd.verb == force {
			what = m.cmd.key
		}
		how := []string{"refused", "another token is there", "no", "yes", "recreated"}[r.code+2]
		if r.number > 0 {
			how = fmt.Sprintf("yes, %d", since(r.number))
		}
		s.world.log("node %d: %v of %s by client %d: %s", s.number, m.cmd.verb, what, c.client.number, how)
	}
	s.check(m.cmd, before, was, after, is)
	if m.cmd.fenced {
		s.checkCounter(m.cmd, before, was && after != before, counted.number)
		s.echo(c, m.cmd)
	}
	if is && after != before {
		after.late = s.world.now - m.cmd.sent
		s.keys[m.cmd.key] = after
	}
	c.reply(m, r)
}

// kill ends a connection, if that is permitted and the connection was made to this very
// process. It returns 1 if nothing more will be read from it.
func (s *server) kill(c *conn) int {
	if c == nil || !s.world.plan.Fencing || c.life != s.life {
		return 0
	}
	c.killed, c.inbox = true, nil
	return 1
}

// check holds a command to what no command may do.
func (s *server) check(c command, before entry, was bool, after entry, is bool) {
	w := s.world
	switch {
	case c.verb == heal && was && before.forever && before.token == c.token:
		age, leapt := w.now-before.born, time.Duration(0)
		for _, c := range w.clients {
			leapt = max(leapt, c.clock.leapt)
		}
		if age < healAfter*99/100-leapt {
			w.violate("a key without a TTL is deleted only when it has been there for long", "node %d: after %v", s.number, age)
		}
	case c.verb == force:
		if was {
			w.given[before.token] = everybody
		}
	case was && before.token != c.token && (!is || after != before):
		w.violate("a key is changed by its owner only", "node %d: %v of %s changed the key of %s", s.number, c.verb, c.token, before.token)
	case c.verb == extend && was && before.token == c.token:
		c.of.yes++
	case !was && is && c.verb != acquire && c.verb != extend:
		w.violate("a lock that lapsed is not revived", "node %d: %v of %s made a key that was not there", s.number, c.verb, c.token)
	}
}

// freeze makes the server stand still; what arrives meanwhile is read afterwards.
func (s *server) freeze(d time.Duration) {
	s.frozen = max(s.frozen, s.world.now+d)
	s.world.at(s.frozen, s.serve)
}

// crash ends the process, and starts it again after d; or one takes its place then that has been up for longer.
func (s *server) crash(d time.Duration, durable bool, longer time.Duration, lines []*line) {
	if !s.up {
		return
	}
	s.up, s.foreign = false, longer > 0
	s.life++
	s.conns, s.open = nil, nil
	clear(s.tracked)
	if !durable {
		s.keys = map[string]entry{}
		s.forget()
	}
	for _, l := range lines {
		for _, c := range l.conns {
			c.lost()
		}
		l.conns = nil
	}
	s.world.after(d, func() { s.up, s.born = true, s.clock.reading()-longer })
}
