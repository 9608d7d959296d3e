package pool

import (
	"regexp"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
)

var uptime = regexp.MustCompile(`(?m)^uptime_in_seconds:(\d+)`)

// bornAt returns when a server came up, at the latest, by its answer to an INFO that was sent at some time; zero if it does
// not tell. It subtracts two times in whole seconds, so that one more may be missing.
func bornAt(info []byte, sent time.Time) time.Time {
	match := uptime.FindSubmatch(info)
	if match == nil {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(string(match[1]), 10, 32)
	if err != nil {
		return time.Time{}
	}
	return sent.Add(-time.Duration(seconds-1) * time.Second)
}

// guard judges a new connection: whether its server may vote. A server in the place of another may not have its data,
// however long it has been up.
func (n *Node) guard(l *link, now time.Time) {
	replaced := n.server != "" && n.server != l.server
	n.server = l.server
	switch {
	case n.opts.guard == 0:
		return
	case l.born.IsZero():
		l.quarantine = &QuarantineError{}
		return
	case replaced:
		l.born = now
	}
	l.votesFrom = l.born.Add(n.opts.guard + n.opts.guard/100)
	l.quarantine = &QuarantineError{Left: l.votesFrom.Sub(now)}
}

// refuseLocked takes the acquires off the queue that the server may not be asked.
func (n *Node) refuseLocked(l *link) []pipeline.Notice[order] {
	if l.quarantine == nil {
		return nil
	}
	if !l.votesFrom.IsZero() {
		left := time.Until(l.votesFrom)
		if left <= 0 {
			l.quarantine = nil
			return nil
		}
		l.quarantine = &QuarantineError{Left: left}
	}
	asks := func(o order) bool { return o.cmd.kind == acquire || o.cmd.kind == grant }
	return n.commands.Withdraw(asks, l.quarantine)
}

// MaxTTL returns the longest TTL that a lock on this node may have, see [WithRestartGuard]; 0: any.
func (n *Node) MaxTTL() time.Duration { return n.opts.guard }
