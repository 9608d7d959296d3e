package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
)

// Changes is the record of how often a name changes hands. Only tokens count: a push may come from a renewal.
type Changes struct {
	At      time.Time     // when the name was last seen to change hands, or zero if it never was
	Between time.Duration // the smoothed time between two changes, or 0 if fewer than two were seen

	holder string // whom the next change is counted from, or "" if nobody is known. A mark stands for all sharers
	kept   bool   // a call has waited, so the record is worth keeping
}

// keptAtMost is the longest time for which the record outlives the last wait.
const keptAtMost = time.Second

// saw records the holder that was seen. "" means that there is none.
func (c *Changes) saw(now time.Time, holder string) {
	if c.holder == holder {
		return
	}
	if c.holder != "" {
		c.count(now)
	}
	c.holder = holder
}

// count records a change. The gain of 1/4 follows a name that becomes slow within some changes. One long time counts
// twice the usual at most: it may be that calls were in each other's way, and waited for the end of their patience.
func (c *Changes) count(now time.Time) {
	switch took := now.Sub(c.At); {
	case c.At.IsZero():
	case c.Between == 0:
		c.Between = took
	default:
		c.Between += (min(took, 2*c.Between) - c.Between) / 4
	}
	c.At = now
}

// recent reports whether the record is worth keeping.
func (c *Changes) recent(now time.Time) bool {
	return c.kept && now.Sub(c.At) < min(8*c.Between, keptAtMost)
}

// sawKey records that a node which has shown before shows o now. A node that has shown the holder shows a change. So
// does a majority that holds another token. A single other node may only be behind.
func (q *queue) sawKey(now time.Time, before string, o *Observation) {
	switch {
	case !o.Answered || o.Foreign || form.IsWanted(o.Token):
	case !o.Exists:
		if before == q.changes.holder {
			q.changes.saw(now, "")
		}
	case q.changes.holder == "" || before == q.changes.holder || q.view.held(o.Token):
		q.changes.saw(now, o.Token)
	}
}

// Changes returns the record of how often the name changes hands.
func (n *Name) Changes() Changes {
	if n.queue == nil {
		return Changes{}
	}
	return n.queue.changes
}
