package sim

import (
	"slices"
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

// round carries one machine: a call of a client, or a part of one.
type round struct {
	client  *client
	number  int
	verb    verb
	machine machine
	acquire *quorum.Acquire // the machine, if that is what it is
	extend  *quorum.Extend  // likewise
	lock    *lock           // what an extend or a release is for
	before  time.Time       // its deadline when the extend began
	yes     int             // nodes that had the key when the extend came
	key     string
	token   string
	fenced  bool
	fence   fencing // with the command
	raised  bool    // its token was put to nodes
	barred  bool    // one of them did not take it
	ttl     time.Duration
	grant   quorum.Grant
	owed    time.Duration // how long a release is owed
	began   time.Duration // true time
	pauses  int           // of the client when it began
	leapt   time.Duration // likewise
	asked   bool
	sent    func() // called when it has asked all nodes; may be nil
	ended   func() // called with the outcome; may be nil
	stopped bool   // the context ended
	outcome quorum.Outcome
	over    time.Duration // true time of the outcome
}

func (c *client) newRound(v verb, m machine, key, token string, grant quorum.Grant) *round {
	c.rounds++
	return &round{
		client: c, number: c.rounds, verb: v, machine: m, key: key, token: token, ttl: grant.TTL, grant: grant, owed: grant.TTL,
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
		told, known := c.told(grant.Start)
		keep := c.world.plan.counterLife()
		r.fence = fencing{told: told, forward: !known || 2*ttl.Milliseconds() > keep, floor: floor, keep: keep}
	} else if c.world.plan.Fenced {
		c.world.tell("client %d asks for no fencing token", c.number)
	}
	c.world.rounds[r.token] = r
	c.last = r
	return r
}

// begin asks one node after the other. The goroutine that does so runs beside those
// that read the answers, and may be held up between two nodes.
func (c *client) begin(r *round) {
	c.calls = append(c.calls, r)
	c.world.tell("client %d: %v of %s (%s, %v)", c.number, r.verb, r.token, r.key, r.ttl)
	r.ask(0)
}

func (r *round) ask(node int) {
	c := r.client
	if node == len(c.lines) {
		r.finish()
		return
	}
	switch {
	case r.machine.Said(node) != quorum.Pending:
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

// asks is the TTL that goes with the command: a release has it for how long it is owed.
func (r *round) asks() int64 {
	if r.verb == release {
		return r.owed.Milliseconds()
	}
	return r.ttl.Milliseconds()
}

// finish goes on where all nodes have been asked.
func (r *round) finish() {
	c := r.client
	r.asked = true
	r.carry(r.machine.Asked(&c.clock))
	if r.stopped && r.outcome == quorum.Undecided {
		r.carry(r.machine.Stop(&c.clock))
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
		r.carry(r.machine.Stop(&r.client.clock))
	}
}

// reply takes the end of a command.
func (r *round) reply(node int, v verb, vote quorum.Vote, answer reply) {
	switch {
	case v == acquire && answer.number > 0:
		r.client.world.tell("client %d: node %d on %v of %s: yes, %d", r.client.number, node, v, r.token, since(answer.number))
		r.carry(r.acquire.Granted(&r.client.clock, node, answer.number, ""))
	case v == raise:
		r.client.world.tell("client %d: node %d on %v of %s: %s", r.client.number, node, v, r.token, votes[vote])
		r.barred = r.barred || vote != quorum.Yes
		r.carry(r.acquire.Raised(&r.client.clock, node, vote))
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
	quorum.Yes: "yes", quorum.No: "no", quorum.Planted: "planted", quorum.Lost: "no answer", quorum.Refused: "refused", quorum.Unsent: "not sent",
}

// carry does what the machine asks for.
func (r *round) carry(effects quorum.Effects) {
	c := r.client
	for _, i := range effects.Release {
		c.lines[i].send(order{command{verb: release, key: r.key, token: r.token, ttl: r.owed.Milliseconds(), fenced: r.fenced}, r, i})
	}
	if len(effects.Release)+len(effects.Restore) > 0 {
		c.world.give(r.token, c)
	}
	for _, i := range effects.Restore {
		ttl := (effects.TTL + time.Millisecond - 1).Milliseconds()
		c.lines[i].send(order{command{verb: restore, key: r.key, token: r.token, ttl: ttl, fenced: r.fenced, fence: r.fence}, r, i})
	}
	for _, i := range effects.Raise {
		r.raised = true
		put := fencing{number: r.acquire.Number(i), token: r.acquire.Fence()}
		c.world.tell("client %d: raise of %s to %d on node %d", c.number, r.token, since(put.token), i)
		c.lines[i].send(order{command{verb: raise, key: r.key, token: r.token, fenced: true, fence: put}, r, i})
	}
	if effects.Settling {
		c.afterClock(&c.clock, r.grant.Start.Add(nodeTimeout), func() {
			if r.outcome == quorum.Undecided {
				r.carry(r.machine.Stop(&c.clock))
			}
		})
	}
	if effects.Outcome != quorum.Undecided {
		r.end(effects.Outcome)
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
		c.world.violate("a call ends once", "client %d was told %s after %s", c.number, outcomes[outcome], outcomes[r.outcome])
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
	c.world.tell("client %d: %v of %s is %s", c.number, r.verb, r.token, outcomes[r.outcome])
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
