package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// attach takes up what another has taken last, or tries to take.
func (c *client) attach(s Step) {
	var of *round
	for _, o := range c.clients {
		if r := o.last; o != c && r != nil && r.key == key(s.Name) && r.known() && (of == nil || of.sent < r.sent) {
			of = r
		}
	}
	if of != nil && !slices.Contains(of.attached, c) {
		c.attachTo(of, s.Auto, func(*held) {})
	}
}

// known reports whether another client may know the token of a round. A client that hands locks off shows none that a
// later holder may have too, unless its process is gone.
func (r *round) known() bool {
	return r.detached || r.kind.Several() || r.client.plan.Handoff == 0 || r.client.dead
}

// attachTo takes up a lock. then is passed it, if that has succeeded.
func (c *client) attachTo(of *round, auto bool, then func(*held)) {
	c.log("client %d: attach to %s", c.number, of.token)
	began := c.now
	longest := cmp.Or(c.plan.Guard, 2*time.Hour) // that anybody may ask for
	a := lock.NewAttach(len(c.lines), form.ID{Key: of.key, Token: of.token}, c.grant(0), longest)
	c.attaching = a
	var ask func(i int, cmd *wire.Command, seen func(*wire.Reply) form.Observation)
	ask = func(i int, cmd *wire.Command, seen func(*wire.Reply) form.Observation) {
		c.lines[i].ask(cmd, receiver(func(r *wire.Reply) {
			next, outcome := a.Observed(&c.clock, i, seen(r), "")
			switch {
			case c.attaching != a:
			case next != nil:
				ask(i, next, form.Shared{}.Shows)
			case outcome != quorum.Undecided:
				c.attaching = nil
				c.log("client %d: attach to %v is %s", c.number, of.token, outcomes[outcome])
				if outcome == quorum.Done && len(c.holds) == 0 && c.call == nil {
					then(c.takeUp(of, a, auto, began))
				}
			}
		}), wire.Tag{})
	}
	for i := range c.lines {
		ask(i, form.Exclusive{}.ObserveMaster(of.key), c.form.Shows)
	}
	c.after(2*nodeTimeout, func() {
		if c.attaching == a {
			c.attaching = nil
		}
	})
}

// takeUp makes a lock of what the nodes hold.
func (c *client) takeUp(of *round, a *lock.Attach, auto bool, began time.Duration) *held {
	id, kind, lease := a.Lock()
	t, w := &granted{name: c.name(of.key), of: of}, Step{TTL: of.Grant().TTL, Auto: auto}.want()
	if w.Kind = kind; kind.HasSlots() {
		t.slot = id.Number
	} else {
		t.fence = id.Number
	}
	t.lock.Adopt(&t.lease, id, w, lease, t)
	k := t.begin()
	c.check(kind == of.kind, "a lock is attached to as what it was taken", "client %d: %v", c.number, k)
	c.checkHolder(k)
	c.checkAttached(k, began)
	c.checkHeld(k, "when it was attached to")
	c.checkTaken(k)
	of.attached = append(of.attached, c)
	c.holds = append(c.holds, k)
	k.take()
	return k
}

// withdraw takes back the commands of an acquire that wait for a connection, so that detach need not wait for it.
func (k *held) withdraw(r *round) {
	if k.lease.Acquiring() != r {
		return
	}
	for _, l := range k.client.lines {
		l.commands.Withdraw(k.client.mono.Now(), r.token, nodeerr.ErrUnneeded)
		l.notify()
	}
}

// detach leaves a lock on the nodes. The next client that does nothing else takes it up, and unlocks it after a while.
func (k *held) detach(then time.Duration) {
	c := k.client
	if r, asking := k.lease.Acquiring().(*round); asking {
		r.onAll = func() { k.detach(then) }
		c.after(nodeTimeout, func() { k.withdraw(r) })
		return
	}
	if len(k.holds) != 1 || k.lease.Extending() != nil || k.locks > 0 || !k.held() || k.lease.At(c.clock.Now()) != quorum.NotEnded {
		k.giveUp()
		return
	}
	c.log("client %d detaches from %v", c.number, k)
	acts := k.lock.Detach(nil, &k.lease, &k.holds[0])
	k.detached, k.of.detached, k.at = true, true, c.now
	for i := range c.lines {
		if k.of.Answer(i) == quorum.Unknown {
			k.of.silent = append(k.of.silent, i)
		}
	}
	c.check(!k.held(), "who has detached from a lock does not hold it", "client %d: %v", c.number, k)
	k.act(acts)
	for i := range c.clients {
		o := c.clients[(c.number+1+i)%len(c.clients)]
		if o != c && !o.dead && o.call == nil && len(o.holds) == 0 && o.attaching == nil {
			o.do(func() {
				o.attachTo(k.of, false, func(same *held) {
					o.after(then, func() {
						if slices.Contains(o.holds, same) {
							same.giveUp()
						}
					})
				})
			})
			return
		}
	}
}
