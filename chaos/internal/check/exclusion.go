package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// exclusion finds holds of different parties that overlap: a writer's and any other, but not those of readers, nor of those who have slots. A nil from Unlock counts as
// long as no other party had the lock.
func (l *lock) exclusion() {
	var longest, other *hold // those with the last ends of two parties, among the holds that began before
	for _, a := range l.holds {
		if a.until() == 0 {
			continue
		}
		b := longest
		if b != nil && b.party() == a.party() {
			b = other
		}
		if b != nil && b.until() > a.op.End {
			l.overlap(b, a)
		}
		switch {
		case longest == nil || longest.party() == a.party():
			if longest == nil || a.until() > longest.until() {
				longest = a
			}
		case a.until() > longest.until():
			longest, other = a, longest
		case other == nil || a.until() > other.until():
			other = a
		}
	}
}

func (l *lock) overlap(first, second *hold) {
	ops := append(first.shows(), second.shows()...)
	both := min(first.until(), second.until()) - second.op.End
	if min(first.proven, second.proven) > second.op.End {
		l.report(TwoHolders, ops, "%s and %s held the lock at once, for %v", first.op.Hold, second.op.Hold, ms(both))
		return
	}
	l.report(UnlockWasWrong, ops, "%s had the lock while %s had it, by %v", second.op.Hold, first.op.Hold, ms(both))
}

// outlived finds holds that were relied on for longer than their deadline, though nothing has moved it.
func (l *lock) outlived() {
	const tolerance = 5 * time.Millisecond
	for _, a := range l.holds {
		handles := l.leases[a.lease]
		renewed := slices.ContainsFunc(handles, func(o *hold) bool { return (o == a || o.outer != nil) && o.op.Renews })
		if a.proof == nil || a.outer != nil || renewed {
			continue
		}
		deadline := add(a.op.End, time.Duration(a.op.Validity))
		if l.rules.Handoff { // an extension of an earlier holder may have been under way
			deadline = max(deadline, add(a.op.End, l.rules.Lease))
		}
		for _, o := range handles {
			for _, e := range o.ops {
				if e.Start < a.proof.Start && (e.Kind == history.Extend || e == o.op && o.outer != nil) {
					deadline = max(deadline, add(e.End, time.Duration(e.TTL)))
				}
			}
		}
		if a.proof.Start > add(deadline, tolerance) {
			l.report(Outlived, []*history.Op{a.op, a.proof}, "%s was held for %v longer", a.op.Hold, ms(a.proof.Start-deadline))
		}
	}
}

// fences checks that fences rise, and that locks which are shared have none. A writer's hold has a fence above those of all holds whose calls had returned before its own call began;
// whoever has come by re-entry or Attach has that of the lock.
func (l *lock) fences() {
	if !l.rules.Fenced {
		return
	}
	var fresh []*hold // that have got a fence of their own
	byFence := map[uint64]*hold{}
	var writers []*hold
	for _, a := range l.holds {
		if a.op.Shares() {
			if a.op.Fence != 0 {
				l.report(FenceChanged, []*history.Op{a.op}, "%s shares the lock, and has %d", a.op.Hold, a.op.Fence)
			}
			continue
		}
		writers = append(writers, a)
		if a.op.Kind == history.Attach || a.outer != nil {
			l.sameFence(a)
			continue
		}
		fresh = append(fresh, a)
		switch b := byFence[a.op.Fence]; {
		case a.op.Fence == 0:
			l.report(FenceWentBack, []*history.Op{a.op}, "%s has none", a.op.Hold)
		case b != nil:
			l.report(FenceWentBack, []*history.Op{b.op, a.op}, "%s and %s have the same, %d", b.op.Hold, a.op.Hold, a.op.Fence)
		}
		byFence[a.op.Fence] = a
	}
	slices.SortStableFunc(fresh, func(a, b *hold) int { return cmp.Compare(a.op.Start, b.op.Start) })
	var highest *hold
	before := writers
	for _, a := range fresh {
		for ; len(before) > 0 && before[0].op.End < a.op.Start; before = before[1:] {
			if highest == nil || before[0].op.Fence > highest.op.Fence {
				highest = before[0]
			}
		}
		if highest != nil && highest.op.Fence >= a.op.Fence {
			l.report(FenceWentBack, []*history.Op{highest.op, a.op}, "%s has %d, after %s has got %d",
				a.op.Hold, a.op.Fence, highest.op.Hold, highest.op.Fence)
		}
	}
}

// sameFence compares the fence of a further handle with that of the first. A lock that may be handed off gets a higher one when its
// token is asked for. An acquire whose connection broke may have been carried out twice, and a re-entry may have come too late.
func (l *lock) sameFence(a *hold) {
	first := l.leases[a.lease][0]
	switch entered := a.outer != nil; {
	case first == a || first.op.Kind == history.Attach && entered || first.op.Shares():
		return
	case entered && (first.proof == nil || first.proof.Start < a.op.End):
		return
	case merge(l.cutOff(first.op.Client)).touch(first.op.Start, first.op.End):
		return
	}
	if a.op.Fence < first.op.Fence || a.op.Fence > first.op.Fence && !l.rules.Handoff {
		l.report(FenceChanged, []*history.Op{first.op, a.op}, "%s has %d, and %s of the same lock %d",
			a.op.Hold, a.op.Fence, first.op.Hold, first.op.Fence)
	}
}
