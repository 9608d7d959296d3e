package sim

import (
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// keeping renews a lock, as the watchdog of package redlock does.
type keeping struct {
	lock    *lock
	renewal *quorum.Renewal
	dropped bool
}

// keep begins to renew a lock.
func (k *lock) keep() {
	k.keeping = &keeping{lock: k, renewal: quorum.NewRenewal(k.lease, k.ttl, 0)}
	k.keeping.again()
}

// drop ends the renewals.
func (k *lock) drop() {
	if k.keeping != nil {
		k.keeping.dropped = true
	}
}

// again has the lock renewed when it is due next.
func (p *keeping) again() {
	c := p.lock.client
	due, ok := p.renewal.Next(c.clock.Now())
	if !ok || p.dropped {
		return
	}
	c.afterClock(&c.clock, due, func() {
		if !p.dropped {
			p.renew()
		}
	})
}

// renew begins a renewal, unless another extension is under way.
func (p *keeping) renew() {
	k := p.lock
	c := k.client
	if k.turn {
		p.renewal.Busy(c.clock.Now())
		p.again()
		return
	}
	grant, ok := p.renewal.Grant(c.clock.Now())
	if !ok || k.lease.At(grant.Start) != quorum.Held {
		p.again()
		return
	}
	if k.sending {
		// The release asks the nodes: the lease is over by now.
		c.world.violate("a lease ends with its unlock", "client %d: %v is renewed while it is released", c.number, k)
	}
	k.turn = true
	r := k.newExtend(grant)
	r.ended = func() { c.soon(func() { p.settle(r.outcome) }) }
	k.asking()
	c.begin(r)
}

// settle does what comes of the end of a renewal.
func (p *keeping) settle(outcome quorum.Outcome) {
	k := p.lock
	c := k.client
	p.renewal.Ended(c.clock.Now(), outcome)
	k.turn = false
	if k.lease.At(c.clock.Now()) != quorum.Held {
		k.over()
	}
	p.again()
}
