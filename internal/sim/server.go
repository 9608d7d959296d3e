package sim

import (
	"slices"
	"time"
)

// verb is what a command does.
type verb uint8

const (
	acquire verb = iota // SET key token NX PX ttl
	release             // release.lua
	extend              // extend.lua, "longer"
	restore             // extend.lua, "exact"
)

var verbs = [...]string{"acquire", "release", "extend", "restore"}

func (v verb) String() string { return verbs[v] }

// command is what goes over the wire.
type command struct {
	verb  verb
	key   string
	token string
	ttl   int64         // milliseconds
	sent  time.Duration // true time at which its call began
}

// reply is what comes back: 1 for OK and yes, 0 for nil and "not there", -1 for "another
// token is there".
type reply int

// keyspace is what a Redis server knows, and what the commands mean to it. The
// conformance test holds it beside a real server.
type keyspace struct {
	keys map[string]entry
}

// entry is a token and when it ends, in milliseconds of the server's clock.
type entry struct {
	token   string
	expires int64
	late    time.Duration // how long the command that set expires was on its way
}

// get returns what is there at an instant, in milliseconds of the server's clock.
func (k *keyspace) get(key string, now int64) (entry, bool) {
	e, ok := k.keys[key]
	if ok && now > e.expires { // as Redis does: the last millisecond belongs to the key
		delete(k.keys, key)
		return entry{}, false
	}
	return e, ok
}

// do carries out a command.
func (k *keyspace) do(c command, now int64) reply {
	held, ok := k.get(c.key, now)
	if c.verb == acquire {
		if ok {
			return 0
		}
		k.keys[c.key] = entry{token: c.token, expires: now + c.ttl}
		return 1
	}
	switch {
	case !ok:
		return 0
	case held.token != c.token:
		return -1
	case c.verb == release:
		delete(k.keys, c.key)
	case c.verb == restore || held.expires-now < c.ttl:
		k.keys[c.key] = entry{token: c.token, expires: now + c.ttl}
	}
	return 1
}

// server is a node's process.
type server struct {
	world  *world
	number int
	clock  clock
	keyspace
	up     bool
	life   int           // how many processes there were before
	frozen time.Duration // until when it stands still
	conns  []*conn       // with something to read, in the order in which it came
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
			s.handle(c, m)
		}
	}
}

func (s *server) handle(c *conn, m message) {
	if m.greets {
		c.life = s.life
		c.reply(m, s.kill(m.kill))
		return
	}
	before, was := s.get(m.cmd.key, s.now())
	r := s.do(m.cmd, s.now())
	after, is := s.get(m.cmd.key, s.now())
	s.world.tell("node %d: %v of %s by client %d: %s", s.number, m.cmd.verb, m.cmd.token, c.client.number, []string{"another token is there", "no", "yes"}[r+1])
	s.check(m.cmd, before, was, after, is)
	if is && after != before {
		after.late = s.world.now - m.cmd.sent
		s.keys[m.cmd.key] = after
	}
	c.reply(m, r)
}

// kill ends a connection, if that is permitted and the connection was made to this very
// process. It returns 1 if nothing more will be read from it.
func (s *server) kill(c *conn) reply {
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
	case was && before.token != c.token && (!is || after != before):
		w.violate("a key is changed by its owner only", "node %d: %v of %s changed the key of %s", s.number, c.verb, c.token, before.token)
	case !was && is && c.verb != acquire:
		w.violate("a lock that lapsed is not revived", "node %d: %v of %s made a key that was not there", s.number, c.verb, c.token)
	}
}

// freeze makes the server stand still; what arrives meanwhile is read afterwards.
func (s *server) freeze(d time.Duration) {
	s.frozen = max(s.frozen, s.world.now+d)
	s.world.at(s.frozen, s.serve)
}

// crash ends the process, and starts it again after d.
func (s *server) crash(d time.Duration, durable bool, lines []*line) {
	if !s.up {
		return
	}
	s.up = false
	s.life++
	s.conns = nil
	if !durable {
		s.keys = map[string]entry{}
	}
	for _, l := range lines {
		for _, c := range l.conns {
			c.lost()
		}
		l.conns = nil
	}
	s.world.after(d, func() { s.up = true })
}
