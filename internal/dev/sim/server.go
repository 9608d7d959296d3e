package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// server is a node's process.
type server struct {
	*world
	number int
	clock  clock
	keyspace
	up       bool
	life     int // how many processes there were before
	identity wire.Identity
	replica  string // the process of the one that takes its place; "" if it has not been the node yet
	stamped  stamp
	watched  []*conn       // that have read the stamp since it changed last
	gone     bool          // while it is not up, its machine is not there either
	frozen   time.Duration // until when it stands still
	conns    []*conn       // with something to read, in the order in which it came

	data    map[string]bool    // keys under which somebody has had data on this node
	tracked map[string][]*conn // where a key was read with it since it changed last
	current *conn              // whose command is carried out
	refused int                // how many times it has begun to refuse something
}

func newServer(w *world, number int) *server {
	s := &server{world: w, number: number, up: true, data: map[string]bool{}, tracked: map[string][]*conn{}}
	s.clock = clock{world: w, rate: w.plan.Rates[number]}
	s.keyspace = keyspace{keys: map[string]entry{}, counters: map[string]counter{}, sharers: map[string]*sharers{}, changed: s.invalidate}
	// Nodes do not agree on the time.
	s.clock.leapt = time.Duration(w.chance(number, 5) % uint64(time.Hour))
	if w.plan.Fenced {
		s.clock.leapt = noon + w.plan.Walls[number]
	}
	s.begins()
	s.stamped = stamp{s.identity.Stamp(), s.now() + wire.StampTTL - upBefore} // other programs have used it
	return s
}

// begins gives the process, or the one in its place, an identity.
func (s *server) begins() {
	s.life++
	s.identity = wire.Identity{Process: fmt.Sprintf("p%d-%d", s.number, s.life), History: fmt.Sprintf("h%d-%d", s.number, s.life)}
}

// now is what the clock shows, in whole milliseconds.
func (s *server) now() time.Duration { return s.clock.reading().Truncate(time.Millisecond) }

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
		}
	}
}

func (s *server) handle(c *conn, m message) {
	switch {
	case m.greeted != nil && c.former:
		c.deliver(m.refused)
	case m.greeted != nil:
		identity := s.identity
		if !m.asks {
			s.greet(c, m.before)
		}
		c.deliver(func() { m.greeted(identity) })
	case m.cmd != nil && m.cmd.Script == wire.StampScript && !c.former:
		v := s.restamp(c, m.cmd.Args)
		c.deliver(func() { m.done(v) })
	case m.cmd == nil:
		v := outcome(func() wire.Value { s.call("PUBLISH"); return number(s.publish(m.note)) })
		c.deliver(func() { m.done(v) })
	case c.former && does(m.cmd) != observe:
		v := wire.Value{Kind: '-', Text: []byte(errReplica.Message)}
		c.deliver(func() { m.done(v) })
	default:
		v, knows := noScript, m.source || s.plan.Kept // to ask again is a trouble too
		proves := m.script == m.cmd.Proof && s.chance(27)&15 == 0
		if knows || !proves && m.cmd.Keys() == nil && !m.cmd.Shares || s.chance(c.client.number, s.number, c.number, c.there.number, 20)&3 > 0 {
			v = s.carryOut(c, m)
		} else {
			s.log("node %d does not know the script of %s by client %d", s.number, m.cmd.Token, c.client.number)
		}
		c.deliver(func() { m.done(v) })
	}
}

