package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
)

// identity is what a server reports about itself in the greeting.
type identity struct {
	name string
	up   int64 // seconds since it came up: the difference of two times in whole seconds
}

func (s *server) identity() identity {
	return identity{fmt.Sprintf("%d.%d", s.number, s.life), int64(s.clock.reading()/time.Second) - int64(s.born/time.Second)}
}

// meet takes note of who is at the other end of a new connection.
func (l *line) meet(who identity) {
	up := time.Duration(max(0, who.up-1)) * time.Second // it may be up to one too much
	l.met = true
	l.guard.Connected(l.client.mono.Now(), who.name, up)
}

// anew has a new process go on for a client that is doing nothing. It has met no server. One that meets a server that has taken
// another's place before its time cannot tell, so that this is left out.
func (c *client) anew() {
	if len(c.calls)+len(c.live)+len(c.queues) > 0 {
		return
	}
	c.world.log("client %d begins anew", c.number)
	c.learnt, c.behind = false, 0
	for _, l := range c.lines {
		if l.server.foreign || !l.met {
			continue
		}
		l.guard, l.met = node.Guard{MaxTTL: c.world.plan.Guard}, false
		if l.conn != nil {
			l.conn.breakOff(0)
		}
	}
}

// known reports whether all that are alive have met the server.
func known(lines []*line) bool {
	for _, l := range lines {
		if !l.client.dead && !l.met {
			return false
		}
	}
	return true
}

var errQuarantined = errors.New("not asked: the server may have forgotten locks")

// refuse takes the acquires off the queue that the server may not be asked.
func (l *line) refuse() {
	now := l.client.mono.Now()
	left, is := l.guard.Quarantine(now)
	if !is || l.conn == nil {
		return
	}
	l.commands.Withdraw(now, func(o order) bool {
		if o.cmd.verb == acquire {
			l.world.log("client %d does not ask node %d for %s, for another %v", l.client.number, l.number, o.cmd.token, left)
		}
		return o.cmd.verb == acquire
	}, errQuarantined)
	l.notify()
}

// lapses lets a key go before its time, as if a clock is set. Its counter stays.
func (s *server) lapses(key string) {
	if _, held := s.get(key, s.now()); held && s.up {
		s.world.log("node %d: %s lapses before its time", s.number, key)
		s.world.lapsed = true
		s.set(key, nil)
	}
}

// echo has an acquire arrive once more, later, as long as this process of the server is there. No client does that, nor does
// TCP; but the numbers are to be right even so.
func (s *server) echo(c *conn, cmd command) {
	chance := s.world.chance(c.client.number, s.number, c.number, c.there.number, int(s.world.now), 13)
	if !s.world.plan.Echo || cmd.verb != acquire || chance&1 != 0 {
		return
	}
	life := s.life
	s.world.after(time.Duration(chance>>8%60_000)*time.Microsecond, func() {
		if s.up && s.life == life && s.world.now >= s.frozen {
			r := s.do(cmd, s.now(), s.clock.wall())
			s.world.log("node %d: acquire of %s once more: %d", s.number, cmd.token, r.code)
		}
	})
}
