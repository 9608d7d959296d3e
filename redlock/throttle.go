package redlock

import (
	"maps"
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

	blocked map[string]time.Time // the names that were logged in the last period, and when

	from   time.Time // the period of the long waits
	logged int       // names in it
	more   int       // that were not logged
}

// logsBlocked reports whether it is to be logged that a name is blocked. While maxBlocked names are remembered, no other one
// is, so that a program that makes up names cannot fill the log either.
func (t *throttle) logsBlocked(name string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := func(_ string, at time.Time) bool { return now.Sub(at) >= logPeriod }
	if at, known := t.blocked[name]; known && !over(name, at) {
		return false
	}
	if maps.DeleteFunc(t.blocked, over); len(t.blocked) >= maxBlocked {
		return false
	}
	t.blocked[name] = now
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
