package quorum_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// worldRound is a round of a process.
type worldRound struct {
	machine *quorum.Acquire
	waiter  int
	token   string
	grant   quorum.Grant
	told    bool
}

// begin begins a round for the one who has waited for the longest.
func (p *process) begin() {
	w := p.world
	head, ok := p.machine.Head()
	switch {
	case p.round != nil:
		w.fail("%s: two rounds at a time", p.name)
	case !ok || len(p.waiters) == 0 || head != p.waiters[0]:
		w.fail("%s: a round for %d, where %v wait", p.name, head, p.waiters)
	}
	p.rounds++
	ttl := 100*time.Millisecond + w.below(time.Second)
	r := &worldRound{
		waiter: head, token: fmt.Sprintf("%s.%d", p.name, p.rounds),
		grant: quorum.Grant{Start: w.now, TTL: ttl, Drift: granted.Drift},
	}
	w.tell("%s: round %s for %d", p.name, r.token, head)
	r.machine = quorum.NewAcquire(len(w.nodes), r.grant)
	p.round = r
	for _, n := range w.nodes {
		vote := quorum.Lost
		p.send(n, func() { vote = w.acquire(n, r.token, ttl) }, func(done bool) {
			if !done {
				vote = quorum.Lost
			}
			p.carry(r, r.machine.Vote(w, n.number, vote, ""))
		})
	}
	p.carry(r, r.machine.Asked(w))
}

// carry does what a round asks for.
func (p *process) carry(r *worldRound, effects quorum.Effects) {
	w := p.world
	for _, i := range effects.Release {
		n := w.nodes[i]
		p.send(n, func() { w.release(n, r.token) }, func(bool) { p.carry(r, r.machine.Released(i)) })
	}
	if effects.Settling {
		w.after(nodeTimeout, func() { p.carry(r, r.machine.Stop(w)) })
	}
	switch {
	case effects.Outcome == quorum.Undecided || r.told:
		return
	case effects.Outcome == quorum.Done:
		r.told, p.round = true, nil
		w.tell("%s: %d has the lock", p.name, r.waiter)
		if idle := w.now.Sub(w.freed); w.quiet && idle > mostIdle {
			w.fail("nobody took the lock for %v", idle)
		}
		p.waiters = p.waiters[1:]
		p.holds++
		p.hold(r)
		p.do(p.machine.Won(w.now, r.grant))
	default:
		r.told, p.round = true, nil
		w.tell("%s: %s is lost", p.name, r.token)
		m := p.machine.Lost(w.now)
		p.do(m)
		if p.round == nil && slices.Contains(p.looks, 0) {
			w.fail("%s: a round is lost, and not every node is looked at", p.name)
		}
	}
}

// hold keeps the lock for a while: some wait for its end, some extend it, some forget it.
func (p *process) hold(r *worldRound) {
	w, lease := p.world, r.machine.Lease()
	hold := w.below(20 * time.Millisecond)
	if !w.quiet {
		switch w.random.IntN(8) {
		case 0:
			w.at(r.grant.Start.Add(r.grant.TTL), func() {
				p.holds--
				w.freed = w.now
			}) // nobody unlocks it
			return
		case 1:
			hold = w.below(2 * r.grant.TTL)
		}
	}
	var extend func()
	extend = func() {
		if p.round == r || lease.At(w.now) != quorum.Held {
			return
		}
		e := quorum.NewExtend(lease, quorum.Grant{Start: w.now, TTL: r.grant.TTL, Drift: granted.Drift})
		for _, n := range w.nodes {
			p.send(n, func() {
				if e.Ask(w) && w.lookUp(n) == r.token {
					w.set(n, r.token, w.now.Add(r.grant.TTL))
					e.Vote(w, n.number, quorum.Yes, "")
				}
			}, func(bool) {})
		}
		e.Asked(w)
		w.after(r.grant.TTL/3, extend)
	}
	w.after(r.grant.TTL/3, extend)
	w.after(hold, func() { p.unlock(r, lease) })
}

func (p *process) unlock(r *worldRound, lease *quorum.Lease) {
	w := p.world
	p.holds--
	p.reasons++
	w.freed = w.now
	held := lease.End(w.now, quorum.Released) == quorum.Released
	for _, n := range w.nodes {
		p.send(n, func() { w.release(n, r.token) }, func(bool) {})
	}
	w.tell("%s: %s is unlocked, in time: %t", p.name, r.token, held)
	if held {
		p.do(p.machine.Unlocked(w.now))
	}
}

// takeBeside takes the lock without waiting for it, as TryLock does, and gives it back.
func (p *process) takeBeside() {
	w := p.world
	p.rounds++
	token, held := fmt.Sprintf("%s.%d", p.name, p.rounds), 0
	w.tell("%s: %s beside the queue", p.name, token)
	for _, n := range w.nodes {
		p.send(n, func() {
			if w.acquire(n, token, time.Second) == quorum.Yes {
				held++
			}
		}, func(bool) {})
	}
	w.after(nodeTimeout+w.below(nodeTimeout), func() {
		w.freed = w.now
		for _, n := range w.nodes {
			p.send(n, func() { w.release(n, token) }, func(bool) {})
		}
		if p.reasons++; held >= majorityOf(len(w.nodes)) {
			w.tell("%s: %s is unlocked", p.name, token)
			p.do(p.machine.Unlocked(w.now))
		}
	})
}
