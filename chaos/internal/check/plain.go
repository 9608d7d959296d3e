package check

import (
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// plain checks the register without a fence. What a holder writes stays while it is proven to hold the lock, unless it is overwritten
// by a write that came late: one of a holder that had lost the lock, or one without an answer.
//
// That two holders do not write it at once needs no check of its own, as exclusion finds two holders.
func (l *lock) plain() {
	byID := map[string]*hold{}
	for _, a := range l.holds {
		byID[a.op.Hold] = a
	}
	proven := func(o *history.Op) bool {
		a := byID[o.Hold]
		return a != nil && o.Err == "" && a.op.End <= o.Start && a.proven >= o.End
	}
	late := map[string]*history.Op{} // by value; and what other handles of a lock may have written
	for _, o := range l.ops {
		if o.Kind == history.Write && o.Register == history.Plain && (!proven(o) || len(l.leases[byID[o.Hold].lease]) > 1) {
			late[o.Value] = o
		}
	}
	own := map[string]*history.Op{} // by hold: its last write
	for _, o := range l.ops {
		if o.Register != history.Plain || !proven(o) && o.Kind == history.Read {
			continue
		}
		if o.Kind == history.Write {
			own[o.Hold] = o
			continue
		}
		w := own[o.Hold]
		if w == nil || !proven(w) || w.End > o.Start || o.Value == w.Value {
			continue
		}
		x := late[o.Value]
		if excused := x != nil && x.Start <= o.End && (x.End >= w.Start || x.Err != ""); !excused {
			a := byID[o.Hold]
			l.report(WriteLost, []*history.Op{a.op, w, o, a.proof}, "%s wrote %q and read %q", o.Hold, w.Value, o.Value)
		}
	}
}
