package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// attach takes up what another has taken last, or tries to take.
func (c *client) attach(s Step) {
	var of *round
	for _, o := range c.clients {
		if r := o.last; o != c && r != nil && r.key == key(s.Name) && (of == nil || of.sent < r.sent) {
			of = r
		}
	}
	if of == nil || slices.Contains(of.attached, c) {
		return
	}
	c.log("client %d: attach to %s", c.number, of.token)
	of.client.tell(of)
	began, machine := c.now, quorum.NewAttach(len(c.lines), c.clock.Now(), drift)
	c.attaching = machine
	longest := cmp.Or(c.plan.Guard, 2*time.Hour) // that anybody may ask for
	for i, l := range c.lines {
		l.send(command{verb: observe, key: of.key}, func(vote quorum.Answer, r reply) {
			if vote == quorum.Yes && r.token != of.token {
				vote = quorum.No
			}
			outcome := machine.Observed(&c.clock, i, vote, r.number, r.ttl, "").Outcome
			if c.attaching != machine || outcome == quorum.Undecided {
				return
			}
			c.attaching = nil
			c.log("client %d: attach to %v is %s", c.number, of.token, outcomes[outcome])
			if outcome == quorum.Done && c.holds == nil && c.call == nil {
				k := c.newLock(of, machine.Fence(), machine.Lease(longest))
				k.know()
				c.checkAttached(k, began)
				c.checkHeld(k, "when it was attached to")
				of.attached = append(of.attached, c)
				c.holds = k
				k.take(s.Auto)
			}
		})
	}
	c.after(2*nodeTimeout, func() {
		if c.attaching == machine {
			c.attaching = nil
		}
	})
}
