package redlock

import (
	"sync"
	"time"
)

const (
	maxBlocked = 1024             // names that are remembered
	maxWaits   = 1024             // names that are logged in a period; others are counted
	maxRing    = 64               // names that are looked at for a ring
	longWait   = 10 * time.Second // a wait that is longer is logged
	logPeriod  = time.Minute      // and then once in it, while anybody waits for the name; so is that a name is blocked
)

// throttle bounds how many lines the log has about names: that they are blocked, and that calls wait long for them.
type throttle struct {
	mu sync.Mutex

	blocked map[string]bool // that were logged in this period
	order   []blockedName   // the same names, oldest first

	from   time.Time // the period of the long waits
	logged int       // names in it
	more   int       // that were not logged
}

type blockedName struct {
	name string
	at   time.Time
}

// logsBlocked reports whether it is to be logged that a name is blocked. While maxBlocked names are remembered, no other one
// is, so that a program that makes up names cannot fill the log either.
func (t *throttle) logsBlocked(name string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.order) > 0 && now.Sub(t.order[0].at) >= logPeriod {
		delete(t.blocked, t.order[0].name)
		t.order = t.order[1:]
	}
	if t.blocked[name] || len(t.order) >= maxBlocked {
		return false
	}
	if t.blocked == nil {
		t.blocked = map[string]bool{}
	}
	t.blocked[name] = true
	t.order = append(t.order, blockedName{name, now})
	return true
}

// logsWait reports whether the wait for one more name is to be logged, and if a period has ended, how many were not in it.
func (t *throttle) logsWait(now time.Time) (logs bool, before int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.from) >= logPeriod {
		t.from, t.logged, before, t.more = now, 0, t.more, 0
	}
	if t.logged == maxWaits {
		t.more++
		return false, before
	}
	t.logged++
	return true, before
}
