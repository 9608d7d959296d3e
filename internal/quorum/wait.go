package quorum

import (
	"slices"
	"time"
)

// Pace bounds what a contender asks of the nodes while it waits.
type Pace struct {
	First, Most time.Duration // of the back-off between rounds
	// Heal is for how long a key has to be seen without a TTL, and unchanged, before it is deleted. 0 means never.
	Heal   time.Duration
	Random func(below time.Duration) time.Duration
}

// observeEvery bounds the time without an observation. Pushes are lost without a sign if the server's machine is gone and
// the connection is idle: TCP notices that when something is sent.
const observeEvery = 30 * time.Second

// contender decides when the waiter at the head runs a round for a key that others hold, from what it knows of the
// nodes. A wake-up is a hint: it leads to an observation or to a round, and only the round leads to the lock.
type contender struct {
	pace  Pace
	nodes []nodeState

	trying        bool          // a round is under way
	woken         bool          // it was begun by a wake-up
	splitVotes    int           // rounds in a row that nobody has won
	polls         int           // rounds in a row that were lost to the same holder or to failing nodes
	spuriousWakes int           // wake-ups that did not lead to the lock
	yielding      bool          // a peer may be about to take the lock: what looks free is observed twice
	rtt           time.Duration // smoothed duration of a round

	notBefore time.Time // of the next round
	probeAt   time.Time // when a node that has changed is observed
	pollAt    time.Time // when a round begins though no node would push a change
	observeAt time.Time // when all nodes are observed
}

// lost takes in that a round was lost: all nodes have to be observed.
func (c *contender) lost(now time.Time) Actions {
	c.trying = false
	if c.woken {
		c.spuriousWakes++
	}
	c.woken = false
	c.notBefore, c.pollAt, c.probeAt = c.backOff(now, c.splitVotes), c.backOff(now, c.polls), now
	c.splitVotes++
	c.polls++
	for i := range c.nodes {
		c.nodes[i].forget()
	}
	return Actions{Listen: true, Observe: c.observeAll(now)}
}

// backOff returns the end of a pause that begins now, between a quarter and the whole of a bound that doubles each time.
// The jitter keeps contenders apart that have lost to each other:
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/#retry-on-failure
func (c *contender) backOff(now time.Time, times int) time.Time {
	d := c.pace.double(times)
	return now.Add(d/4 + c.pace.Random(d-d/4))
}

func (p *Pace) double(times int) time.Duration {
	d := p.First << min(times, 20)
	if d <= 0 || d > p.Most {
		return p.Most
	}
	return d
}

// yieldDelay is the time that others need to take a lock that has become free: a round trip for the push and one for
// the acquire, and the same again at random.
func (c *contender) yieldDelay() time.Duration { return 2*c.rtt + c.pace.Random(2*c.rtt) }

