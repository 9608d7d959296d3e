package pool

import (
	"regexp"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/internal/pipeline"
)

var uptime = regexp.MustCompile(`(?m)^uptime_in_seconds:(\d+)`)

// upFor returns how long a server has been up, at least, by its answer to INFO; below zero: it does not tell. It subtracts
// two times in whole seconds, so that it may say up to one too much.
func upFor(info []byte) time.Duration {
	match := uptime.FindSubmatch(info)
	if match == nil {
		return -1
	}
	seconds, err := strconv.ParseInt(string(match[1]), 10, 32)
	if err != nil {
		return -1
	}
	return time.Duration(max(0, seconds-1)) * time.Second
}

// refuseLocked takes the acquires off the queue that the server may not be asked.
func (n *Node) refuseLocked() []pipeline.Notice[order] {
	left, is := n.guard.Quarantine(time.Now)
	if !is {
		return nil
	}
	asks := func(o order) bool { return o.cmd.kind == acquire || o.cmd.kind == grant }
	return n.commands.Withdraw(asks, &QuarantineError{Left: left})
}

// MaxTTL returns the longest TTL that a lock on this node may have, see [WithRestartGuard]; 0: any.
func (n *Node) MaxTTL() time.Duration { return n.guard.MaxTTL() }
