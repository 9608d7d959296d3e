package lock

import "time"

// Pace bounds what is asked of the nodes while somebody waits.
type Pace struct {
	First, Most time.Duration // of the back-off between rounds
	// Heal is for how long a key has to be seen without a TTL, and unchanged, before it is deleted. 0 means never.
	Heal time.Duration
	// Handoff is for how long a lock may go from hand to hand in this process ([quorum.Handoff]), and how long it keeps others waiting
	// then. 0 means that it does not.
	Handoff time.Duration
	Random  func(below time.Duration) time.Duration
}

// backOff returns the end of a pause that begins now, between a quarter and the whole of a bound that doubles each time.
// The jitter keeps contenders apart that have lost to each other:
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/#retry-on-failure
func (p *Pace) backOff(now time.Time, times int) time.Time {
	d := p.double(times)
	return now.Add(d/4 + p.Random(d-d/4))
}

func (p *Pace) double(times int) time.Duration {
	times = min(times, 20)
	if p.First > p.Most>>times { // the product might overflow
		return p.Most
	}
	return p.First << times
}

// maxRTT bounds the estimate of the duration of a round, which begins with the shortest back-off.
const maxRTT = time.Second

// pace says when the first call may do something.
type pace struct {
	bounds    *Pace
	splits    int           // rounds in a row that nobody won
	polls     int           // rounds in a row that were lost to the same holder or to failing nodes
	wakes     int           // wake-ups that did not lead to the lock
	courtesy  bool          // a peer may be about to take the lock: what looks free is left alone for a moment
	notBefore time.Time     // no round begins before then, and no observation of a node that has changed
	pollAt    time.Time     // a round begins then though no node would push a change
	rtt       time.Duration // smoothed duration of a round
}

// reset drops what the rounds before have shown.
func (p *pace) reset() {
	p.splits, p.polls, p.wakes, p.courtesy, p.notBefore = 0, 0, 0, false, time.Time{}
}

// won takes the duration of a round that was won. The gain of 1/8 is that of TCP's round-trip time estimate, RFC 6298.
func (p *pace) won(took time.Duration) { p.rtt += (min(took, p.bounds.Most) - p.rtt) / 8 }

// lost begins the pauses after a round that was lost.
func (p *pace) lost(now time.Time) {
	p.notBefore = p.bounds.backOff(now, p.splits)
	p.splits++
	p.poll(now)
}

// poll begins the pause before the nodes are asked again though none of them has pushed a change.
func (p *pace) poll(now time.Time) {
	p.pollAt = p.bounds.backOff(now, p.polls)
	p.polls++
}

// changed brings the next poll forward, after a push. Others may follow, so it is not at once.
func (p *pace) changed(now time.Time) {
	if soon := now.Add(p.bounds.First); p.pollAt.Before(soon) {
		p.pollAt = soon
	}
}

// unsplit ends the pause after a round that was lost to a holder, and not to a split vote.
func (p *pace) unsplit(now time.Time) {
	if p.splits > 0 {
		p.splits, p.notBefore = 0, now
	}
}

// sawChange slows down, as others are woken too by what an observation has shown: the key of another holder, or a node that is free.
func (p *pace) sawChange(now time.Time, another, free bool) {
	switch {
	case another: // the lock goes from hand to hand
		p.notBefore = now.Add(min(p.bounds.double(p.wakes), p.bounds.Most/8))
		p.wakes++
		p.polls, p.courtesy = 0, true
	case free && p.courtesy: // a peer may be about to take it
		p.courtesy, p.notBefore = false, p.courtesyEnds(now)
	}
}

// courtesyEnds returns until when others have the time to take a lock that has become free: a round trip for the push and one for the
// acquire, and the same again at random.
func (p *pace) courtesyEnds(now time.Time) time.Time {
	return now.Add(2*p.rtt + p.bounds.Random(2*p.rtt))
}
