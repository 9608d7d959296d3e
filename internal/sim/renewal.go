package sim

import "github.com/quorumlock/quorumlock/internal/quorum"

// renew has the lock renewed when it is due next, as the watchdog of package redlock does.
func (k *lock) renew() {
	c := k.client
	due, ok := k.renewal.Next(c.clock.Now())
	if !ok || k.dropped {
		return
	}
	c.afterClock(&c.clock, due, func() {
		if !k.dropped {
			k.beginRenewal()
		}
	})
}

// beginRenewal begins a renewal, unless another extension is under way.
func (k *lock) beginRenewal() {
	c := k.client
	if k.turn {
		k.renewal.Ended(c.clock.Now(), quorum.Undecided)
		k.renew()
		return
	}
	grant, ok := k.renewal.Grant(c.clock.Now())
	if !ok || k.lease.At(grant.Start) != quorum.Held {
		k.renew()
		return
	}
	if k.sending {
		// The release asks the nodes: the lease is over by now.
		c.world.violate("a lease ends with its unlock", "client %d: %v is renewed while it is released", c.number, k)
	}
	k.turn = true
	r := k.newExtend(grant)
	r.ended = func() { c.soon(func() { k.renewalEnded(r.outcome) }) }
	k.sending = true
	c.begin(r)
}

func (k *lock) renewalEnded(outcome quorum.Outcome) {
	c := k.client
	k.renewal.Ended(c.clock.Now(), outcome)
	k.turn = false
	if k.lease.At(c.clock.Now()) != quorum.Held {
		k.over()
	}
	k.renew()
}
