package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// round carries out what a lock.Round asks for: a call of a client, or a part of one.
type round struct {
	*lock.Round
	*name
	acquire  *lock.Acquire // the round, if that is what it is
	verb     verb
	renews   bool // it is a renewal
	token    string
	fenced   bool
	kind     form.Kind
	limit    uint16   // how many slots there are, if it is to have one
	slots    []uint64 // slots[i] is 1 + the slot that node i has granted
	highest  uint64   // the highest fencing number that a node has granted
	cleaned  []int    // the nodes to which its release was sent when it was lost
	passing  bool     // its caller comes and goes
	number   int
	sent     time.Duration // true time at which it began
	lock     *held         // what an extend or a release is for
	before   time.Time     // its deadline when the extend began
	yes      int           // nodes that had the key when the extend came
	delayed  []delay       // where and when an acquire has set its key after its outcome
	unheard  int           // nodes that the extend has given the key, whose answer the client has not got
	raised   bool          // its token was put to nodes
	barred   bool          // one of them did not take it
	detached bool          // its holder has left its lock to another client
	upsets   int           // of the client when it began
	first    bool          // it may have waited for the first connection to a node
	onEnded  func()        // called with the outcome
	onAll    func()        // called when all nodes have answered, or have not in time
	silent   []int         // nodes that had not answered when what it has won was left to another
	late     []int         // the silent nodes that have granted it afterwards
	unsure   bool          // and a node that has not said later whether it holds the token still
	stopped  bool          // the context ended
	with     *together     // it is one of its rounds; nil means that it is alone
	back     time.Duration // true time at which it was given back, as others of its call were not won
	denied   bool          // a key without a TTL is in the way
	outcome  quorum.Outcome
	over     time.Duration // true time at which the caller got the outcome

	// given is who has released the lock of an acquire, or cut it short on some nodes: of those that hold
	// the same token nobody else can rely on it. nil is somebody who released it by force.
	given    []*client
	attached []*client
}

func (n *name) newRound(v verb, token string, l *lock.Round) *round {
	c := n.client
	r := &round{Round: l, name: n, verb: v, token: token, number: len(c.calls) + 1, sent: c.now, upsets: c.upsets}
	r.onEnded = func() {}
	r.first = slices.ContainsFunc(c.lines, func(l *line) bool { return !l.commands.Life.Met() })
	c.calls = append(c.calls, r)
	return r
}

// newAcquire makes a round with a token. It begins with acts.
func (n *name) newAcquire(call *lock.Call, token string) (r *round, acts []lock.Act) {
	r = n.acquireRound(token, call.Want.Kind)
	r.limit, r.slots = call.Want.Slots, make([]uint64, len(n.client.lines))
	return r, n.lock.Ask(nil, r.acquire, call, r.token, r)
}

// acquireRound makes one with a token.
func (n *name) acquireRound(token string, kind form.Kind) *round {
	c, a := n.client, new(lock.Acquire)
	r := n.newRound(acquire, token, &a.Round)
	r.acquire = a
	_, numbered := c.form.(form.Numbered)
	r.kind = kind
	r.fenced = numbered && !kind.Several()
	if c.plan.Fenced && !numbered {
		c.log("client %d asks for no fencing token", c.number)
	}
	c.rounds[life{r.token, n.key}] = r
	c.last = r
	return r
}

// newToken makes a token that no other is like.
func (c *client) newToken() string { return fmt.Sprintf("%s.%028d", c.self, len(c.calls)+1) }

// begin asks the nodes, and carries out what is to be done behind that. The goroutine that does so runs beside those that read the
// answers.
func (r *round) begin(acts []lock.Act) {
	c := r.client
	if r.sent = c.now; r.verb == extend {
		r.before = r.lock.lease.Deadline()
		c.check(!r.renews || !r.lock.current.unlocked, "a lease ends with its unlock", "client %d: %v is renewed when it has been released", c.number, r.lock)
	}
	c.log("client %d: %v of %s (%s, %v)", c.number, r.verb, r.token, r.key, r.Grant().TTL)
	r.locks++
	r.ask(acts, nil)
}

