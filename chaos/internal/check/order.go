package check

import (
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// margin is how late a goroutine may be with what its call records.
const margin = 300 * time.Millisecond

// order finds calls that waited in one Locker, and got the lock before one that had come earlier, for writing. A goroutine may be late with
// what its call records, as it writes a file: so both differences have to be above the margin. Those who share it have their rounds beside each other,
// and beside the queue: who has lost one takes its place again, but may have been overtaken.
func (l *lock) order() {
	byLocker := map[string][]*history.Op{}
	for _, o := range l.ops {
		if o.Kind == history.Acquire && o.Way == history.Waiting && o.Hold != "" && o.Outer == "" && !o.Shares() {
			byLocker[o.Locker] = append(byLocker[o.Locker], o)
		}
	}
	for _, calls := range byLocker {
		var last *history.Op // to get the lock, of those that had come before
		before := calls
		for _, o := range calls {
			for ; add(before[0].Start, margin) < o.Start; before = before[1:] {
				if last == nil || before[0].End > last.End {
					last = before[0]
				}
			}
			if last == nil || add(o.End, margin) >= last.End || merge(l.stood(o.Client)).touch(last.Start, last.End) {
				continue
			}
			l.report(OutOfOrder, []*history.Op{last, o}, "%s came %v later than %s, and had it %v earlier",
				o.Hold, ms(o.Start-last.Start), last.Hold, ms(last.End-o.End))
		}
	}
}

// named are the results that calls may have.
var named = map[string]bool{
	"": true, history.Taken: true, history.NoQuorum: true, history.Canceled: true, history.NotHeld: true, history.Gone: true,
	history.Expired: true, history.Released: true, history.Foreign: true, history.Closed: true, history.Stale: true, history.Unknown: true,
}

// unexpected finds errors that no call should return, and holds that are over because they were released, but by nobody.
func (l *lock) unexpected() {
	for _, o := range l.ops {
		if !named[o.Err] {
			l.report(UnexpectedError, []*history.Op{o}, "%s: %s", o.Kind, o.Err)
		}
	}
	for _, a := range l.holds {
		for _, o := range a.ops {
			if o.Kind == history.Over && o.Err == history.Released && !l.released(a, o.Start) {
				l.report(UnexpectedError, []*history.Op{a.op, o}, "%s was released, by nobody", a.op.Hold)
			}
		}
	}
}

// released reports whether somebody had begun to release the lock, by one of the handles on it.
func (l *lock) released(a *hold, at int64) bool {
	for _, f := range l.faults {
		if shuts(f) && f.Start <= at {
			return true
		}
	}
	for _, h := range l.leases[a.lease] {
		for _, o := range h.ops {
			if (o.Kind == history.Unlock && h == a || o.Kind == history.Detach) && o.Start <= at {
				return true
			}
		}
	}
	return false
}

// shuts reports whether Lockers are shut down, with all that they hold in the end.
func shuts(f *history.Op) bool { return f.What == "node-set" || f.What == "replace" }
