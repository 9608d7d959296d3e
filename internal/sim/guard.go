package sim

import (
	"errors"
	"fmt"
	"slices"
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

// anew has a new process go on for a client that is doing nothing. It has met no server. One that meets a server that has
// taken another's place before its time cannot tell, so that this is left out.
func (c *client) anew() {
	busy := func(r *round) bool { return r.over == 0 }
	if slices.ContainsFunc(c.calls, busy) || c.holds != nil || len(c.queues) > 0 {
		return
	}
	c.log("client %d begins anew", c.number)
	c.learnt, c.behind = false, 0
	for _, l := range c.lines {
		if l.server.foreign || !l.met {
			continue
		}
		l.guard, l.met = node.NewGuard(c.plan.Guard), false
		if l.conn != nil {
			l.conn.breakOff(0)
		}
	}
}

// known reports whether all clients that are alive have met the server.
func (s *server) known() bool {
	return !slices.ContainsFunc(s.clients, func(c *client) bool { return !c.dead && !c.lines[s.number].met })
}

var errQuarantined = errors.New("not asked: the server may have forgotten locks")

// refuse takes the acquires off the queue that the server may not be asked.
func (l *line) refuse() {
	left, is := l.guard.Quarantine(l.client.mono.Now)
	if !is || l.conn == nil {
		return
	}
	l.notify(l.commands.Withdraw(func(o order) bool {
		if o.verb == acquire {
			l.log("client %d does not ask node %d for %s, for another %v", l.client.number, l.server.number, o.token, left)
		}
		return o.verb == acquire
	}, errQuarantined))
}
