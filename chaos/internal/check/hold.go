package check

import (
	"cmp"
	"slices"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// hold is a handle on a lock, with what became of it.
type hold struct {
	op     *history.Op // the Acquire or Attach that has got it
	ops    []*history.Op
	outer  *hold       // that of which an Acquire by re-entry has made this one; nil otherwise
	proof  *history.Op // the last
	unlock *history.Op // the first
	detach *history.Op // that has succeeded

	// lease is the same for all handles on one lock. A re-entry that came when the lock was just over has got another lock, which
	// cannot be seen: so handles of one lease are never taken for one long hold.
	lease  string
	begun  int64 // of the lease, as far as is known
	proven int64 // the lock was held from op.End until then; 0 if that is not known
	said   int64 // likewise, by Unlock
}

// Parties of those who may have the lock beside others of their kind.
const (
	readers = "|shared"
	slots   = "|slots"
)

// shared returns the party of those who share a lock of the kind that the operation is about; "" if nobody does.
func shared(o *history.Op) string {
	switch {
	case o.Slots > 0:
		return slots
	case o.Reads:
		return readers
	}
	return ""
}

// party is the same for all who may have the lock at one time: the handles on one lock, all readers, and all who have
// slots, for as long as there are enough.
func (h *hold) party() string { return cmp.Or(shared(h.op), h.lease) }

// until is the moment until which the lock was held by all that is known.
func (h *hold) until() int64 { return max(h.proven, h.said) }

// shows returns the operations that show until when the lock was held.
func (h *hold) shows() []*history.Op {
	ops := []*history.Op{h.op}
	if h.proven > 0 {
		ops = append(ops, h.proof)
	}
	if h.said > 0 {
		ops = append(ops, h.unlock)
	}
	return ops
}

// extended reports whether something may have moved the deadline.
func (h *hold) extended(handles []*hold) bool {
	return h.op.Renews || slices.ContainsFunc(handles, func(o *hold) bool {
		return o.outer != nil || slices.ContainsFunc(o.ops, func(op *history.Op) bool { return op.Kind == history.Extend })
	})
}

// lock is the history of a name.
type lock struct {
	*History
	rules  Rules
	name   string
	ops    []*history.Op
	forces []*history.Op
	holds  []*hold // by the end of the call
	leases map[string][]*hold

	violations []*Violation
	undecided  int
}

func (h *History) lock(name string, r Rules) *lock {
	l := &lock{History: h, rules: r, name: name, ops: h.names[name], leases: map[string][]*hold{}}
	byID := map[string]*hold{}
	for _, o := range l.ops {
		switch {
		case o.Kind == history.Force && o.Err != history.Closed:
			l.forces = append(l.forces, o)
		case (o.Kind == history.Acquire || o.Kind == history.Attach) && o.Hold != "":
			byID[o.Hold] = &hold{op: o, outer: byID[o.Outer], lease: cmp.Or(o.Token, o.Hold)}
			l.holds = append(l.holds, byID[o.Hold])
		}
	}
	for _, o := range l.ops {
		a := byID[o.Hold]
		if a == nil || o.Kind == history.Write || o.Kind == history.Read {
			continue
		}
		a.ops = append(a.ops, o)
		switch {
		case o.Kind == history.Proof && (a.proof == nil || o.Start > a.proof.Start):
			a.proof = o
		case o.Kind == history.Unlock && a.unlock == nil:
			a.unlock = o
		case o.Kind == history.Detach && o.Err == "" && o.Ended():
			a.detach, a.lease = o, cmp.Or(o.Token, a.lease)
		}
	}
	for _, a := range l.holds { // an outer hold has begun before, so that its lease is known
		if a.outer != nil {
			a.lease = a.outer.lease
		}
		l.leases[a.lease] = append(l.leases[a.lease], a)
	}
	slices.SortStableFunc(l.holds, func(a, b *hold) int { return cmp.Compare(a.op.End, b.op.End) })
	disturbed := map[string]spans{}
	for _, a := range l.holds {
		if disturbed[a.op.Client] == nil {
			disturbed[a.op.Client] = h.disturbed(a.op.Client)
		}
		a.begun = l.leases[a.lease][0].op.Start
		l.prove(a)
		l.believe(a, disturbed[a.op.Client])
	}
	return l
}

// prove finds out until when it is proven that the lock was held. Err becomes nil never again, so the last Proof is enough. What came
// after a ForceUnlock that may have hit the lock does not count.
func (l *lock) prove(a *hold) {
	if a.proof == nil {
		return
	}
	begun := a.begun
	if l.rules.Handoff { // the lease may have been that of others before
		begun -= int64(l.rules.Lease)
	}
	until := a.proof.Start
	if i := slices.IndexFunc(l.forces, func(f *history.Op) bool { return f.End >= begun }); i >= 0 {
		until = min(until, l.forces[i].Start)
	}
	if until > a.op.End {
		a.proven = until
	}
}

// believe finds out whether the nil of an Unlock says that a majority of the nodes held the lock until then. It does not if the lock
// was handed off, which is not known, or there were other handles. It may be wrong if extensions have set keys again that were lost,
// and their answers were not seen; or if the lock was forced before all nodes had carried out its acquire.
func (l *lock) believe(a *hold, disturbed spans) {
	u, handles := a.unlock, l.leases[a.lease]
	if u == nil || !l.confirmed(u) || l.rules.Handoff || a.outer != nil || a.op.Kind == history.Attach {
		return
	}
	for _, o := range handles {
		last := o == a || o.outer != nil && o.unlock != nil && o.unlock.End <= u.Start
		if !last || o.detach != nil {
			return
		}
	}
	if a.extended(handles) && (disturbed.touch(a.op.Start, u.End) || merge(spansOf(l.faults)).touch(u.Start, u.End)) {
		return
	}
	settled := add(a.op.End, 2*l.rules.Timeout)
	for _, f := range l.forces {
		if f.Start <= settled && f.End >= a.op.Start {
			return
		}
	}
	if u.Start > a.op.End {
		a.said = u.Start
	}
}
