package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// round carries out what a lock.Round asks for: a call of a client, or a part of one.
type round struct {
	*lock.Round
	*mutex
	acquire *lock.Acquire // the round, if that is what it is
	verb    verb
	key     string
	token   string
	fenced  bool
	client  *client
	number  int
	sent    time.Duration // true time at which it began
	lock    *held         // what an extend or a release is for
	before  time.Time     // its deadline when the extend began
	yes     int           // nodes that had the key when the extend came
	delayed []int         // nodes on which an acquire has set its key after its outcome
	unheard int           // nodes that the extend has given the key, whose answer the client has not got
	raised  bool          // its token was put to nodes
	barred  bool          // one of them did not take it
	known   bool          // somebody else knows its token
	upsets  int           // of the client when it began
	asks    []lock.Act    // with which it begins
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

// mutex lets one after the other do something to a round or a lock. Who sends commands has it meanwhile, and may be held up.
type mutex struct {
	busy    bool
	waiting []func()
}

func (m *mutex) do(what func()) {
	if m.busy {
		m.waiting = append(m.waiting, what)
		return
	}
	what()
}

func (m *mutex) unlock() {
	m.busy = false
	for len(m.waiting) > 0 && !m.busy {
		what := m.waiting[0]
		m.waiting = m.waiting[1:]
		what()
	}
}

func (c *client) newRound(v verb, key, token string, l *lock.Round, m *mutex) *round {
	r := &round{Round: l, mutex: m, verb: v, key: key, token: token, client: c, number: len(c.calls) + 1, sent: c.now, upsets: c.upsets}
	r.onAsked, r.onEnded = func() {}, func() {}
	c.calls = append(c.calls, r)
	return r
}

// newAcquire makes a round with a token of its own. floor is the highest number that one before it was
// granted in vain, block how many numbers to reserve.
func (c *client) newAcquire(key string, s Step, floor, block uint64) *round {
	a := new(lock.Acquire)
	r := c.newRound(acquire, key, c.newToken(), &a.Round, new(mutex))
	r.acquire = a
	grant := c.grant(s.TTL)
	grant.Grace = s.Grace
	a.Ask = form.Ask{TTL: s.TTL, Floor: floor, Block: block}
	if n, ok := c.form.(form.Numbered); ok {
		r.fenced = true
		n.Prepare(&a.Ask, grant.Start, func() time.Time { return epoch.Add(time.Duration(float64(c.now)*c.clock.rate) + c.wall) })
	} else if c.plan.Fenced {
		c.log("client %d asks for no fencing token", c.number)
	}
	c.rounds[r.token] = r
	c.last = r
	r.asks = a.Begin(nil, c.form, form.Mark{Key: key, Token: r.token}, grant, len(c.lines))
	return r
}

// newToken makes a token that no other is like.
func (c *client) newToken() string { return fmt.Sprintf("%s.%028d", c.self, len(c.calls)+1) }

// begin asks the nodes. The goroutine that does so runs beside those that read the answers.
func (c *client) begin(r *round) {
	c.log("client %d: %v of %s (%s, %v)", c.number, r.verb, r.token, r.key, r.Grant().TTL)
	r.busy = true
	r.ask(r.asks, nil)
}

// ask sends the command to one node after the other. It may be held up between two of them.
func (r *round) ask(acts []lock.Act, refusals []lock.Refusal) {
	c := r.client
	for i, a := range acts {
		node, err := int(a.Tag.Node), lock.ErrOver
		if a.Until.IsZero() || c.clock.Now().Before(a.Until) {
			if k := r.lock; r.verb == extend {
				c.check(!k.current.unlocked && k.lease.At(c.clock.Now()) == quorum.Held,
					"no extension is sent after the end of a lease",
					"client %d: an extension of %v is sent to a node", c.number, k)
			}
			err = c.lines[node].send(order{cmd: a.Command, to: r, tag: a.Tag, sent: r.sent, of: r})
		}
		if err != nil {
			c.log("client %d: node %d on %v of %s: unsent", c.number, node, r.verb, r.token)
			refusals = append(refusals, lock.Refusal{Node: node, Err: err})
		}
		if chance := c.chance(c.number, r.number, node, 4); chance&15 == 0 {
			c.after(time.Duration(chance>>8%300)*time.Microsecond, func() { r.ask(acts[i+1:], refusals) })
			return
		}
	}
	if refusals != nil {
		r.act(r.Unsent(nil, &c.clock, refusals))
	}
	r.asked = true
	if r.outcome != quorum.Undecided && r.over == 0 {
		r.returns() // the outcome was there before the asking was over
	}
	r.onAsked()
	r.unlock()
}

// act carries out what has come of an input.
func (r *round) act(acts []lock.Act) {
	c := r.client
	for i := 0; i < len(acts); i++ {
		switch a := acts[i]; a.What {
		case lock.Send:
			acts = r.send(acts, a)
		case lock.AwaitCleanUp:
			c.afterClock(&c.clock, r.Grant().Start.Add(nodeTimeout), func() {
				if r.outcome == quorum.Undecided {
					r.stopNow()
				}
			})
		}
	}
	if r.outcome == quorum.Undecided && r.Outcome() != quorum.Undecided {
		r.end(r.Outcome())
	}
	if err := r.Verify(); err != nil {
		c.check(false, err.Error(), "client %d: %v of %s was %s", c.number, r.verb, r.token, outcomes[r.outcome])
	}
	if r.verb == extend {
		r.lock.answered()
	}
}

func (r *round) send(acts []lock.Act, a lock.Act) []lock.Act {
	c := r.client
	switch {
	case a.Tag.What == lock.Observe:
		r.lock.send([]lock.Act{a})
		return acts
	case a.Tag.What == lock.Raise:
		r.raised = true
		c.log("client %d: raise of %s to %d on node %d", c.number, r.token, since(a.Raise.Token), a.Tag.Node)
	case !slices.Contains(r.given, c):
		r.given = append(r.given, c)
	}
	if err := c.lines[a.Tag.Node].send(order{cmd: a.Command, to: r, tag: a.Tag}); err != nil {
		acts = r.answered(acts, a.Tag, wire.Reply{Answer: quorum.Unsent, Err: err})
	}
	return acts
}

// stop ends the context of the call.
func (r *round) stop() {
	r.stopped = true
	r.stopNow()
}

func (r *round) stopNow() {
	r.do(func() { r.act(r.GiveUp(nil, &r.client.clock)) })
}

// Reply implements [wire.Receiver].
func (r *round) Reply(tag wire.Tag, reply wire.Reply) {
	r.do(func() { r.act(r.answered(nil, tag, reply)) })
}

// answered takes the answer of a node.
func (r *round) answered(acts []lock.Act, tag wire.Tag, reply wire.Reply) []lock.Act {
	c := r.client
	if c.trace != nil && tag.What != lock.CleanUp {
		what, late := r.verb, ""
		if tag.What == lock.Raise {
			what = raise
		}
		if reply.Late {
			late = ", late"
		}
		c.log("client %d: node %d on %v of %s%s: %s", c.number, tag.Node, what, r.token, late, shown(reply))
	}
	switch {
	case tag.What == lock.CleanUp:
		r.denied = r.denied || errors.Is(reply.Err, nodeerr.ErrNoExpiry)
	case tag.What == lock.Raise:
		r.barred = r.barred || reply.Answer != quorum.Yes
	case reply.Answer == quorum.Recreated:
		r.unheard--
	}
	return r.Answered(acts, &c.clock, tag, reply)
}

var outcomes = [...]string{"undecided", "done", "denied", "no quorum", "too late"}

// end takes the outcome. The caller has it once it is done asking.
func (r *round) end(outcome quorum.Outcome) {
	c := r.client
	r.outcome = outcome
	if r.acquire != nil && outcome == quorum.Done {
		c.check(c.clock.Now().Before(r.Grant().Deadline()), "a lock that is won has validity left",
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
