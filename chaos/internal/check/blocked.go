package check

import (
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

const (
	// sleep is how long a lock may be free while a call waits for it; docs/proof.md.
	sleep = 3 * time.Second
	// moment is how long a release that was sent may be on its way when nothing is disturbed.
	moment = 300 * time.Millisecond
)

// taken finds calls that were told that the lock is taken when nobody could be in the way: no other call, hold, key of another program,
// or what they may have left behind. A release that was sent just before may take a moment.
func (l *lock) taken() {
	ways := map[string]counter{}
	for _, party := range []string{"", readers, slots} {
		ways[party] = newCounter(l.blocks(false, party))
	}
	full := l.full()
	for _, o := range l.ops {
		if o.Kind != history.Acquire || o.Err != history.Taken || !o.Ended() {
			continue
		}
		party, own, from := shared(o), 0, o.Start-int64(moment)
		if party == "" {
			own = 1 // the call itself
		}
		if ways[party].count(from, o.End) == own && (party != slots || !full(o, from)) {
			l.report(TakenByNobody, []*history.Op{o}, "worker %d of %s was told so", o.Worker, o.Client)
		}
	}
}

// slept finds calls that waited though the lock was free for long, and disturbed by nothing. That keys without a TTL are gone may be
// noticed much later: a run is too short for that. While calls for several names are under way, a lock may be theirs for longer.
func (l *lock) slept() {
	bound := l.rules.asleep()
	if l.rules.Strangers {
		return
	}
	// A writer that waits is in the way of those who share the lock, even if it is free.
	ways := map[string]spans{
		"": merge(append(l.blocks(true, ""), l.kept()...)), readers: merge(l.blocks(false, readers)),
		slots: merge(append(l.blocks(false, slots), l.crowded()...)),
	}
	for _, o := range l.ops {
		if o.Kind != history.Acquire || o.Way != history.Waiting {
			continue
		}
		free, end := o.Start, o.End
		if !o.Ended() {
			end = l.alive[o.Client]
		}
		rest := ways[shared(o)].after(free)
		for free < end {
			next := span{end, end}
			if len(rest) > 0 {
				next, rest = rest[0], rest[1:]
			}
			if to := min(next.from, end); to-free > bound {
				l.free(o, free, to)
			}
			free = max(free, next.to)
		}
	}
}

// asleep is how long a lock may be free while a call waits for it.
func (r Rules) asleep() int64 { return add(int64(sleep), 2*r.Timeout) }

// free reports that a call waited though the lock was free for longer than that, unless it may have been that of calls for several names.
func (l *lock) free(o *history.Op, from, to int64) {
	switch sets, patience := l.sets(from, to); {
	case patience == 0:
		l.report(WaiterSlept, []*history.Op{o}, "worker %d of %s waited for %v while it was free", o.Worker, o.Client, ms(to-from))
	case to-from > add(l.rules.asleep(), patience):
		l.report(SetKept, append(sets, o), "worker %d of %s waited for %v while nobody had it", o.Worker, o.Client, ms(to-from))
	}
}

// blocks returns when somebody or something may have been in the way of a call. Calls that wait for the lock are not in each other's
// way when free is asked for: one of them has to get it. Those who share the lock are not in the way of others of their party; for slots
// see full and crowded.
func (l *lock) blocks(free bool, party string) (all []span) {
	settled := l.rules.settled()
	trouble := felt(l.faults)
	for _, stall := range slices.Concat(slices.Collect(maps.Values(l.stalls))...) {
		s := span{stall.Start, stall.End}
		if free && s.to-s.from < int64(l.rules.Timeout) { // too short for anything to be left behind, but it delays
			all = append(all, span{s.from, add(s.to, 2*l.rules.Timeout)})
			continue
		}
		trouble = append(trouble, s)
	}
	for _, downs := range l.downs {
		trouble = append(trouble, downs...)
	}
	for _, t := range trouble {
		all = append(all, span{t.from, add(t.to, settled)})
	}
	for _, f := range l.faults {
		if brings(f) && l.rules.Strangers { // keys that stay
			all = append(all, span{f.Start, history.Open})
		}
	}
	for _, o := range l.ops {
		if o.Kind == history.Set && o.Err != history.Taken {
			all = append(all, span{o.Start, l.cleared(o)})
		}
	}
	calls, holds := l.users(free, func(o *history.Op) bool { return party == "" || shared(o) != party })
	return slices.Concat(all, calls, holds)
}

// users returns when calls that have got no lock, and holds, may have been in the way of others: those that count.
func (l *lock) users(free bool, counts func(*history.Op) bool) (calls, holds []span) {
	for _, o := range l.ops {
		if (o.Kind == history.Acquire || o.Kind == history.Attach || o.Kind == history.Force) && o.Hold == "" && counts(o) {
			calls = append(calls, l.call(o, free)...)
		}
	}
	for _, a := range l.holds {
		if !counts(a.op) {
			continue
		}
		from := a.op.Start
		if free && l.waits(a.op) {
			from = a.op.End
		}
		holds = append(holds, span{from, l.gone(a)})
	}
	return calls, holds
}

// call returns when a call was in the way that has got no lock. One that failed as it should leaves nothing behind.
func (l *lock) call(o *history.Op, free bool) []span {
	s := span{o.Start, l.ended(o)}
	clean := o.Ended() && (o.Err == "" || o.Err == history.Taken || o.Err == history.Foreign || o.Err == history.Canceled)
	switch waits := free && l.waits(o); {
	case waits && clean:
		return nil
	case waits:
		s.from = s.to
	}
	if !clean {
		s.to = add(s.to, l.rules.settled())
	}
	return []span{s}
}

// ended returns when a call was over, at the latest.
func (l *lock) ended(o *history.Op) int64 {
	if o.Ended() {
		return o.End
	}
	return l.alive[o.Client]
}

// gone returns when nothing was left of a hold, at the latest.
func (l *lock) gone(a *hold) int64 {
	last := l.ended(a.op)
	over := a.detach != nil
	for _, o := range a.ops {
		last = max(last, l.ended(o))
		over = over || o.Kind == history.Over || o.Kind == history.Unlock && o.Ended()
		if o.Kind == history.Unlock && l.confirmed(o) && a.detach == nil {
			return o.End
		}
	}
	if a.detach != nil {
		for _, o := range l.leases[a.lease] {
			if o.op.Kind == history.Attach && o.op.Start >= a.detach.Start {
				return o.op.End // from then on it is that hold
			}
		}
	}
	if a.op.Renews && !over { // until its process ends
		last = max(last, l.alive[a.op.Client])
	}
	return add(last, l.rules.settled())
}

// confirmed reports whether a majority has confirmed the release. Do does not say that none has done so in time.
func (l *lock) confirmed(unlock *history.Op) bool {
	return unlock.Ended() && unlock.Err == "" && unlock.End-unlock.Start < int64(l.rules.Timeout)
}

// cleared returns when the key of a Set was gone, if it was.
func (l *lock) cleared(set *history.Op) int64 {
	if set.Err != "" || !set.Ended() {
		return history.Open
	}
	for _, o := range l.ops {
		if o.Kind == history.Clear && o.Start >= set.End && sameKey(o, set) && sameWorker(o, set) && o.Err == "" && o.Ended() {
			return o.End
		}
	}
	return history.Open
}

func sameKey(a, b *history.Op) bool { return a.Node == b.Node && a.Key == b.Key }

func sameWorker(a, b *history.Op) bool { return a.Client == b.Client && a.Worker == b.Worker }