// ask sends the command to one node after the other. It may be held up between two of them.
func (r *round) ask(acts []lock.Act, unsent []int) {
	c := r.client
	for len(acts) > 0 && acts[0].What == lock.Send && acts[0].Tag.What == lock.Vote {
		a := acts[0]
		acts = acts[1:]
		r.asks(&a)
		node, err := int(a.Tag.Node), lock.ErrOver
		if a.At.IsZero() || c.clock.Now().Before(a.At) {
			if k := r.lock; r.verb == extend {
				c.check(!k.current.unlocked && k.lease.At(c.clock.Now()) == quorum.NotEnded,
					"no extension is sent after the end of a lease",
					"client %d: an extension of %v is sent to a node", c.number, k)
			}
			err = c.lines[node].send(order{cmd: a.Command, to: r, tag: a.Tag, sent: r.sent, of: r})
		}
		if err != nil {
			c.log("client %d: node %d on %v of %s: unsent", c.number, node, r.verb, r.token)
			r.Note(node, err)
			unsent = append(unsent, node)
		}
		if chance := c.chance(c.number, r.number, node, 4); chance&15 == 0 {
			c.after(time.Duration(chance>>8%300)*time.Microsecond, func() { r.ask(acts, unsent) })
			return
		}
	}
	if unsent != nil {
		acts = r.Unsent(acts, &c.clock, unsent)
	}
	r.take(acts)
	r.unlock()
}

// take carries out what has come of an input.
func (r *round) take(acts []lock.Act) {
	c := r.client
	r.act(acts)
	if err := r.Verify(); err != nil {
		c.check(false, err.Error(), "client %d: %v of %s was %s", c.number, r.verb, r.token, outcomes[r.outcome])
	}
}

// stop ends the context of the call.
func (r *round) stop() {
	if r.with != nil {
		r.with.stop()
		return
	}
	r.stopped = true
	r.stopNow()
}

func (r *round) stopNow() {
	r.do(func() { r.take(r.GiveUp(nil, &r.client.clock)) })
}

// Reply implements [wire.Receiver].
func (r *round) Reply(tag wire.Tag, reply *wire.Reply) {
	r.do(func() { r.take(r.answered(nil, tag, reply)) })
}

// answered takes the answer of a node.
func (r *round) answered(acts []lock.Act, tag wire.Tag, reply *wire.Reply) []lock.Act {
	c := r.client
	if c.trace != nil && tag.What != lock.CleanUp && tag.What != lock.Look {
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
	case tag.What == lock.Detached:
		r.unsure = r.unsure || reply.Answer != quorum.Yes && reply.Answer != quorum.No
	case tag.What == lock.Vote && reply.Late:
		if slices.Contains(r.silent, int(tag.Node)) && reply.Answer == quorum.Yes {
			r.late = append(r.late, int(tag.Node))
		}
		r.silent = slices.DeleteFunc(r.silent, func(node int) bool { return node == int(tag.Node) })
	case tag.What == lock.Look:
		r.denied = r.denied || reply.Answer == quorum.Yes && reply.TTL == wire.NoTTL
	case tag.What == lock.Raise:
		r.barred = r.barred || reply.Answer != quorum.Yes && !r.kind.Several()
	case reply.Fence > 0:
		r.highest = max(r.highest, reply.Fence)
	case r.kind.HasSlots() && reply.Slot > 0:
		r.slots[tag.Node] = uint64(reply.Slot)
	}
	if reply.Answer == quorum.Recreated { // late or not
		r.unheard--
	}
	acts = r.Answered(acts, &c.clock, tag, reply)
	if r.onAll != nil && !r.Asking() {
		c.after(0, r.onAll)
		r.onAll = nil
	}
	return acts
}

var outcomes = [...]string{"undecided", "done", "denied", "no quorum", "too late"}

// end takes the outcome. An extension may have ended without asking the nodes.
func (r *round) end() {
	c := r.client
	r.outcome = r.Outcome()
	if r.acquire != nil && r.outcome == quorum.Done {
		c.check(c.clock.Now().Before(r.Grant().Deadline()), "a lock that is won has validity left",
			"client %d won %s after its deadline", c.number, r.token)
		c.checkFence(r)
	}
	if r.outcome != quorum.Undecided {
		r.returns()
	} else {
		r.over = c.now
		r.onEnded()
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
