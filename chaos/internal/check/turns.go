package check

import (
	"fmt"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

const (
	// inARow is how many locks the callers of a process get before others have their turn. So many has each who shares the lock while
	// one waits who keeps them out: a writer, or a call that knows of fewer slots.
	inARow = 6
	// maxOthers is how many he has while one waits who does not.
	maxOthers = 18
	// maxTurns is how many turns each process has at most, for each turn that a call has to wait for in its own process.
	maxTurns = 3
	// maxRaces is how many locks of each of its names others get at most while a call for several names waits.
	maxRaces = 40
)

// passed finds calls that waited while later calls got too many locks, and calls for several names that waited while too many locks
// of each of them were got. What is got while the process of such a call stands still does not count.
func (l *lock) passed() {
	if len(l.faults) > 0 || l.rules.Strangers {
		return
	}
	clients := map[string]bool{}
	for _, o := range l.ops {
		clients[o.Client] = true
	}
	for _, o := range l.ops {
		switch {
		case o.Kind != history.Acquire:
		case o.Way == history.Waiting:
			if later := l.gotDuring(o, l.name, true); len(later) > l.mostLater(o, len(clients)) {
				l.report(PassedOver, append(later, o), "worker %d of %s waited for %d locks of later calls", o.Worker, o.Client, len(later))
			}
		case l.isSet(o) && o.Names[0] == l.name:
			var least []*history.Op
			for _, name := range o.Names {
				if got := l.gotDuring(o, name, false); least == nil || len(got) < len(least) {
					least = got
				}
			}
			if len(least) > maxRaces*len(o.Names) {
				l.report(PassedOver, append(least, o), "worker %d of %s waited for %d locks of each of %v", o.Worker, o.Client, len(least), o.Names)
			}
		}
	}
}

// mostLater returns how many locks later calls may get while that one waits.
func (l *lock) mostLater(o *history.Op, clients int) int {
	ahead, sharers := l.company(o)
	turns := maxTurns * inARow * clients * (1 + ahead/inARow)
	if _, limit := l.limits(); o.Reads || isSlot(o) && o.Slots == limit {
		return turns + maxOthers*sharers
	}
	return turns + inARow*sharers
}

// company returns how many calls of the same process wait already, and how many workers share the lock while the call waits.
func (l *lock) company(o *history.Op) (ahead, sharers int) {
	sharing := map[string]bool{}
	for _, other := range l.ops {
		switch {
		case other.Kind != history.Acquire || other.Start > l.ended(o) || l.ended(other) < o.Start:
			continue
		case other.Shares():
			sharing[fmt.Sprint(other.Client, "/", other.Worker)] = true
		}
		if other.Client == o.Client && other.Start < o.Start {
			ahead++
		}
	}
	return ahead, len(sharing)
}

// gotDuring returns the calls that have got a lock of the name during that call; of those that came later, if that is asked for.
func (l *lock) gotDuring(o *history.Op, name string, later bool) []*history.Op {
	got := []*history.Op{}
	end := l.ended(o)
	stood := merge(l.stood(o.Client))
	for _, other := range l.names[name] {
		if other.Kind != history.Acquire || other.Hold == "" || other.Outer != "" || other == o || later && other.Start <= add(o.Start, margin) {
			continue
		}
		if other.End > o.Start && other.End < end && !stood.touch(other.End-int64(moment), other.End) {
			got = append(got, other)
		}
	}
	return got
}
