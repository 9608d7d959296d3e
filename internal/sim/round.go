package sim

import (
	"cmp"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// machine is what a round needs of quorum.Acquire, Extend and Release.
type machine interface {
	Vote(c quorum.Clock, node int, vote quorum.Answer, server string) quorum.Actions
	Stop(quorum.Clock) quorum.Actions
	Answer(node int) quorum.Answer
}

// round runs one machine: a call of a client, or a part of one.
type round struct {
	command // that is sent to each node
	client  *client
	number  int
	machine machine
	acquire *quorum.Acquire // the machine, if that is what it is
	lock    *lock           // what an extend or a release is for
	before  time.Time       // its deadline when the extend began
	yes     int             // nodes that had the key when the extend came
	delayed []int           // nodes on which an acquire has set its key after its outcome
	unheard int             // nodes that the extend has given the key, whose answer the client has not got
	raised  bool            // its token was put to nodes
	barred  bool            // one of them did not take it
	known   bool            // somebody else knows its token
	grant   quorum.Grant
	upsets  int // of the client when it began
	asked   bool
	onAsked func() // called when it has asked all nodes
	onEnded func() // called with the outcome
	stopped bool   // the context ended
	denied  bool   // a key without a TTL is in the way
	outcome quorum.Outcome
	over    time.Duration // true time at which the caller got the outcome

	// given is who has released the lock of an acquire, or cut it short on some nodes: of those that hold
	// the same token nobody else can rely on it. nil is somebody who released it by force.
	given    []*client
	attached []*client
}

func (c *client) newRound(cmd command, m machine, grant quorum.Grant) *round {
	r := &round{command: cmd, client: c, number: len(c.calls) + 1, machine: m, grant: grant, upsets: c.upsets}
	r.sent, r.of, r.onAsked, r.onEnded = c.now, r, func() {}, func() {}
	c.calls = append(c.calls, r)
	return r
}

// newAcquire makes a round with a token of its own. floor is the highest number that one before it was
// granted in vain, block how many numbers to reserve.
func (c *client) newAcquire(key string, s Step, floor, block uint64) *round {
	ttl, grant := s.TTL, c.grant(s.TTL)
	grant.Grace = s.Grace
	token := fmt.Sprintf("%s-%d", c.self, len(c.calls)+1)
	cmd := command{verb: acquire, key: key, token: token, ttl: ttl}
	if cmd.fenced = c.plan.Fenced && c.number >= c.plan.Plain; cmd.fenced {
		// The time of the counters, as package redlock estimates it from the numbers that it was granted.
		keep := cmp.Or(c.plan.Keep, keepFence)
		now, known := c.counts.Estimate(grant.Start)
		if !known {
			now = epoch.Add(time.Duration(float64(c.now)*c.clock.rate) + c.wall).UnixMicro()
		}
		cmd.fence = fencing{estimate: uint64(now), forward: !known || 2*ttl > keep, floor: floor, block: block, keep: keep}
	} else if c.plan.Fenced {
		c.log("client %d asks for no fencing token", c.number)
	}
	machine := quorum.NewAcquire(len(c.lines), grant)
	r := c.newRound(cmd, machine, grant)
	r.acquire = machine
	c.rounds[r.token] = r
	c.last = r
	return r
}

// begin asks one node after the other. The goroutine that does so runs beside those
// that read the answers, and may be held up between two nodes.
func (c *client) begin(r *round) {
	c.log("client %d: %v of %s (%s, %v)", c.number, r.verb, r.token, r.key, r.ttl)
	r.ask(0)
}

func (r *round) ask(node int) {
	c := r.client
	if node == len(c.lines) {
		r.finish()
		return
	}
	switch {
	case r.machine.Answer(node) != quorum.Pending:
	case r.verb == extend && !r.machine.(*quorum.Extend).Ask(&c.clock):
		r.voted(node, quorum.Unsent, reply{})
	default:
		if k := r.lock; r.verb == extend {
			c.check(!k.current.unlocked && k.lease.At(c.clock.Now()) == quorum.Held,
				"no extension is sent after the end of a lease",
				"client %d: an extension of %v is sent to a node", c.number, k)
		}
		voted := func(vote quorum.Answer, answer reply) { r.voted(node, vote, answer) }
		late := func(vote quorum.Answer, _ reply) { r.late(node, vote) }
		c.lines[node].sendLate(r.command, voted, late)
	}
	if chance := c.chance(c.number, r.number, node, 4); chance&15 == 0 {
		c.after(time.Duration(chance>>8%300)*time.Microsecond, func() { r.ask(node + 1) })
	} else {
		r.ask(node + 1)
	}
}

// finish goes on when all nodes have been asked.
func (r *round) finish() {
	c := r.client
	r.asked = true
	if r.acquire != nil {
		r.apply(r.acquire.Asked(&c.clock))
	}
	if r.stopped && r.outcome == quorum.Undecided {
		r.apply(r.machine.Stop(&c.clock))
	}
	if r.outcome != quorum.Undecided && r.over == 0 {
		r.returns() // the outcome was there before the asking was over
	}
	r.onAsked()
}

// stop ends the context of the call.
func (r *round) stop() {
	r.stopped = true
	if r.asked {
		r.apply(r.machine.Stop(&r.client.clock))
	}
}

// voted takes the end of the command to a node.
func (r *round) voted(node int, vote quorum.Answer, answer reply) {
	c, how := r.client, vote.String()
	if answer.number > 0 {
		how = fmt.Sprintf("yes, %d", since(answer.number))
	}
	c.log("client %d: node %d on %v of %s: %s", c.number, node, r.verb, r.token, how)
	if vote == quorum.Recreated {
		r.unheard--
	}
	if answer.number > 0 {
		r.apply(r.acquire.Granted(&c.clock, node, answer.number, ""))
	} else {
		r.apply(r.machine.Vote(&c.clock, node, vote, ""))
	}
}

// late takes the answer of a node that comes after its vote.
func (r *round) late(node int, vote quorum.Answer) {
	if r.verb != extend {
		return
	}
	r.client.log("client %d: node %d on %v of %s, late: %s", r.client.number, node, r.verb, r.token, vote)
	if vote == quorum.Recreated {
		r.unheard--
	}
	r.apply(r.machine.(*quorum.Extend).Late(&r.client.clock, node, vote, ""))
}

// apply carries out the actions of the machine.
func (r *round) apply(actions quorum.Actions) {
	c := r.client
	for _, i := range actions.Release {
		rollback := command{verb: release, key: r.key, token: r.token, ttl: r.ttl, fenced: r.fenced}
		c.lines[i].send(rollback, func(_ quorum.Answer, answer reply) {
			r.denied = r.denied || answer.forever
			r.apply(r.acquire.Released(i))
		})
	}
	if len(actions.Release) > 0 {
		r.given = append(r.given, c)
	}
	for _, due := range actions.Raise {
		r.raised = true
		put := fencing{number: due.Granted, token: due.Token}
		c.log("client %d: raise of %s to %d on node %d", c.number, r.token, since(put.token), due.Node)
		cmd := command{verb: raise, key: r.key, token: r.token, fenced: true, fence: put}
		c.lines[due.Node].send(cmd, func(vote quorum.Answer, _ reply) {
			c.log("client %d: node %d on %v of %s: %s", c.number, due.Node, raise, r.token, vote)
			r.barred = r.barred || vote != quorum.Yes
			r.apply(r.acquire.Raised(&c.clock, due.Node, vote))
		})
	}
	for _, i := range actions.Observe {
		r.lock.sendObservation(c.lines[i])
	}
	if actions.AwaitCleanUp {
		c.afterClock(&c.clock, r.grant.Start.Add(nodeTimeout), func() {
			if r.outcome == quorum.Undecided {
				r.apply(r.machine.Stop(&c.clock))
			}
		})
	}
	if actions.Outcome != quorum.Undecided {
		r.end(actions.Outcome)
	}
	if r.verb == extend {
		r.lock.answered()
	}
}

var outcomes = [...]string{"undecided", "done", "denied", "no quorum", "too late"}

// end takes the outcome. The caller has it once it is done asking.
func (r *round) end(outcome quorum.Outcome) {
	c := r.client
	if r.outcome != quorum.Undecided {
		c.check(false, "a call ends once", "client %d got %s after %s", c.number, outcomes[outcome], outcomes[r.outcome])
		return
	}
	r.outcome = outcome
	if r.acquire != nil && outcome == quorum.Done {
		c.check(c.clock.Now().Before(r.grant.Deadline()), "a lock that is won has validity left",
			"client %d won %s after its deadline", c.number, r.token)
		c.checkFence(r)
	}
	if r.asked {
		r.returns()
	}
}

// returns is where the caller goes on.
func (r *round) returns() {
	c := r.client
	c.log("client %d: %v of %s is %s", c.number, r.verb, r.token, outcomes[r.outcome])
	r.over = c.now
	c.checkEnd(r)
	if r.verb == extend && r.outcome == quorum.Done {
		r.lock.current.await()
	}
	r.onEnded()
}
