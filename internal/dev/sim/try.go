package sim

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// attempt is a TryLock: its rounds.
type attempt struct {
	Step
	repeats
	queue *name
	call  lock.Call
	round *round // the last one
	main  bool   // it is that of the goroutine that tries, extends and unlocks
}

// try has the goroutine that tries, extends and unlocks begin a TryLock.
func (n *name) try(s Step) { n.newAttempt(s, true) }

// tryBeside has another goroutine begin a TryLock.
func (n *name) tryBeside(s Step) { n.newAttempt(s, false) }

func (n *name) newAttempt(s Step, main bool) {
	c := n.client
	a := &attempt{Step: s, repeats: c.newRepeats(), queue: n, call: lock.Call{Want: s.want()}, main: main}
	n.do(func() {
		if !main || c.call == nil && len(c.holds) == 0 { // else meanwhile
			a.begin(c.newToken())
		}
	})
}

// begin begins a round.
func (a *attempt) begin(token string) {
	n, c := a.queue, a.queue.client
	r, acts := n.newAcquire(&a.call, token)
	a.check(r)
	a.limit(r)
	a.round = r
	if a.main {
		c.call = r
	}
	r.onEnded = func() { n.do(a.ended) }
	r.act(acts)
}

// ended goes on at the end of a round.
func (a *attempt) ended() {
	n, c, r := a.queue, a.queue.client, a.round
	a.checkEnd(r)
	if r.outcome == quorum.Done {
		k, acts := n.won(r, &a.call)
		if a.main {
			c.call, c.holds = nil, append(c.holds, k)
		} else {
			c.after(a.For, k.giveUp)
		}
		n.act(acts)
		return
	}
	n.waited = n.waited || r.denied
	n.act(n.lock.Lost(nil, &a.call, r.acquire))
	a.lost([]*round{r}, func() { n.do(a.again) })
}

// again begins a repeat when its pause is over, or ends the call.
func (a *attempt) again() {
	switch token := a.next(&a.call); {
	case token != "" && !a.round.stopped:
		a.begin(token)
	case a.main:
		a.queue.client.call = nil
	}
}

// repeats are the repeats of a call that does not wait.
type repeats struct {
	*lock.Repeat
	client *client
	before []*round // of the last round: one for each name
	began  time.Time
	split  bool     // some node has granted it when it was lost, and another has not
	floors []uint64 // the highest numbers that were granted by then, for each name
	slots  []uint64 // the slots that were granted by then, as in a round
}

func (c *client) newRepeats() repeats {
	return repeats{client: c, Repeat: c.rules.Repeat(func() (string, error) { return c.newToken(), nil })}
}

// lost goes on when a round is lost, and what it has won is given back: after a pause if another round follows.
func (p *repeats) lost(rounds []*round, then func()) {
	c, lost := p.client, []lock.LostRound(nil)
	if p.before == nil {
		p.began, p.floors = rounds[0].Grant().Start, make([]uint64, len(rounds))
	}
	p.before = rounds
	for i, r := range rounds {
		lost = append(lost, r.acquire.LostRound())
		p.floors[i] = max(p.floors[i], r.highest)
	}
	r := rounds[0]
	p.slots = slices.Clone(r.slots)
	p.split = r.votes(quorum.Yes) > 0 && (r.votes(quorum.No) > 0 || r.kind.HasSlots())
	pause, again := p.Lost(lost...)
	if !again {
		p.Repeat = nil
		then()
		return
	}
	c.log("client %d: %s may have been split", c.number, r.token)
	c.afterClock(&c.clock, c.clock.Now().Add(pause), then)
}

// next returns the token of the next round, or "" if none follows.
func (p *repeats) next(calls ...*lock.Call) (token string) {
	if p.Repeat != nil {
		token, _ = p.Begin(calls...)
	}
	return token
}

// limit ends the wait for a repeat that goes on for too long.
func (p *repeats) limit(rounds ...*round) {
	if p.before == nil {
		return
	}
	c := p.client
	c.afterClock(&c.clock, p.Ends(), func() {
		if i := slices.IndexFunc(rounds, func(r *round) bool { return r.over == 0 }); i >= 0 {
			rounds[i].stop()
		}
	})
}

// checkEnd checks that a repeat ends when the first round had to end.
func (p *repeats) checkEnd(r *round) {
	if p.before == nil {
		return
	}
	c, limit := p.client, nodeTimeout+5*time.Millisecond
	if r.fenced {
		limit += nodeTimeout
	}
	took := c.clock.Now().Sub(p.began)
	c.check(took <= limit || c.upsets > r.upsets, "all rounds of a call that does not wait end within the time of one",
		"client %d: %s, after %v", c.number, r.token, took)
}

// check holds a round that is about to begin for a name to what is promised of one that repeats another.
func (p *repeats) check(r *round) {
	i := slices.IndexFunc(p.before, func(o *round) bool { return o.key == r.key })
	if i < 0 {
		return
	}
	c, o := p.client, p.before[i]
	began, ask := r.Grant().Start, r.acquire.Ask
	c.check(p.split, "a round that no node has granted, or none has refused, is not repeated", "client %d: %s", c.number, r.token)
	c.check(r.token != o.token, "a repeat has a token of its own", "client %d: %s", c.number, r.token)
	c.check(began.Sub(p.began) < nodeTimeout, "a repeat begins within the node timeout of the first round",
		"client %d: %s, after %v", c.number, r.token, began.Sub(p.began))
	c.check(ask.Floor >= p.floors[i], "a repeat asks for numbers above all that were granted before",
		"client %d: %s asks for more than %d", c.number, r.token, ask.Floor)
	for node := range c.lines {
		released := o.back > 0 || slices.Contains(o.cleaned, node)
		c.check(released || !o.acquire.Votes().MayHold(node), "a repeat follows the releases of the round before",
			"client %d: %s on node %d", c.number, r.token, node)
	}
	if !r.kind.HasSlots() {
		return
	}
	way := func(slot int) int { return (slot + int(r.limit) - o.acquire.Ask.Start) % int(r.limit) }
	for node, slot := range p.slots {
		c.check(slot == 0 || way(int(slot)-1) <= way(ask.Start), "a repeat begins at the furthest slot that was granted before",
			"client %d: %s begins at %d, and node %d has granted %d", c.number, r.token, ask.Start, node, slot-1)
	}
}
