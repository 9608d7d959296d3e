package sim

import "time"

// note is what clients tell each other.
type note struct {
	what string // "waits" or "yours", as in package redlock
	key  string
	who  []string
}

// track has changes to what is looked at over c told to an ear.
func (s *server) track(c, ear *conn) reply {
	if !s.world.plan.Tracking || ear.killed || ear.life != s.life {
		return reply{}
	}
	c.redirect = ear
	return reply{code: 1}
}

// watch notes that the next change to key is to be told. Nobody looks whether the ear is
// still there.
func (s *server) watch(c *conn, key string) bool {
	if c.redirect == nil {
		return false
	}
	s.tracked[key] = append(s.tracked[key], c)
	s.lapse(key)
	return true
}

// stray leaves a key without a TTL, as by somebody else's SETNX without the EXPIRE that was to follow.
func (s *server) stray(name int, token string) {
	w := s.world
	if _, held := s.get(key(name), s.now()); held || !s.up {
		return
	}
	w.tell("node %d: a key without a TTL is left under %s", s.number, key(name))
	w.strays++
	s.set(key(name), &entry{token: token, forever: true, born: w.now})
}

// lapse has a key that is looked at deleted some time after its TTL, if at all: else it
// goes when a command comes across it.
func (s *server) lapse(key string) {
	e, ok := s.peek(key, s.now())
	c := s.world.chance(s.number, int(e.expires), 8)
	if !ok || e.forever || c%4 == 0 {
		return
	}
	late := time.Duration(c>>8%75) * time.Millisecond
	if c%4 == 1 {
		late = time.Duration(c>>8%2000) * time.Millisecond
	}
	over := time.Duration(float64(e.expires-s.now()+2)/s.clock.rate) * time.Millisecond
	s.world.after(over+late, func() { s.sweep(key, e.token) })
}

// sweep deletes a key whose time is over.
func (s *server) sweep(key, token string) {
	e, there := s.keys[key]
	if !there || !s.up || e.token != token || len(s.tracked[key]) == 0 {
		return
	}
	if s.world.now < s.frozen {
		s.world.at(s.frozen, func() { s.sweep(key, token) })
		return
	}
	if _, ok := s.get(key, s.now()); ok {
		s.lapse(key) // extended
	}
}

// announce tells of a change whoever looked.
func (s *server) announce(key string) {
	conns := s.tracked[key]
	if len(conns) == 0 {
		return
	}
	delete(s.tracked, key)
	for _, c := range conns {
		if e := c.redirect; e != nil && !e.killed && e.life == s.life {
			s.push(e, func() { e.ear.changed(key) })
		}
	}
}

// publish hands a message to whoever listens.
func (s *server) publish(cmd command) {
	for _, e := range s.ears {
		if !e.killed && e.client.self == cmd.key {
			s.push(e, func() { e.ear.message(cmd.note) })
		}
	}
}

// push sends something to an ear.
func (s *server) push(e *conn, heard func()) {
	if s.world.now < e.ear.muted {
		s.world.tell("node %d has something to tell client %d, which is lost", s.number, e.client.number)
		return
	}
	e.reply(message{done: func(reply) { heard() }}, reply{})
}