// carryOut carries out a command about a key.
func (s *server) carryOut(c *conn, m message) wire.Value {
	cmd, key := m.cmd, m.cmd.Key
	found, others := s.find(key), []sight(nil)
	for _, other := range locks(cmd) {
		if other != key {
			others = append(others, s.find(other))
		}
	}
	found.own, found.in = s.sharer(key, cmd.Token, s.now())
	before := s.entries(cmd)
	v := s.do(cmd, m.proves(), s.now(), s.clock.Now().UnixMicro())
	found.stopped = v.Refusal() != nil
	s.checkFull(cmd, &v)
	if m.track {
		s.track(c, key)
		if cmd.Script == form.Scripts["share_look"] && !looksFor(cmd) {
			s.track(c, wanted(key))
		}
	}
	if does(cmd) == observe {
		delete(c.stood, key)
		if found.forever {
			c.stood[key] = stood{found.token, s.world.now - found.born}
		}
		return v
	}
	if s.trace != nil {
		reply := cmd.Reply(&v)
		s.log("node %d: %v of %s by client %d: %s", s.number, does(cmd), cmp.Or(cmd.Token, key), c.client.number, shown(&reply))
	}
	if _, is := form.Wanted(key); is {
		s.doneWant(cmd, before)
		return v
	}
	s.done(c, m, &found)
	for i := range others {
		s.done(c, m, &others[i])
	}
	if fenced(cmd) {
		s.echo(c, cmd)
	}
	return v
}

// sight is what a command finds under a key.
type sight struct {
	key string
	entry
	was     bool
	counted counter
	own     entry // what the token of the command has of a key that is shared
	in      bool
	stopped bool // the command was refused, maybe by a command of its script
}

// find returns that of a key.
func (s *server) find(key string) (f sight) {
	f.key, f.counted = key, s.counters[key]
	f.entry, f.was = s.get(key, s.now())
	if s.count(key, s.now()).number < f.counted.number {
		s.log("node %d: the counter of %s has come to its end", s.number, key)
		f.counted = counter{}
	}
	return f
}

// done checks and notes what a command has done to a key.
func (s *server) done(c *conn, m message, f *sight) {
	after, is := s.peek(f.key, s.now())
	if shares(m.cmd) {
		s.doneShared(m, f)
		return
	}
	s.checkChange(m, c.line, f.key, f.entry, f.was, after, is)
	if fenced(m.cmd) {
		s.checkCounter(m.cmd, f.key, f.entry, f.was && after != f.entry, f.counted)
	}
	if is && after != f.entry {
		after.late, after.born = s.world.now-m.sent, s.world.now
		if f.was && f.token == after.token {
			after.born = f.born
		}
		s.keys[f.key] = after
	}
}

// shown puts a reply into words.
func shown(r *wire.Reply) string {
	switch {
	case r.Fence > 0:
		return fmt.Sprintf("yes, %d", since(r.Fence))
	case r.Slot > 0:
		return fmt.Sprintf("%v, slot %d", r.Answer, r.Number()-1)
	}
	return r.Answer.String()
}

