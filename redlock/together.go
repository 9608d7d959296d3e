package redlock

import (
	"context"
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// maxTogether is the highest number of names in a call. One command carries all of them, and a server does nothing else
// meanwhile.
const maxTogether = 64

// TryLockAll is [Locker.TryLock] for several names: the caller gets the locks of all of them, or none. Each node grants
// all names in one step or refuses all, in one round trip, and a majority must grant all. From then on the locks are
// held like locks that were taken one by one. [Locks.Unlock] releases them. A round that other callers may have split
// is repeated as in TryLock.
//
// names has from 1 to 64 names, in any order, each once. The options hold for each of the locks. With [WithFencing]
// each lock has a fencing token of its own. [Reentrant], [Shared] and [Slots] are [ErrInvalid]. If the caller already
// holds one of the names, the error is [ErrDeadlock].
//
// The errors are the same as for TryLock. In a [*QuorumError] Names has the names that others hold. In a Redis Cluster,
// and in servers like it, the names need a common hash tag. Otherwise the servers refuse the command (CROSSSLOT).
func (l *Locker) TryLockAll(ctx context.Context, names []string, opts ...LockOption) (*Locks, error) {
	return l.takeAll(ctx, names, opts, true)
}

// LockAll repeats TryLockAll until it holds the locks, as [Locker.Lock] repeats TryLock. Other calls may take the same
// names at the same time, in another order or one by one. LockAll never waits for them for long while it holds a lock
// that they may wait for.
//
// At first LockAll holds nothing while it waits: it waits for the first name that is in the way, and then tries all
// names. That may not succeed if others take some of the names in turn. So after four attempts, or after one TTL, it
// goes on in the order of the names. It holds the locks of the first names, and renews them, while it waits for the
// next. If that lasts longer than a TTL, it releases all locks and begins again. Each time this limit is twice as long.
// So it gets the locks in a bounded number of turns, if the others take the locks in the same order, or with LockAll.
// If it went in that order, [MaxHold] counts from when it has all locks.
//
// The errors are the same as for Lock and TryLockAll.
func (l *Locker) LockAll(ctx context.Context, names []string, opts ...LockOption) (*Locks, error) {
	return l.takeAll(ctx, names, opts, false)
}

// takeAll takes the locks of several names, or none of them. try means that the call does not wait.
func (l *Locker) takeAll(ctx context.Context, names []string, opts []LockOption, try bool) (locks *Locks, err error) {
	all, err := l.requests(names, opts)
	if err != nil {
		return nil, err
	}
	defer l.engine.End()
	if try, err = all[0].tries(try); err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].call = l.newCall(ctx); all[i].call != nil {
			defer func() { l.acquired(event.OpAcquire, try, &all[i], locks.at(i), err) }()
		}
	}
	for i := range all {
		if h, _ := l.held(ctx, &all[i]); h != nil {
			return nil, failed(event.OpAcquire, all[i].name, ErrDeadlock)
		}
	}
	if ctx.Err() != nil {
		return nil, failed(event.OpAcquire, all[0].name, ended(ctx))
	}
	t := together{locker: l, all: all}
	if try {
		locks, err = t.try(ctx)
	} else {
		ctx, stop := l.limit(ctx, &all[0])
		defer stop()
		locks, err = t.wait(ctx)
	}
	if err != nil {
		l.logBlocked(err)
	}
	return locks, err
}

// requests checks the arguments of a call for several names, and returns its requests in the order of the names. On
// success it counts the call, until engine.End.
func (l *Locker) requests(names []string, opts []LockOption) ([]request, error) {
	sorted := slices.Sorted(slices.Values(names))
	switch {
	case len(names) == 0:
		return nil, failed(event.OpAcquire, "", invalid("no names: from 1 to %d", maxTogether))
	case len(names) > maxTogether:
		return nil, failed(event.OpAcquire, sorted[0], invalid("%d names: from 1 to %d", len(names), maxTogether))
	}
	all := make([]request, 0, len(names))
	for i, name := range sorted {
		var req request
		err := l.request(&req, name, opts)
		switch {
		case err != nil:
		case i > 0 && name == sorted[i-1]:
			err = invalid("the name %q is given twice", name)
		case req.Kind.Several():
			err = invalid("%s: the locks of several names are exclusive", req.kindOption())
		case req.reentrant:
			err = invalid("Reentrant: of several locks some could be those of another call")
		}
		if err != nil {
			return nil, failed(event.OpAcquire, name, err)
		}
		req.Kept, req.names = true, sorted
		all = append(all, req)
	}
	if !l.engine.Begin() {
		return nil, failed(event.OpAcquire, sorted[0], ErrClosed)
	}
	return all, nil
}

// together is a call that takes the locks of several names.
type together struct {
	locker *Locker
	all    []request    // in the order of the names
	last   *QuorumError // of the last round that was lost, or of a better informed one before it; nil if there is none
}

// attempt is a round over several names that was lost.
type attempt struct {
	engine.Together
	reqs    []request
	parts   []engine.Part
	records []engine.LostRound // for a repeat: one for each name
	refusal *QuorumError

	hopeless bool  // nobody can take one of the names
	others   []int // the number of nodes on which others hold each of the names
	blocked  int   // the first of the names that others hold on too many nodes; -1 if there is none
	named    int   // the first of the names that others hold on any node; -1 if there is none
}

