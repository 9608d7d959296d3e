package pipeline

import "time"

// Guard says when a server may vote for locks again that has come up lately, or in the place of another: it may have
// forgotten some. All that it can have forgotten has run out when it has been up for the longest TTL.
type Guard struct {
	maxTTL time.Duration // 0: no guard
	server string        // that was connected last
	until  time.Time     // zero: it may vote
	never  bool
}

// NewGuard makes the guard of a node on which no lock has a longer TTL than maxTTL; 0: it lets every server vote.
func NewGuard(maxTTL time.Duration) Guard { return Guard{maxTTL: maxTTL} }

// MaxTTL returns the longest TTL that a lock may have; 0: any.
func (g *Guard) MaxTTL() time.Duration { return g.maxTTL }

// Connected tells which server is at the other end of a new connection, and how long it has been up, at least, at now or
// later; below zero: it does not tell. However long that is, it may not have the data of the one that was there before.
func (g *Guard) Connected(now time.Time, server string, up time.Duration) {
	if g.maxTTL == 0 {
		return
	}
	replaced := g.server != "" && g.server != server
	if server != "" {
		g.server = server
	}
	if g.never = up < 0; g.never {
		return
	}
	if replaced {
		up = 0
	}
	// As much is allowed for clocks that run at different rates as Redlock allows by default. What has been found out on
	// a connection before stands: one that took another's place does so for long.
	if until := now.Add(g.maxTTL + g.maxTTL/100 - up); until.After(g.until) {
		g.until = until
	}
}

// Quarantine says whether the server may not vote, and for how much longer; 0: never.
func (g *Guard) Quarantine(now func() time.Time) (left time.Duration, is bool) {
	switch {
	case g.never:
		return 0, true
	case g.until.IsZero():
		return 0, false
	}
	if left = g.until.Sub(now()); left <= 0 {
		g.until = time.Time{}
		return 0, false
	}
	return left, true
}
