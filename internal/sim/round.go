package sim

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// machine is what a round needs of quorum.Acquire, Extend and Release.
type machine interface {
	Asked(quorum.Clock) quorum.Effects
	Vote(c quorum.Clock, node int, vote quorum.Vote, server string) quorum.Effects
	Stop(quorum.Clock) quorum.Effects
	Said(node int) quorum.Vote
}

// round carries one machine: one call of a client.
type round struct {
	client  *client
	verb    verb
	machine machine
	acquire *quorum.Acquire // the machine, if that is what it is
	extend  *quorum.Extend  // likewise
	lock    *lock           // what an extend is for
	before  time.Time       // its deadline when the extend began
	key     string
	token   string
	ttl     time.Duration
	started time.Time
	began   time.Duration // true time
	pauses  int           // of the client when it began
	leapt   time.Duration // likewise
	asked   bool
	stopped bool // the context ended
	outcome quorum.Outcome
}

func (c *client) newRound(v verb, m machine, key, token string, ttl time.Duration) *round {
	c.rounds++
	return &round{client: c, verb: v, machine: m, key: key, token: token, ttl: ttl, started: c.clock.Now(), began: c.world.now, pauses: c.pauses, leapt: c.clock.leapt}
}

// begin asks one node after the other. The goroutine that does so runs beside those
// that read the answers, and may be held up between two nodes.
func (c *client) begin(r *round) {
	c.call = r
	c.world.tell("client %d: %v of %s (%s, %v)", c.number, r.verb, r.token, r.key, r.ttl)
	r.ask(0)
}

func (r *round) ask(node int) {
	c := r.client
	if node < len(c.lines) {
		if r.machine.Said(node) == quorum.Pending {
			c.lines[node].send(order{command{verb: r.verb, key: r.key, token: r.token, ttl: r.ttl.Milliseconds()}, r, node})
		}
		gap := time.Duration(0)
		if chance := c.world.chance(c.number, c.rounds, node, 4); chance&15 == 0 {
			gap = time.Duration(chance>>8%300) * time.Microsecond
		}
		if gap > 0 {
			c.after(gap, func() { r.ask(node + 1) })
		} else {
			r.ask(node + 1)
		}
		return
	}
	r.asked = true
	r.carry(r.machine.Asked(&c.clock))
	if r.stopped && r.outcome == quorum.Undecided {
		r.carry(r.machine.Stop(&c.clock))
	}
	if r.outcome != quorum.Undecided && c.call == r {
		r.returns() // the outcome was there before the asking was over
	}
}

// cancel ends the call's context.
func (c *client) cancel() {
	if r := c.call; r != nil && r.verb != release { // an Unlock does not look at it
		c.world.tell("client %d: the context ends", c.number)
		r.stopped = true
		if r.asked {
			r.carry(r.machine.Stop(&c.clock))
		}
	}
}

// reply takes the end of a command.
func (r *round) reply(node int, v verb, vote quorum.Vote) {
	switch {
	case v == r.verb:
		r.client.world.tell("client %d: node %d on %v of %s: %s", r.client.number, node, v, r.token, votes[vote])
		r.carry(r.machine.Vote(&r.client.clock, node, vote, ""))
	case r.extend != nil:
		r.extend.Restored(node, vote)
	default:
		r.carry(r.acquire.Released(node))
	}
}

var votes = [...]string{
	quorum.Yes: "yes", quorum.No: "no", quorum.Lost: "no answer", quorum.Refused: "refused", quorum.Unsent: "not sent",
}

// carry does what the machine asks for.
func (r *round) carry(effects quorum.Effects) {
	c := r.client
	for _, i := range effects.Release {
		c.lines[i].send(order{command{verb: release, key: r.key, token: r.token, ttl: r.ttl.Milliseconds()}, r, i})
	}
	for _, i := range effects.Restore {
		ttl := (effects.TTL + time.Millisecond - 1).Milliseconds()
		c.lines[i].send(order{command{verb: restore, key: r.key, token: r.token, ttl: ttl}, r, i})
	}
	if effects.Settling {
		c.afterClock(&c.clock, r.started.Add(nodeTimeout), func() {
			if r.outcome == quorum.Undecided {
				r.carry(r.machine.Stop(&c.clock))
			}
		})
	}
	if effects.Outcome != quorum.Undecided {
		r.end(effects.Outcome)
	}
	if r.lock != nil && r.lock.lease.At(c.clock.Now()) != quorum.Held {
		r.lock.over()
	}
}

var outcomes = [...]string{quorum.Done: "done", quorum.Denied: "denied", quorum.NoQuorum: "no quorum", quorum.TooLate: "too late"}

// end takes the outcome. The caller has it once it is done asking.
func (r *round) end(outcome quorum.Outcome) {
	c := r.client
	if r.outcome != quorum.Undecided {
		c.world.violate("a call ends once", "client %d was told %s after %s", c.number, outcomes[outcome], outcomes[r.outcome])
		return
	}
	r.outcome = outcome
	if r.asked {
		r.returns()
	}
}

// returns is where the caller goes on.
func (r *round) returns() {
	c := r.client
	c.world.tell("client %d: %v of %s is %s", c.number, r.verb, r.token, outcomes[r.outcome])
	c.call = nil
	c.world.checkEnd(r)
	switch {
	case r.outcome != quorum.Done:
	case r.verb == acquire:
		c.won(r)
	case r.verb == extend:
		r.lock.watch()
	}
}
