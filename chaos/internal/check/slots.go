package check

import (
	"cmp"
	"slices"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

func isSlot(o *history.Op) bool { return o.Slots > 0 }

// limits returns how many slots there may be: the lowest and the highest limit that a call had. While a call waits, its limit holds
// for all.
func (l *lock) limits() (least, most int) {
	for _, o := range l.ops {
		if most = max(most, o.Slots); isSlot(o) && (least == 0 || o.Slots < least) {
			least = o.Slots
		}
	}
	return least, most
}

// slots finds more who have a slot at a time than there are slots: by what was proven, with what a nil from Unlock says, and of one that
// nobody was seen to have, if it was got while as many others as there are slots were seen to have theirs. Handles on one lock count once.
func (l *lock) slots() {
	_, limit := l.limits()
	if limit == 0 {
		return
	}
	var seen []*hold // that have begun, by the time until which they are known to have lasted
	for _, a := range l.holds {
		if !isSlot(a.op) {
			continue
		}
		if a.until() == 0 {
			l.gotBeyond(a, limit, seen)
			continue
		}
		if held := beside(a, seen, (*hold).until); len(held) >= limit {
			if proven := beside(a, seen, func(b *hold) int64 { return b.proven }); a.proven > 0 && len(proven) >= limit {
				l.report(TooManySlots, operations(append(proven, a)), "%s and %d others had one at once, of %d", a.op.Hold, len(proven), limit)
			} else {
				l.report(UnlockWasWrong, operations(append(held, a)), "%s and %d others had a slot at once, of %d", a.op.Hold, len(held), limit)
			}
		}
		seen = append(seen, a)
	}
}

// beside returns those that lasted beyond the moment in which a was got, one for each slot but that of a.
func beside(a *hold, of []*hold, until func(*hold) int64) (held []*hold) {
	leases := map[string]bool{a.lease: true}
	for _, b := range of {
		if until(b) > a.op.End && !leases[b.lease] {
			leases[b.lease] = true
			held = append(held, b)
		}
	}
	return held
}

// gotBeyond finds a slot that was got though there was no moment in its call at which fewer than limit others were seen to have theirs.
func (l *lock) gotBeyond(a *hold, limit int, seen []*hold) {
	leases := map[string][]span{}
	var others []*hold
	for _, b := range seen {
		if b.lease != a.lease && b.until() >= a.op.Start {
			leases[b.lease], others = append(leases[b.lease], span{b.op.End, b.until()}), append(others, b)
		}
	}
	var held []span
	for _, handles := range leases {
		held = append(held, merge(handles)...)
	}
	for _, full := range atLeast(limit, held) {
		if full.from <= a.op.Start && full.to > a.op.End {
			l.report(NoOrder, operations(append(others, a)), "%s got a slot while others had all %d", a.op.Hold, limit)
		}
	}
}

// full returns what reports whether other slots may have been in the way of a call for one that ends without: as many as there are, or
// another call at the same time. Such calls may get different ones from different nodes each time, so that none of them gets one.
func (l *lock) full() func(o *history.Op, from int64) bool {
	calls, holds := l.users(false, isSlot)
	for _, a := range l.holds {
		if isSlot(a.op) {
			calls = append(calls, span{a.op.Start, a.op.End})
		}
	}
	calling, held := newCounter(calls), newCounter(holds)
	return func(o *history.Op, from int64) bool {
		return calling.count(from, o.End) > 1 || held.count(from, o.End) >= o.Slots
	}
}

// crowded returns when slots, and calls that may have left one behind, may have been as many as there are.
func (l *lock) crowded() []span {
	limit, _ := l.limits()
	if limit == 0 {
		return nil
	}
	calls, holds := l.users(true, isSlot)
	return atLeast(limit, slices.Concat(calls, holds))
}

// atLeast returns when at least n of the intervals overlap.
func atLeast(n int, of []span) (all []span) {
	type step struct {
		at int64
		by int
	}
	var steps []step
	for _, s := range of {
		steps = append(steps, step{s.from, 1}, step{s.to, -1})
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) }) // intervals are closed
	count, from := 0, int64(0)
	for _, s := range steps {
		before := count
		count += s.by
		switch {
		case before < n && count >= n:
			from = s.at
		case before >= n && count < n:
			all = append(all, span{from, s.at})
		}
	}
	return all
}
