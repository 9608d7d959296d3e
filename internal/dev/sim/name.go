package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// name carries out what a lock.Name of a client asks for, and what its rounds and locks do, as package redlock does.
type name struct {
	mutex
	client   *client
	key      string
	lock     lock.Name
	waiters  []*waiter // that have not ended, in the order in which they came
	waited   bool      // something has waited, or healed
	timer    timer
	second   time.Duration    // in which spent is counted
	spent    int              // nodes asked
	ends     int              // waits that had ended before
	free     time.Duration    // since when the lock has been free, with all faults gone
	served   int              // how many had been served by then
	head     *waiter          // the first at that time
	ended    [3]time.Duration // when the last wait for a lock of each kind ended
	occupied time.Duration    // since when somebody's data has been in the way, with all faults gone
}

// mutex lets one after the other do something. Who sends the command of a round has it meanwhile, and may be held up.
type mutex struct {
	locks   int // rounds that are sent: one, and maybe one that follows it
	waiting []func()
}

func (m *mutex) do(what func()) {
	if m.locks > 0 {
		m.waiting = append(m.waiting, what)
		return
	}
	what()
}

func (m *mutex) unlock() {
	m.locks--
	for len(m.waiting) > 0 && m.locks == 0 {
		what := m.waiting[0]
		m.waiting = m.waiting[1:]
		what()
	}
}

// name returns what the client has of a key.
func (c *client) name(key string) *name {
	for _, n := range c.names {
		if n.key == key {
			return n
		}
	}
	n := &name{client: c, key: key}
	n.lock.Begin(&c.rules, key)
	c.names = append(c.names, n)
	return n
}

// act carries out what has come of an input.
func (n *name) act(acts []lock.Act) {
	c := n.client
	err := n.lock.Verify()
	c.check(err == nil, "a queue is as its state says", "client %d: %v", c.number, err)
	for i := 0; i < len(acts); i++ {
		a := acts[i]
		if a.What == lock.Send && a.Tag.What == lock.Vote {
			a.To.(*round).begin(acts[i:])
			return
		}
		n.asks(&a)
		switch a.What {
		case lock.Send:
			acts = n.send(acts, a)
		case lock.End:
			a.To.(*round).end()
		case lock.Renew:
			a.To.(*granted).renew()
		case lock.Over:
			a.To.(*granted).current.over()
		case lock.AwaitCleanUp:
			r := a.To.(*round)
			c.afterClock(&c.clock, r.Grant().Start.Add(nodeTimeout), func() {
				if r.outcome == quorum.Undecided {
					r.do(func() { r.take(r.Overdue(nil, &c.clock)) })
				}
			})
		case lock.Again:
			r := a.To.(*round)
			c.afterClock(&c.clock, c.clock.Now().Add(nodeTimeout), func() { r.do(func() { n.act(r.Again(nil)) }) })
		case lock.Offer:
			a.Call.Of.(*waiter).begin()
		case lock.Foreign:
			a.Call.Of.(*waiter).refuse()
		case lock.Wake:
			n.timer.at = time.Time{} // in the place of what was asked for before
			n.timer.set(c, &c.clock, a.At, func() { n.do(func() { n.act(n.lock.Tick(nil)) }) })
		case lock.Publish:
			m := a.Message
			if m.Node == lock.AllNodes {
				c.log("client %d passes the turn for %s to %s", c.number, n.key, m.To)
			}
			for i, l := range c.lines {
				if m.Node == lock.AllNodes || m.Node == i {
					n.publish(l, &a)
				}
			}
		}
	}
}

// publish sends a message to another client.
func (n *name) publish(l *line, a *lock.Act) {
	m := a.Message
	o := order{note: &note{m.To, m.What, n.key, m.Peers}, tag: a.Tag}
	if a.Tag.What == lock.Announce {
		o.to = n
	}
	_ = l.send(o)
}

// send sends what is not the command of a round.
func (n *name) send(acts []lock.Act, a lock.Act) []lock.Act {
	c, to := n.client, a.To
	switch a.Tag.What {
	case lock.Raise:
		r := to.(*round)
		r.raised = true
		if r.kind.HasSlots() {
			c.log("client %d: slot %d of %s is taken back on node %d", c.number, a.Raise.Granted-1, r.token, a.Tag.Node)
			break
		}
		c.log("client %d: raise of %s to %d on node %d", c.number, r.token, since(a.Raise.Token), a.Tag.Node)
	case lock.CleanUp:
		r := to.(*round)
		c.check(r.Answer(int(a.Tag.Node)) != quorum.No, "nothing is released where it certainly is not", "client %d releases %s on node %d", c.number, r.token, a.Tag.Node)
		r.giveBack(c)
		r.cleaned = append(r.cleaned, int(a.Tag.Node))
	case lock.Watch:
		n.spend(1)
		to = n
	case lock.Heal:
		c.check(a.Command.Token != "", "only what can be a lock is healed", "client %d: %s on node %d", c.number, n.key, a.Tag.Node)
		to = n
	}
	err := c.lines[a.Tag.Node].send(order{cmd: a.Command, to: to, tag: a.Tag})
	if err == nil || a.Tag.What == lock.Forgotten {
		return acts
	}
	reply := wire.Unsent(err)
	switch to := to.(type) {
	case *round:
		return to.answered(acts, a.Tag, reply)
	case *granted:
		return to.lease.Answered(acts, a.Tag, reply)
	}
	return n.lock.Answered(acts, a.Tag, reply)
}

// Reply implements [wire.Receiver] for what the waiters are about.
func (n *name) Reply(tag wire.Tag, r *wire.Reply) {
	c := n.client
	if c.trace != nil && tag.What == lock.Watch {
		what := r.Answer.String()
		if r.Answer == quorum.Yes {
			what = fmt.Sprintf("%s for %v", c.form.Shows(r).Token, r.TTL)
		}
		if r.Tracked {
			what += ", tracked"
		}
		c.log("client %d observes %s on node %d: %s", c.number, n.key, tag.Node, what)
	}
	n.do(func() { n.act(n.lock.Answered(nil, tag, r)) })
}

// giveBack records that a client releases the lock of an acquire.
func (r *round) giveBack(c *client) {
	if !slices.Contains(r.given, c) {
		r.given = append(r.given, c)
	}
}