// round tries to take the locks of some of the names. at is the waiter for one of these names; nil if none waits. round
// returns the locks, or the attempt that was lost. It gives back the parts of a lost attempt except the part of at,
// which the caller ends.
func (t *together) round(ctx context.Context, reqs []request, at *waiter) ([]*Lock, *attempt, error) {
	first := &t.all[0]
	if err := first.nextToken(); err != nil {
		return nil, nil, failed(event.OpAcquire, first.name, err)
	}
	locks, lost := t.ask(ctx, reqs, newCalls(reqs), first.token, at)
	return locks, lost, nil
}

// newCalls makes the calls of a round over some names.
func newCalls(reqs []request) []*engine.Call {
	calls := make([]*engine.Call, len(reqs))
	for i := range reqs {
		calls[i] = &engine.Call{Want: &reqs[i].Want}
	}
	return calls
}

// ask is round with a token. It has a call for each name, except for the name of at.
func (t *together) ask(
	ctx context.Context, reqs []request, calls []*engine.Call, token string, at *waiter,
) ([]*Lock, *attempt) {
	l := t.locker
	a := &attempt{reqs: reqs, parts: make([]engine.Part, len(reqs))}
	rounds := make([]engine.Acquire, len(reqs))
	for i := range reqs {
		r, c := &rounds[i], calls[i]
		if at != nil && at.req.key == reqs[i].key {
			c = &at.Call
		}
		r.Of = reqs[i].call
		a.parts[i] = engine.Part{Acquire: r, Key: reqs[i].key, Call: c}
	}
	a.Ask(l.engine, token, t.all[0].metadata, a.parts)
	if a.Wait(ctx) {
		locks := make([]*Lock, len(reqs))
		for i := range rounds {
			e := rounds[i].Entry()
			e.Enter()
			locks[i] = l.wonLocked(e, a.parts[i].Call, &rounds[i], &reqs[i])
			e.Exit()
		}
		return locks, nil
	}
	a.lost(l, rounds)
	if ctx.Err() == nil || t.last == nil || errors.Is(a.refusal, ErrTaken) {
		t.last = a.refusal
	}
	a.refusal = t.last // a round that was stopped knows less than the round before it
	for i := range rounds {
		if at == nil || a.parts[i].Call != &at.Call {
			a.giveBack(i)
		}
	}
	return nil, a
}

// scattered reports whether others hold some of the names, but each on too few nodes to keep this call from it alone.
func (a *attempt) scattered() bool { return a.blocked < 0 && a.named >= 0 }

// giveBack releases the lock that a part of the round may have won, and ends the part.
func (a *attempt) giveBack(i int) {
	e := a.parts[i].Entry()
	e.Enter()
	e.GiveBackLocked(a.parts[i].Acquire)
	e.LostLocked(a.parts[i].Acquire, a.parts[i].Call)
	e.Exit()
}

// lost finds out which names were in the way. The refusal is about the first name that nobody can take. If there is
// none, it is about the first name that others hold on too many nodes. If there is none either, it is about the first
// name that was refused. Where a node would have granted that name alone, its answer is the reason why it refused
// another name.
//
// Answers about different names do not add up: names that others hold on one node each are in nobody's way.
func (a *attempt) lost(l *Locker, rounds []engine.Acquire) {
	a.others, a.blocked, a.named = a.InTheWay()
	a.records = a.LostRounds()
	refusals := make([]*QuorumError, len(rounds))
	for i := range rounds {
		if r := &rounds[i].Round; r.Outcome() != quorum.Done {
			refusals[i] = l.refusalOf(r)
		}
	}
	at := slices.IndexFunc(refusals, func(r *QuorumError) bool { return r != nil && l.hopeless(r) })
	if a.hopeless = at >= 0; !a.hopeless {
		at = a.blocked
	}
	if at < 0 {
		at = slices.IndexFunc(refusals, func(r *QuorumError) bool { return r != nil })
	}
	refusal := *refusals[at]
	refusal.Nodes = slices.Clone(refusal.Nodes)
	for i := range refusals {
		if a.others[i] > 0 {
			refusal.Names = append(refusal.Names, a.reqs[i].name)
		}
		for n := range refusal.Nodes {
			if was := refusal.Nodes[n].Err; refusals[i] != nil && (was == nil || errors.Is(was, engine.ErrOthersHeld)) {
				refusal.Nodes[n] = refusals[i].Nodes[n]
			}
		}
	}
	a.refusal = &refusal
}

// try runs a round, and repeats it while it may have been split: see [engine.Repeat]. After the last round others may
// hold some of the names on some nodes, but no name on too many nodes. Then none of these others holds a lock, and try
// takes the names one by one, in order, because that may succeed.
func (t *together) try(ctx context.Context) (*Locks, error) {
	locks, lost, err := t.round(ctx, t.all, nil)
	if err != nil {
		return nil, err
	}
	for repeat := t.locker.repeat(&t.all[0]); lost != nil; {
		calls := newCalls(t.all)
		token, err := t.locker.repeatAfter(ctx, repeat, lost.records, calls...)
		switch {
		case err != nil:
			return nil, failed(event.OpAcquire, t.all[0].name, err)
		case token != "":
			before := lost
			limited, stop := t.locker.until(ctx, repeat.Ends())
			locks, lost = t.ask(limited, t.all, calls, token, nil)
			if over := stop(); over && lost != nil {
				return nil, t.locker.refused(ctx, before.refusal)
			}
		case lost.scattered() && ctx.Err() == nil:
			return t.inOrder(ctx, true)
		default:
			return nil, t.locker.refused(ctx, lost.refusal)
		}
	}
	return newLocks(locks), nil
}
