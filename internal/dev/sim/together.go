package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// set is a TryLockAll: its rounds.
type set struct {
	repeats
	want []*lock.Want
	keys []string
	last *together
}

// together is a round of each name of a call, all with one token, and a command for each node, whose answer is for all of them.
type together struct {
	mutex   // had until the command has been sent to all nodes: no answer is taken before
	client  *client
	command wire.Command
	calls   []*lock.Call
	rounds  []*round
	ended   int  // rounds
	stopped bool // the context ended

	begins func(r *round)       // a round is about to ask the nodes
	over   func()               // all rounds have ended
	got    func(i int, k *held) // the lock of a round, if all are won
	then   func(won bool)       // the caller goes on
}

// newTogether makes a round for each of some names.
func (c *client) newTogether(token string, keys []string, calls []*lock.Call) *together {
	t := &together{client: c, calls: calls}
	for i, key := range keys {
		r := c.name(key).acquireRound(token, calls[i].Want.Kind)
		r.with, r.onEnded = t, t.end
		t.rounds = append(t.rounds, r)
	}
	t.locks = 1
	return t
}

// tryAll begins a TryLockAll.
func (c *client) tryAll(s Step) {
	t := &set{repeats: c.newRepeats()}
	t.keys = s.keys(c.plan.Names)
	for range t.keys {
		want := s.want()
		want.Kept = true
		t.want = append(t.want, want)
	}
	t.begin(c.newToken(), t.newCalls())
}

// keys returns the keys of the locks that are taken at once, in their order.
func (s Step) keys(names int) (keys []string) {
	for i := range s.All {
		keys = append(keys, key((s.Name+i)%names))
	}
	slices.Sort(keys)
	return keys
}

// newCalls makes the calls of a round.
func (t *set) newCalls() (calls []*lock.Call) {
	for _, want := range t.want {
		calls = append(calls, &lock.Call{Want: want})
	}
	return calls
}

// begin begins a round of each name.
func (t *set) begin(token string, calls []*lock.Call) {
	c := t.client
	a := c.newTogether(token, t.keys, calls)
	t.last, c.call = a, a.rounds[0]
	t.limit(a.rounds...)
	a.begins, a.over = t.check, func() { t.checkEnd(a.rounds[0]) }
	a.got = func(_ int, k *held) { c.holds = append(c.holds, k) }
	a.then = func(won bool) {
		if won {
			c.call = nil
		} else {
			t.lost(a.rounds, t.again)
		}
	}
	a.join(0)
}

// again begins a repeat when its pause is over, or ends the call.
func (t *set) again() {
	calls := t.newCalls()
	if token := t.next(calls...); token != "" && !t.last.stopped {
		t.begin(token, calls)
	} else {
		t.client.call = nil
	}
}

// join begins the rounds from the i-th on, each under the mutex of its name, and sends the command.
func (t *together) join(i int) {
	c := t.client
	if i < len(t.rounds) {
		r := t.rounds[i]
		r.do(func() {
			r.sent, r.upsets = c.now, c.upsets
			r.name.lock.Join(r.acquire, t.calls[i], r.token, r)
			t.begins(r)
			c.log("client %d: acquire of %s with others (%s, %v)", c.number, r.token, r.key, r.Grant().TTL)
			t.join(i + 1)
		})
		return
	}
	rounds := make([]*lock.Acquire, i)
	for i, r := range t.rounds {
		rounds[i] = r.acquire
	}
	lock.Together(&t.command, rounds)
	t.ask(0, nil)
}

// ask sends the command to the nodes from one on. It may be held up between two of them.
func (t *together) ask(node int, unsent []int) {
	c, first := t.client, t.rounds[0]
	for ; node < len(c.lines); node++ {
		a := lock.Act{Command: &t.command, Tag: wire.Tag{What: lock.Vote, Node: uint16(node)}}
		first.asks(&a)
		err := c.lines[node].send(order{cmd: a.Command, to: t, tag: a.Tag, sent: first.sent})
		if err != nil {
			c.log("client %d: node %d on acquire of %s: unsent", c.number, node, first.token)
			unsent = append(unsent, node)
			for _, r := range t.rounds {
				r.Note(node, err)
			}
		}
		if chance := c.chance(c.number, first.number, node, 4); chance&3 == 0 {
			c.after(time.Duration(chance>>8%500)*time.Microsecond, func() { t.ask(node+1, unsent) })
			return
		}
	}
	t.unlock()
	for _, r := range t.rounds {
		if unsent == nil {
			return
		}
		r.do(func() { r.take(r.Unsent(nil, &c.clock, unsent)) })
	}
}

// Reply implements [wire.Receiver].
func (t *together) Reply(tag wire.Tag, reply *wire.Reply) {
	t.do(func() {
		for i, r := range t.rounds {
			r.Reply(tag, lock.Part(reply, i))
		}
	})
}

// stop ends the context of the call.
func (t *together) stop() {
	t.stopped = true
	t.do(func() {
		for _, r := range t.rounds {
			if r.over == 0 {
				r.stopped = true
				r.stopNow()
			}
		}
	})
}

// end takes it that a round has ended.
func (t *together) end() {
	if t.ended++; t.ended < len(t.rounds) {
		return
	}
	outcomes := make([]quorum.Outcome, len(t.rounds))
	for i, r := range t.rounds {
		outcomes[i] = r.outcome
	}
	t.client.soon(func() {
		t.over()
		t.settle(0, lock.AllWon(outcomes))
	})
}

// settle has the caller take the locks, or give back those that are won, from the i-th on. It leaves that of a waiter, on its turn, to the
// caller.
func (t *together) settle(i int, won bool) {
	c := t.client
	if i == len(t.rounds) {
		t.then(won)
		return
	}
	r, n := t.rounds[i], t.rounds[i].name
	w, _ := t.calls[i].Of.(*waiter)
	n.do(func() {
		switch {
		case won:
			c.check(r.outcome == quorum.Done, "who takes several locks has all of them or none", "client %d does not have %s of %s", c.number, n.key, r.token)
			if w != nil {
				w.got("has the lock, with others")
			}
			k, acts := n.won(r, t.calls[i])
			t.got(i, k)
			n.act(acts)
		case w == nil:
			r.missed(t.calls[i])
		}
		c.soon(func() { t.settle(i+1, won) })
	})
}

// missed gives back what a round has won, as others of its call were not won, and has its call lose it.
func (r *round) missed(call *lock.Call) {
	n := r.name
	r.unwon()
	n.act(n.lock.GiveBack(nil, r.acquire))
	n.act(n.lock.Lost(nil, call, r.acquire))
}

// unwon records that a round is given back, as others of its call were not won.
func (r *round) unwon() {
	c := r.client
	r.waited = r.waited || r.denied
	if r.outcome == quorum.Done {
		c.log("client %d gives back %s of %s", c.number, r.key, r.token)
		r.giveBack(c)
		r.back = c.now
	}
}
