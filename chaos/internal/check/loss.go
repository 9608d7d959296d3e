package check

import (
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// secondRenewal is how soon a node whose key an extension has set again may count for the lock.
const secondRenewal = 100 * time.Millisecond

// overdue is how long a client waits for an answer before it ends the connection, and some more.
const overdue = 1500 * time.Millisecond

// lossReported checks that the holder of a lock that is renewed notices a ForceUnlock: with the next renewal that can show it, which
// is the first that no fault delays.
//
// It does not matter whether the ForceUnlock has hit the lock of this holder. If it has not, another had taken the lock before, so
// that the holder should have noticed earlier.
func (l *lock) lossReported() {
	bound := l.rules.Lease/3 + 2*l.rules.Timeout + slack
	for _, f := range l.forces {
		if f.Err != "" || !f.Ended() || f.End-f.Start >= int64(secondRenewal) {
			// One that is slow may look at a node before the holder has set its key there again, and delete others after that. So a
			// majority may hold the lock all the time.
			continue
		}
		for _, a := range l.holds {
			if add(a.op.End, 2*l.rules.Timeout) > f.Start { // nodes may still be about to grant it
				break // and those that follow
			}
			if a.proof == nil || a.proof.Start <= add(f.End, bound) || !l.notices(a, f) {
				continue
			}
			if due := l.calm(a, f.End, bound); a.proof.Start > due {
				l.report(LossNotReported, []*history.Op{a.op, f, a.proof}, "%s was held %v after it had to be known that it was forced",
					a.op.Hold, ms(a.proof.Start-due))
			}
		}
	}
}

// notices reports whether the holder has to notice the ForceUnlock: it renews the lock, is the only one who has it, and no answer was
// lost that would have shown the loss.
func (l *lock) notices(a *hold, f *history.Op) bool {
	switch {
	case !a.op.Renews || a.outer != nil || l.rules.Handoff || a.unlock != nil && a.unlock.Start <= f.End:
		return false
	case l.answersLost(a, f):
		return false
	}
	for _, o := range l.leases[a.lease] {
		if o != a && o.outer == nil || o.detach != nil {
			return false
		}
	}
	for _, f := range l.faults {
		// A Locker that is shut down renews nothing: its locks are over with their TTL.
		if (brings(f) || shuts(f) && f.End >= a.op.Start) && f.Start <= a.proof.Start {
			return false
		}
	}
	return true
}

// answersLost reports whether answers may have been lost that would have shown the holder that its keys were gone, and set again. A lock
// that nobody extends is over soon: so these answers have come until then, or their connections have ended. If the keys were deleted
// on all nodes, it takes a majority of such connections to hide it.
func (l *lock) answersLost(a *hold, f *history.Op) bool {
	lost, enough := 0, l.rules.Nodes/2+1
	for link, downs := range l.downs {
		if link.client == a.op.Client && merge(downs).touch(f.Start-int64(2*l.rules.Timeout), add(f.End, l.rules.Lease+overdue)) {
			lost++
		}
	}
	forced := merge(append(felt(l.faultsOf(f.Client)), l.disturbed(f.Client)...))
	if forced.touch(f.Start-int64(l.rules.Timeout), add(f.End, l.rules.Timeout)) { // some nodes may not have been asked
		enough = 1
	}
	return lost >= enough
}

// calm returns the end of the first time that is as long as the bound, begins at t or later, and in which nothing delays the holder.
func (l *lock) calm(a *hold, t int64, bound time.Duration) int64 {
	for _, s := range l.delays(a.op.Client).after(t) {
		if s.from > add(t, bound) {
			break
		}
		t = s.to
	}
	return add(t, bound)
}

// delays returns when a client stood still, or a fault left it no majority of the nodes.
func (l *lock) delays(client string) spans {
	all := l.stood(client)
	faults := l.faultsOf(client)
	for i, f := range faults {
		when := felt(faults[i : i+1])
		nodes := map[int]bool{}
		for j, o := range faults {
			if merge(felt(faults[j:j+1])).touch(when[0].from, when[0].to) {
				for _, n := range o.Nodes {
					nodes[n] = true
				}
			}
		}
		delete(nodes, l.rules.Register)
		if left := l.rules.Nodes - len(nodes); len(f.Nodes) == 0 || left <= l.rules.Nodes/2 {
			all = append(all, when...)
		}
	}
	return merge(all)
}

// brings reports whether the fault may bring keys back that were deleted: with an old copy, or a replica that lacks the latest writes.
func brings(f *history.Op) bool {
	return slices.ContainsFunc([]string{"snapshot", "fail-over", "late-"}, func(what string) bool { return strings.Contains(f.What, what) })
}
