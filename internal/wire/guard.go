package wire

import "time"

// Guard decides when a server may vote for locks again that has come up lately, or in the place of another: it may have
// forgotten some. Whatever it has forgotten has run out once it has been up for the longest TTL.
type Guard struct {
	MaxTTL time.Duration // of the node's locks; 0 means that every server may vote
	server string        // that was connected last
	until  time.Time     // when it may vote
	never  bool
}

// Connected records the server at the other end of a new connection, which has been up for at least up. Below zero
// means that the server does not report its uptime. A server that replaces another may not have its data, however long
// it has been up.
func (g *Guard) Connected(now time.Time, server string, up time.Duration) {
	if g.MaxTTL == 0 {
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
	// 1 % is allowed for clocks that run at different rates, as Redlock does by default. What an earlier connection found
	// stands: a replacement is one for good.
	if until := now.Add(g.MaxTTL - up).Add(g.MaxTTL / 100); until.After(g.until) {
		g.until = until
	}
}

// Quarantine reports whether the server may not vote, and for how much longer; 0 means for ever.
func (g *Guard) Quarantine(now time.Time) (left time.Duration, is bool) {
	if g.never {
		return 0, true
	}
	left = max(0, g.until.Sub(now))
	return left, left > 0
}