// trouble does what a step of the plan says to the server, or between a client and it.
func (s *server) trouble(step Step, c *client) {
	l, key := c.lines[s.number], key(step.Name)
	_, held := s.peek(key, s.now())
	switch {
	case step.Kind == Freeze: // what arrives meanwhile is read afterwards
		s.log("node %d stands still for %v", s.number, step.For)
		s.frozen = max(s.frozen, s.world.now+step.For)
		s.at(s.frozen, s.serve)
	case step.Kind == Refuse:
		s.refuse(step.Command, step.For)
	case step.Kind == Crash:
		s.log("node %d crashes for %v", s.number, step.For)
		s.amnesia = s.amnesia || !s.plan.Durable
		s.crash(step.For, s.plan.Durable)
	case step.Kind == Promote && s.up && step.For == 0:
		s.promote()
	case step.Kind == Promote && s.up:
		s.log("the replica of node %d gets nothing any more, and takes its place after %v", s.number, step.For)
		life, data, stamped := s.life, s.clone(), s.stamped
		s.after(step.For, func() {
			if s.life == life {
				s.amnesia, s.restored = true, s.world.now
				s.keyspace, s.stamped = data, stamped
				clear(s.tracked)
				s.promote()
				s.dropped() // by the former one, which begins to follow
			}
		})
	case step.Kind == Replace:
		s.log("another takes the place of node %d after %v", s.number, step.For)
		s.amnesia = true
		s.crash(step.For, false)
	case step.Kind == Move:
		s.move()
	case step.Kind == Lapse && held && s.up: // as if a clock is set; its counter stays
		s.log("node %d: %s lapses before its time", s.number, key)
		s.lapsed = true
		s.set(key, nil)
	case step.Kind == Touch && held && s.up:
		s.log("node %d: %s gets another TTL", s.number, key)
		e := s.keys[key]
		e.expires, e.late = e.expires+time.Hour, e.late+time.Hour // nobody is to blame for that
		s.set(key, &e)
	case step.Kind == Flush && s.up:
		s.log("node %d drops all keys", s.number)
		if s.plan.Guard > 0 { // who has one notices
			s.amnesia = true
		} else {
			s.lapsed = true
		}
		s.flush()
	case step.Kind == Stray && !held && s.up: // by somebody else's SETNX without the EXPIRE that was to follow
		s.log("node %d: a key without a TTL is left under %s", s.number, key)
		s.patience = longPatience
		s.set(key, &entry{token: cmp.Or(step.Value, "stray-"+step.At.String()), forever: true, born: s.world.now})
	case step.Kind == Data && !held && s.up:
		s.log("node %d: somebody keeps data under %s", s.number, key)
		s.data[key] = s.data[key] || step.TTL == 0
		s.set(key, &entry{token: "data", forever: step.TTL == 0, expires: s.now() + step.TTL, foreign: true})
	case step.Kind == Beside && s.up:
		s.log("node %d: somebody keeps data in the place of %s", s.number, wanted(key))
		s.data[wanted(key)] = true
		delete(s.sharers, wanted(key))
		s.set(wanted(key), &entry{token: "data", forever: true, foreign: true})
	case step.Kind == CounterData && s.up:
		s.log("node %d: somebody keeps data in the place of the counter of %s", s.number, key)
		s.counters[key] = counter{foreign: true}
	case step.Kind == Cut && l.conn != nil:
		l.conn.breakOff(step.Lose)
	case step.Kind == Vanish && l.conn != nil:
		// Neither side is notified, as if a machine or a NAT entry between them is gone: nothing gets
		// through any more, until the client gives the connection up as an answer is overdue.
		s.log("the connection of client %d to node %d vanishes", c.number, s.number)
		s.patience = longPatience
		l.conn.blocked = math.MaxInt64
	case step.Kind == Stall && l.conn != nil:
		s.log("what client %d sends to node %d is held up for %v", c.number, s.number, step.For)
		l.conn.there.held = s.world.now + step.For
	case step.Kind == Partition:
		s.log("nothing gets through between client %d and node %d for %v", c.number, s.number, step.For)
		for _, conn := range l.conns {
			// Connections that are there already try again ever more seldom.
			late := time.Duration(s.chance(c.number, s.number, conn.number, int(step.At), 7) % uint64(step.For))
			conn.blocked = max(conn.blocked, s.world.now+step.For+late)
		}
		l.blocked = max(l.blocked, s.world.now+step.For)
	}
}

// flush drops all keys. The push says no more than that everything may have changed.
func (s *server) flush() {
	clear(s.tracked)
	for name := range s.plan.Names {
		for _, key := range []string{key(name), wanted(key(name))} {
			if _, ok := s.keys[key]; ok {
				s.set(key, nil)
			}
		}
	}
	clear(s.sharers)
	clear(s.counters)
	s.stamped = stamp{}
	s.dropped()
}

// dropped pushes that all keys were dropped.
func (s *server) dropped() {
	s.restamped(nil)
	for _, client := range s.clients {
		for _, c := range s.connsOf(client) {
			if c.tracking {
				s.push(c, c.trackingActive)
			}
		}
	}
}

