package sim

import "time"

// wall is the time of day, in microseconds since 1970.
func (c *clock) wall() int64 { return c.Now().UnixMicro() }

// counterLife is how long counters are kept beyond TTLs.
func (p Plan) counterLife() time.Duration {
	if p.Keep > 0 {
		return p.Keep
	}
	return keepFence
}

// counterTime is the time of the counters as a client estimates it from the numbers that it was granted, as package redlock
// does. known is false as long as the client has been granted none.
func (c *client) counterTime(began time.Time) (estimate uint64, known bool) {
	if !c.learnt {
		return uint64(epoch.Add(time.Duration(float64(c.now)*c.clock.rate) + c.wall).UnixMicro()), false
	}
	return uint64(began.UnixMicro() + c.behind), true
}

// learn takes the token of a round that was won.
func (c *client) learn(r *round) {
	estimate, known := c.counterTime(r.grant.Start)
	if r.acquire.Fence() == 0 || known && r.acquire.Fence() <= estimate {
		return
	}
	if behind := int64(r.acquire.Fence()) - c.clock.Now().UnixMicro(); !known || behind > c.behind {
		c.learnt, c.behind = true, behind
	}
}

// since returns a number in microseconds since the run began.
func since(number uint64) int64 { return int64(number) - epoch.Add(noon).UnixMicro() }

// noon is what the clocks of nodes show when a run begins, but for their offset.
const noon = 12 * time.Hour
