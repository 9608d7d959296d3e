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