// observeAll begins an observation of every node on which none is under way.
func (c *contender) observeAll(now time.Time) (nodes []int) {
	c.observeAt = now.Add(observeEvery)
	for i := range c.nodes {
		if n := &c.nodes[i]; !n.observing && !n.healing {
			n.observing = true
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// reset drops what is known of the nodes and of the rounds before.
func (c *contender) reset() {
	c.splitVotes, c.polls, c.spuriousWakes = 0, 0, 0
	c.woken, c.yielding = false, false
	c.notBefore = time.Time{}
	for i := range c.nodes {
		c.nodes[i].forget()
	}
}

// yield leaves a lock that has been released to others until an instant. promised means that it was handed over to a peer.
func (c *contender) yield(now, until time.Time, promised bool) {
	c.reset()
	for i := range c.nodes {
		c.nodes[i].assume(nodeState{changed: true, ends: now.Add(observeEvery)})
	}
	c.notBefore, c.probeAt, c.pollAt = until, until, until
	c.observeAt = now.Add(observeEvery)
	if promised { // observe before the first round
		c.spuriousWakes, c.yielding = 1, true
	}
}

// observed takes in what an observation has shown.
func (c *contender) observed(now time.Time, node int, seen KeyState) {
	n := &c.nodes[node]
	before := *n
	n.update(now, seen)
	if !seen.Answered {
		return
	}
	if holder(c.nodes) != "" { // the round was lost to a holder, not to a split vote
		c.splitVotes, c.notBefore = 0, now
	}
	if before.changed {
		c.probed(now, n, &before)
	}
}

// probed draws conclusions from the observation of a node that had changed.
func (c *contender) probed(now time.Time, n, before *nodeState) {
	switch {
	case !n.Held && c.yielding: // a peer may be about to take it
		c.yielding, n.changed = false, true
		c.probeAt = now.Add(c.yieldDelay())
		return
	case !n.Held:
	case n.Token != before.Token: // the lock goes from hand to hand
		c.probeAt = now.Add(min(c.pace.double(c.spuriousWakes), c.pace.Most/8))
		c.spuriousWakes++
		c.polls, c.yielding = 0, true
		if soon := now.Add(c.pace.Most); soon.Before(c.observeAt) {
			c.observeAt = soon // the key may be a leftover on this node alone
		}
	default: // its holder has extended it, or nothing has happened
		c.spuriousWakes++
		if !n.ends.After(before.ends.Add(c.pace.Most)) {
			return
		}
	}
	if !n.NoTTL { // for how long a key has had no TTL has to be seen on each node
		c.infer(n, before)
	}
}

// infer assumes that what has happened to one node has happened to those that have changed too, and to those that held
// the same token and push no changes. It saves an observation of each.
func (c *contender) infer(n, before *nodeState) {
	for i := range c.nodes {
		o := &c.nodes[i]
		changedToo := o.changed && (!n.Held || n.Token != before.Token || o.Token == n.Token)
		untracked := o.Held && !o.Tracked && o.Token == before.Token
		if o != n && (changedToo || untracked) {
			o.assume(nodeState{KeyState: n.KeyState, ends: n.ends})
			o.Tracked = false
		}
	}
}

// survey is what is known of all nodes at an instant.
type survey struct {
	free    int         // nodes that do not hold the key
	changed int         // nodes on which it has changed since it was observed
	probing int         // those of them that are being observed
	pending int         // other nodes that are about to answer
	ends    []time.Time // when nodes are free, in order: those that are, and those of which the TTL is known
}

func (c *contender) survey(now time.Time) survey {
	s := survey{ends: make([]time.Time, 0, len(c.nodes))}
	for i := range c.nodes {
		n := &c.nodes[i]
		switch {
		case n.healing:
			s.pending++
		case n.changed:
			s.changed++
			if n.observing {
				s.probing++
			}
			if !n.ends.IsZero() {
				s.ends = append(s.ends, n.ends)
			}
		case n.observing:
			s.pending++
		case !n.Answered || n.NoTTL:
		case n.Held:
			s.ends = append(s.ends, n.ends)
		default:
			s.free++
			s.ends = append(s.ends, now)
		}
	}
	slices.SortFunc(s.ends, time.Time.Compare)
	return s
}

// next decides what to do now.
func (c *contender) next(now time.Time) Actions {
	need := Majority(len(c.nodes))
	actions := c.heal(now)
	s := c.survey(now)
	expired := len(s.ends) >= need && !now.Before(s.ends[need-1])
	silent := s.changed == 0 && s.pending == 0 && guarded(c.nodes, now) <= len(c.nodes)-need
	switch {
	case s.free >= need || expired:
		return c.try(now, actions)
	case c.spuriousWakes == 0 && s.free+s.changed >= need:
		c.woken = true
		return c.try(now, actions)
	case s.changed > 0 && s.probing == 0:
		if actions.due(now, c.probeAt) {
			actions.Observe = append(actions.Observe, c.probe())
		}
	case silent: // no push will come when a majority is free
		if actions.due(now, c.pollAt) {
			return c.try(now, actions)
		}
	}
	if len(s.ends) >= need {
		actions.wakeAt(s.ends[need-1])
	} else if i := slices.IndexFunc(s.ends, now.Before); s.pending+s.probing == 0 && i >= 0 {
		actions.wakeAt(s.ends[i]) // one node less is guarded
	}
	if !now.Before(c.observeAt) {
		actions.Observe = append(actions.Observe, c.observeAll(now)...)
	}
	actions.wakeAt(c.observeAt)
	return actions
}

// heal begins to delete keys that have been seen without a TTL for long enough.
func (c *contender) heal(now time.Time) (actions Actions) {
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.current() && n.NoTTL && c.pace.Heal > 0 && actions.due(now, n.noTTLFrom.Add(c.pace.Heal)) {
			n.healing = true
			actions.Heal = append(actions.Heal, LostKey{i, n.Token})
		}
	}
	return actions
}

// probe begins an observation of the first node that has changed.
func (c *contender) probe() (node int) {
	node = slices.IndexFunc(c.nodes, func(n nodeState) bool { return n.changed && !n.healing })
	c.nodes[node].observing = true
	return node
}

// try begins a round, unless it is too early.
func (c *contender) try(now time.Time, actions Actions) Actions {
	if actions.due(now, c.notBefore) {
		c.trying, actions.Try = true, true
	}
	return actions
}

// due reports whether an instant has come, and has Tick called then if it has not.
func (a *Actions) due(now, at time.Time) bool {
	if now.Before(at) {
		a.wakeAt(at)
		return false
	}
	return true
}

func (a *Actions) wakeAt(at time.Time) {
	if a.WakeAt.IsZero() || at.Before(a.WakeAt) {
		a.WakeAt = at
	}
}
