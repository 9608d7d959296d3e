package lock

import "time"

// Pace is the set of limits to how often the nodes are asked while a call waits, and to hand-offs.
type Pace struct {
	First, Most time.Duration // the shortest and the longest back-off between rounds
	// Heal is for how long a key has to be seen without a TTL, and unchanged, before it is deleted. 0 means never.
	Heal time.Duration
	// Handoff is for how long a lock may go from hand to hand in this process ([quorum.Handoff]). It also limits for how
	// long this process keeps the lock to its own calls. 0 means that locks are not handed off.
	Handoff time.Duration
	Random  func(below time.Duration) time.Duration
}

// backOff returns the end of a pause that begins now. The pause is between a quarter and the whole of a bound that
// doubles each time. The jitter keeps contenders apart that have lost to each other:
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/#retry-on-failure
func (p *Pace) backOff(now time.Time, times int) time.Time {
	d := p.double(times)
	return now.Add(d/4 + p.Random(d-d/4))
}

// double returns the bound of a pause: the shortest back-off, doubled a number of times, and the longest one at most.
func (p *Pace) double(times int) time.Duration {
	times = min(times, 20)
	if p.First > p.Most>>times { // the product might overflow
		return p.Most
	}
	return p.First << times
}

// maxRTT is the upper bound of the estimated duration of a round. The estimate begins with the shortest back-off.
const maxRTT = time.Second

// pace is the timing of the head: when it may begin a round, or observe a node.
type pace struct {
	bounds    *Pace
	splits    int           // rounds in a row that nobody won
	polls     int           // polls in a row, lost rounds included, that found the same holder or failing nodes
	wakes     int           // wake-ups that did not lead to the lock
	courtesy  bool          // a peer may be about to take the lock, so a lock that looks free is left alone for a moment
	notBefore time.Time     // no round begins before then, and no observation of a node that has changed
	pollAt    time.Time     // when the nodes are asked again though none has pushed a change
	rtt       time.Duration // smoothed duration of a round
}

// reset drops the results of the rounds before.
func (p *pace) reset() {
	p.splits, p.polls, p.wakes, p.courtesy, p.notBefore = 0, 0, 0, false, time.Time{}
}

// took records how long a round took in which a majority answered. The gain of 1/8 is that of TCP's round-trip time
// estimate, RFC 6298.
func (p *pace) took(d time.Duration) { p.rtt += (min(d, p.bounds.Most) - p.rtt) / 8 }

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

// changed postpones the next poll after a push, if it is due before the shortest back-off from now is over. Other
// pushes may follow.
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

// sawChange slows the head down after it has observed the key of another holder, or a node that is free. The same
// change wakes others too.
func (p *pace) sawChange(now time.Time, another, free bool) {
	switch {
	case another: // the lock goes from one holder to the next
		p.notBefore = now.Add(min(p.bounds.double(p.wakes), p.bounds.Most/8))
		p.wakes++
		p.polls, p.courtesy = 0, true
	case free && p.courtesy: // a peer may be about to take the lock
		p.courtesy, p.notBefore = false, p.courtesyEnds(now, 0)
	}
}

// giveWay slows the head down after a push, because the holder may have passed the turn to another process. Then a node
// is observed before the first round. lag is the longest RTT of the other processes.
func (p *pace) giveWay(now time.Time, lag time.Duration) {
	p.wakes = max(p.wakes, 1)
	if ends := p.courtesyEnds(now, lag); ends.After(p.notBefore) {
		p.notBefore = ends
	}
}

// comesFirst ends the pauses that are for others. A node is observed before the first round, because another process
// may still have the lock.
func (p *pace) comesFirst() { p.wakes, p.courtesy, p.notBefore = 1, false, time.Time{} }

// courtesyEnds returns the instant until which others have time to take a lock that has become free. That time is one
// round trip for the push and one for the acquire, of this process or of one that is further away. Up to two round
// trips of this process are added at random.
func (p *pace) courtesyEnds(now time.Time, lag time.Duration) time.Time {
	return now.Add(2*max(p.rtt, lag) + p.bounds.Random(2*p.rtt))
}
