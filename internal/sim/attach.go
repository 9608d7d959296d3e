package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// attachment is a call of Attach.
type attachment struct {
	client  *client
	machine *quorum.Attach
	of      *round
	began   time.Duration // true time
	auto    bool
	over    bool
}

// attach takes up what another has taken last, or tries to take.
func (c *client) attach(s Step) {
	if c.call != nil || c.holds != nil || c.attaching != nil && !c.attaching.over {
		return
	}
	var of *round
	for _, o := range c.world.clients {
		if r := o.last; o != c && r != nil && r.key == key(s.Name) && (of == nil || of.began < r.began) {
			of = r
		}
	}
	if of == nil || slices.Contains(c.world.attached[of.token], c) {
		return
	}
	a := &attachment{client: c, began: c.world.now, machine: quorum.NewAttach(len(c.lines), c.clock.Now(), drift), of: of, auto: s.Auto}
	c.attaching = a
	c.world.log("client %d: attach to %s", c.number, of.token)
	for i, l := range c.lines {
		l.send(order{command{verb: observe, key: of.key}, a, i})
	}
	c.after(2*nodeTimeout, func() { a.over = true })
}

func (a *attachment) reply(node int, _ verb, vote quorum.Answer, r reply) {
	c := a.client
	if vote == quorum.Yes && r.token != a.of.token {
		vote = quorum.No
	}
	outcome := a.machine.Observed(&c.clock, node, vote, r.number, time.Duration(r.ttl)*time.Millisecond, "").Outcome
	if a.over || outcome == quorum.Undecided {
		return
	}
	a.over = true
	c.world.log("client %d: attach to %v is %s", c.number, a.of.token, outcomes[outcome])
	if outcome != quorum.Done || c.holds != nil || c.call != nil {
		return
	}
	k := &lock{client: c, key: a.of.key, token: a.of.token, fence: a.machine.Fence(), ttl: a.of.ttl, lease: a.machine.Lease(c.world.maxTTL()), handles: 1}
	c.world.checkAttached(a)
	c.world.checkHeld(k, "when it was attached to")
	c.world.attached[k.token] = append(c.world.attached[k.token], c)
	c.holds = k
	k.take(a.auto)
}

// maxTTL is the longest that anybody may ask for.
func (w *world) maxTTL() time.Duration {
	if w.plan.Guard > 0 {
		return w.plan.Guard
	}
	return 2 * time.Hour
}
