package sim

import (
	"slices"
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
	client    *client
	number    int
	verb      verb
	machine   machine
	acquire   *quorum.Acquire // the machine, if that is what it is
	extend    *quorum.Extend  // likewise
	lock      *lock           // what an extend or a release is for
	before    time.Time       // its deadline when the extend began
	yes       int             // nodes that had the key when the extend came
	key       string
	token     string
	fenced    bool
	fence     fencing // with the command
	raised    bool    // its token was put to nodes
	barred    bool    // one of them did not take it
	ttl       time.Duration
	grant     quorum.Grant
	redeliver time.Duration // for how long a release is sent again
	began     time.Duration // true time
	pauses    int           // of the client when it began
	leapt     time.Duration // likewise
	asked     bool
	sent      func() // called when it has asked all nodes; may be nil
	ended     func() // called with the outcome; may be nil
	stopped   bool   // the context ended
	outcome   quorum.Outcome
	over      time.Duration // true time of the outcome
}

func (c *client) newRound(v verb, m machine, key, token string, grant quorum.Grant) *round {
	c.rounds++
	return &round{
		client: c, number: c.rounds, verb: v, machine: m, key: key, token: token, ttl: grant.TTL, grant: grant, redeliver: grant.TTL,
		began: c.world.now, pauses: c.pauses, leapt: c.clock.leapt,
	}
}

// newAcquire makes a round with a token of its own. floor is the highest number that one before it was granted in vain.
func (c *client) newAcquire(key string, ttl time.Duration, floor uint64) *round {
	grant := c.grant(ttl)
	begin, fenced := quorum.NewAcquire, c.world.plan.Fenced && c.number >= c.world.plan.Plain
	if fenced {
		begin = quorum.NewFencedAcquire
	}
	machine := begin(len(c.lines), grant)
	r := c.newRound(acquire, machine, key, c.token(), grant)
	r.acquire = machine
	if r.fenced = fenced; fenced {
		estimate, known := c.counterTime(grant.Start)
		keep := c.world.plan.counterLife()
		r.fence = fencing{estimate: estimate, forward: !known || 2*ttl.Milliseconds() > keep, floor: floor, keep: keep}
	} else if c.world.plan.Fenced {
		c.world.log("client %d asks for no fencing token", c.number)
	}
	c.world.rounds[r.token] = r
	c.last = r
	return r
}

// begin asks one node after the other. The goroutine that does so runs beside those
// that read the answers, and may be held up between two nodes.
func (c *client) begin(r *round) {
	c.calls = append(c.calls, r)
	c.world.log("client %d: %v of %s (%s, %v)", c.number, r.verb, r.token, r.key, r.ttl)
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
	case r.extend != nil && !r.extend.Ask(&c.clock):
		r.reply(node, extend, quorum.Unsent, reply{})
	default:
		c.world.checkSend(r)
		c.lines[node].send(order{command{verb: r.verb, key: r.key, token: r.token, ttl: r.asks(), fenced: r.fenced, fence: r.fence, sent: r.began, of: r}, r, node})
	}
	gap := time.Duration(0)
	if chance := c.world.chance(c.number, r.number, node, 4); chance&15 == 0 {
		gap = time.Duration(chance>>8%300) * time.Microsecond
	}
	if gap > 0 {
		c.after(gap, func() { r.ask(node + 1) })
	} else {
		r.ask(node + 1)
	}
}

// asks is the TTL that goes with the command: for a release, it bounds how long that is sent again.
func (r *round) asks() int64 {
	if r.verb == release {
		return r.redeliver.Milliseconds()
	}
	return r.ttl.Milliseconds()
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
	if r.outcome != quorum.Undecided && slices.Contains(c.calls, r) {
		r.returns() // the outcome was there before the asking was over
	}
	if r.sent != nil {
		r.sent()
	}
}

// stop ends the context of the call.
func (r *round) stop() {
	r.stopped = true
	if r.asked {
		r.apply(r.machine.Stop(&r.client.clock))
	}
}

// reply takes the end of a command.
func (r *round) reply(node int, v verb, vote quorum.Answer, answer reply) {
	switch {
	case v == acquire && answer.number > 0:
		r.client.world.log("client %d: node %d on %v of %s: yes, %d", r.client.number, node, v, r.token, since(answer.number))
		r.apply(r.acquire.Granted(&r.client.clock, node, answer.number, ""))
	case v == raise:
		r.client.world.log("client %d: node %d on %v of %s: %s", r.client.number, node, v, r.token, vote)
		r.barred = r.barred || vote != quorum.Yes
		r.apply(r.acquire.Raised(&r.client.clock, node, vote))
	case v == r.verb:
		r.client.world.log("client %d: node %d on %v of %s: %s", r.client.number, node, v, r.token, vote)
		r.apply(r.machine.Vote(&r.client.clock, node, vote, ""))
	default:
		r.apply(r.acquire.Released(node))
	}
}

// apply carries out the actions of the machine.
func (r *round) apply(actions quorum.Actions) {
	c := r.client
	for _, i := range actions.Release {
		c.lines[i].send(order{command{verb: release, key: r.key, token: r.token, ttl: r.redeliver.Milliseconds(), fenced: r.fenced}, r, i})
	}
	if len(actions.Release) > 0 {
		c.world.give(r.token, c)
	}
	for _, due := range actions.Raise {
		r.raised = true
		put := fencing{number: due.Granted, token: due.Token}
		c.world.log("client %d: raise of %s to %d on node %d", c.number, r.token, since(put.token), due.Node)
		c.lines[due.Node].send(order{command{verb: raise, key: r.key, token: r.token, fenced: true, fence: put}, r, due.Node})
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
	if r.extend != nil && r.lock.lease.At(c.clock.Now()) != quorum.Held {
		r.lock.over()
	}
}

var outcomes = [...]string{quorum.Done: "done", quorum.Denied: "denied", quorum.NoQuorum: "no quorum", quorum.TooLate: "too late"}

// end takes the outcome. The caller has it once it is done asking.
func (r *round) end(outcome quorum.Outcome) {
	c := r.client
	if r.outcome != quorum.Undecided {
		c.world.violate("a call ends once", "client %d got %s after %s", c.number, outcomes[outcome], outcomes[r.outcome])
		return
	}
	r.outcome = outcome
	if r.acquire != nil && outcome == quorum.Done {
		c.world.checkVerdict(r)
		c.world.checkFence(r)
	}
	if r.asked {
		r.returns()
	}
}

// returns is where the caller goes on.
func (r *round) returns() {
	c := r.client
	c.world.log("client %d: %v of %s is %s", c.number, r.verb, r.token, outcomes[r.outcome])
	c.calls = slices.DeleteFunc(c.calls, func(o *round) bool { return o == r })
	r.over = c.world.now
	c.world.checkEnd(r)
	if r.extend != nil && r.outcome == quorum.Done {
		r.lock.watch()
	}
	if r.ended != nil {
		r.ended()
	}
}
