package quorum

import "time"

// CounterClock is an estimate of the time that the counters of the nodes have reached. Their numbers are microseconds
// since 1970, roughly. The estimate follows fencing tokens, so the clock of this machine matters only at first. The
// zero value knows nothing.
//
// A node sets a counter forward if it is more than slack behind the estimate. If the node's own clock is within slack
// of the estimate, it sets the counter to the estimate. Otherwise it sets the counter to its own clock. Then nodes
// disagree, and the round needs a second round trip.
//
// So a token far below the estimate comes from the clock of a node, and the estimate comes down to it. A higher token
// may come from the clock of a node too. Or it comes from a counter that is ahead of the clocks, which says nothing
// about other names. Nevertheless the estimate goes up to the token. An estimate that is too high costs a round trip.
// But with an estimate that is too low, a counter from an older copy of the data is used. A single name that is ahead
// must not undo each correction, so the estimate stays down for a while first.
type CounterClock struct {
	known  bool
	behind int64     // how far the caller's clock is behind the counters, in microseconds
	firm   time.Time // until then the estimate does not go up
}

const (
	slack = 1_000_000 // microseconds; fenced_acquire.lua knows it too
	// firmFor is for how long the estimate stays down. It is so short that clocks within the drift bound come less than
	// slack apart in it.
	firmFor = 30 * time.Second
)

// Estimate returns the time of the counters in microseconds since 1970. known is false if no token has been learnt yet.
func (c *CounterClock) Estimate(now time.Time) (micros int64, known bool) {
	return now.UnixMicro() + c.behind, c.known
}

// Learn records the fencing token of a round that was won at now or before. sent is the estimate that went to the
// nodes.
func (c *CounterClock) Learn(now time.Time, sent, token uint64) {
	behind := int64(token) - now.UnixMicro()
	switch {
	case token+slack <= sent:
		c.known, c.behind, c.firm = true, behind, now.Add(firmFor)
	case !c.known || behind > c.behind && !now.Before(c.firm):
		c.known, c.behind = true, behind
	}
}