// connsOf returns the connections of a client to this server.
func (s *server) connsOf(client *client) (conns []*conn) {
	for _, c := range client.lines[s.number].conns {
		if c.server == s {
			conns = append(conns, c)
		}
	}
	return conns
}

// crash ends the process, and starts it again, or another, after d.
func (s *server) crash(d time.Duration, durable bool) {
	if !s.up {
		return
	}
	s.up = false
	before := s.identity.History
	s.begins()
	switch copied := s.chance(s.number, s.life, 28) & 3; {
	case durable, copied == 0: // an older copy of the data has the stamp, too
		s.identity.Before = before // which was read with the data
	case copied == 1: // as before Redis 7
	default:
		s.stamped = stamp{}
	}
	s.gone = s.chance(s.number, s.life, 24)&1 == 0
	s.conns = nil
	clear(s.tracked)
	if !durable {
		s.keys = map[string]entry{}
		clear(s.sharers)
		// The counters are lost as well, or come back from an older copy of the data: a little lower.
		chance := s.chance(s.number, s.life, 14)
		for key, counted := range s.counters {
			if back := chance>>8%4 + 1; chance&1 == 0 && counted.number > back {
				s.counters[key] = counter{number: counted.number - back, expires: counted.expires}
			} else {
				delete(s.counters, key)
			}
		}
	}
	for _, client := range s.clients {
		l := client.lines[s.number]
		conns := s.connsOf(client)
		l.conns = slices.DeleteFunc(l.conns, func(c *conn) bool { return c.server == s }) // the client makes another at once
		for _, c := range conns {
			c.killed, c.inbox = true, nil
			c.breakOff(1)
		}
	}
	s.after(d, func() { s.up = true })
}

// promote has a replica take the place of the process, behind the same name. The one that was there keeps its connections, and is a replica
// of the other from now on, until it takes its place in turn.
func (s *server) promote() {
	s.log("node %d fails over behind its name", s.number)
	former := s.identity
	s.begins()
	s.identity.Before = former.History
	s.identity.Process, s.replica = cmp.Or(s.replica, s.identity.Process), former.Process
	for _, client := range s.clients {
		for _, c := range s.connsOf(client) {
			// One without pushes may not notice that the server was away, and that is no promise.
			c.former = c.process != s.identity.Process || !c.tracking
		}
	}
	s.report()
}

// report tells some of the clients, at some time, where the name of the node leads, as sentinels do.
func (s *server) report() {
	for _, client := range s.clients {
		chance := s.chance(client.number, s.number, int(s.world.now), 26)
		if chance%2 == 0 {
			s.after(time.Duration(chance>>8%20_000)*time.Microsecond, client.lines[s.number].moved)
		}
	}
}

// move has the name of the node lead to another server, which knows nothing.
func (s *server) move() {
	s.log("the name of node %d leads to another server", s.number)
	s.amnesia, s.patience = true, longPatience
	next := newServer(s.world, s.number)
	next.life = s.life + 100 // the former one may get others
	next.begins()
	next.stamped, next.data = stamp{}, s.data
	s.servers[s.number] = next
	for _, client := range s.clients {
		client.lines[s.number].server = next
	}
	next.report()
}

// echo has an acquire arrive once more, later, as long as this process of the server is there. No client
// does that, nor does TCP; but the numbers are to be right even so.
func (s *server) echo(c *conn, cmd *wire.Command) {
	chance := s.chance(c.client.number, s.number, c.number, c.there.number, int(s.world.now), 13)
	if !s.plan.Echo || does(cmd) != acquire || chance&1 != 0 {
		return
	}
	life := s.life
	s.after(time.Duration(chance>>8%60_000)*time.Microsecond, func() {
		if s.up && s.life == life && s.world.now >= s.frozen {
			v := s.do(cmd, false, s.now(), s.clock.Now().UnixMicro())
			s.log("node %d: acquire of %s once more: %v", s.number, cmd.Token, cmd.Reply(&v).Answer)
		}
	})
}
