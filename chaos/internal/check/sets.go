package check

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// A call for several names keeps locks of some of them while it waits for another, which nobody sees. It has to give them back when
// its patience is over since that name has changed hands.

// patienceOf is how long that is at most.
func patienceOf(o *history.Op) time.Duration { return min(time.Duration(o.TTL)/4, 5*time.Second) }

// isSet reports whether it is a call for several names that waits, and nothing failed that may keep it from giving back.
func (l *lock) isSet(o *history.Op) bool {
	return o.Kind == history.Acquire && o.Names != nil && len(l.faults) == 0 && !l.rules.Strangers
}

// waits reports whether a call is in nobody's way while it has not got the lock, or only when it is said so by kept.
func (l *lock) waits(o *history.Op) bool { return o.Way == history.Waiting || l.isSet(o) }

// kept returns when calls for several names may have had the lock: for their patience, since they have begun or another of their
// names has changed hands.
func (l *lock) kept() (all []span) {
	changes := map[string][]span{}
	for _, o := range l.ops {
		if !l.isSet(o) {
			continue
		}
		since := []span{{o.Start, o.Start}}
		for _, name := range o.Names {
			if name == l.name {
				continue
			}
			if changes[name] == nil {
				changes[name] = l.lock(name, l.rules).changes()
			}
			since = append(since, changes[name]...)
		}
		end := l.ended(o)
		for _, s := range since {
			if to := min(add(s.to, patienceOf(o)+moment), end); s.from < end && to > o.Start {
				all = append(all, span{max(s.from, o.Start), to})
			}
		}
	}
	return all
}

// changes returns when the name has changed hands, as far as holds show it: when they were got, and when they may have been over.
func (l *lock) changes() (all []span) {
	for _, a := range l.holds {
		last := a.op.End
		for _, o := range a.ops {
			last = max(last, o.Start)
		}
		all = append(all, span{max(a.op.Start, a.op.End-int64(moment)), a.op.End}, span{last, l.gone(a)})
	}
	return all
}

// sets returns the calls for several names that were under way at that time, and wanted this one too. It also returns for how long they
// may have kept it, one after the other, and others a name that they waited for: each for its patience, and half as much again.
func (l *lock) sets(from, to int64) (those []*history.Op, patience time.Duration) {
	names := map[string]bool{}
	for _, o := range l.ops {
		if l.isSet(o) && o.Start <= to && l.ended(o) >= from {
			those = append(those, o)
			for _, name := range o.Names {
				names[name] = true
			}
		}
	}
	for name := range names {
		for _, o := range l.names[name] {
			first := slices.IndexFunc(o.Names, func(n string) bool { return names[n] })
			if l.isSet(o) && o.Names[first] == name && o.Start <= to && l.ended(o) >= from {
				patience += patienceOf(o) * 3 / 2
			}
		}
	}
	return those, patience
}
