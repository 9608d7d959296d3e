package redlock

import (
	"context"
	"errors"
	"slices"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// joint is a round over some names of a call.
type joint struct {
	engine.Together
	of     []int // the names, by their index in the call
	reqs   []request
	rounds []engine.Acquire
	parts  []engine.Part

	records  []engine.LostRound // for a repeat: one for each name
	others   []int              // on how many nodes others hold each of the names
	refusal  *QuorumError
	hopeless bool // nobody can take one of the names
}

// ask runs a round over some names. A call that does not wait repeats it while it may have been split: see
// [engine.Repeat].
func (t *together) ask(ctx context.Context, names engine.Names) engine.Step {
	a := t.joint(names)
	first := &t.reqs[0]
	if err := first.nextToken(); err != nil {
		t.err = failed(event.OpAcquire, first.name, err)
		return t.Over()
	}
	won := t.run(ctx, a, first.token)
	for repeat := t.locker.repeat(first); !won && t.try; {
		next := t.joint(names)
		token, err := t.locker.repeatAfter(ctx, repeat, a.records, next.calls()...)
		if err != nil {
			t.err = failed(event.OpAcquire, first.name, err)
			return t.Over()
		}
		if token == "" {
			break
		}
		before := t.last
		limited, stop := t.locker.until(ctx, repeat.Ends())
		a, won = next, t.run(limited, next, token)
		if over := stop(); over && !won {
			t.last = before
			return t.Over()
		}
	}
	if won {
		return t.Won()
	}
	over := t.locker.stopped(ctx) || a.hopeless
	return t.Lost(a.others, a.rounds[0].Took(), over)
}

// joint makes a round over some names. Unless these are all of the call, the locks are renewed without a limit until
// the call has all.
func (t *together) joint(names engine.Names) *joint {
	a := &joint{of: slices.Collect(names.Each())}
	n := len(a.of)
	a.reqs, a.rounds, a.parts = make([]request, n), make([]engine.Acquire, n), make([]engine.Part, n)
	for i, name := range a.of {
		req := &a.reqs[i]
		if *req = t.reqs[name]; n < len(t.reqs) {
			req.Renewed, req.MaxHold = true, NoLimit
		}
		call := &engine.Call{Want: &req.Want}
		if name == t.At() {
			call = &t.waiter.Call
		}
		a.rounds[i].Of = req.call
		a.parts[i] = engine.Part{Acquire: &a.rounds[i], Key: req.key, Call: call}
	}
	return a
}

// calls returns the calls of the round, one for each name.
func (a *joint) calls() (calls []*engine.Call) {
	for _, p := range a.parts {
		calls = append(calls, p.Call)
	}
	return calls
}

// run runs a round and reports whether it was won. It takes the locks of a round that is won. It gives back the locks
// of a lost round, except for the name of the turn.
func (t *together) run(ctx context.Context, a *joint, token string) bool {
	l := t.locker
	a.Ask(l.engine, token, t.reqs[0].metadata, a.parts)
	if a.Wait(ctx) {
		for i, name := range a.of {
			e := a.rounds[i].Entry()
			e.Enter()
			if name == t.At() {
				e.Waiting.Lost, t.waiter = nil, nil
			}
			t.locks[name] = l.wonLocked(e, a.parts[i].Call, &a.rounds[i], &a.reqs[i])
			e.Exit()
		}
		return true
	}
	a.lost(l)
	if ctx.Err() == nil || t.last == nil || errors.Is(a.refusal, ErrTaken) {
		t.last = a.refusal // a round that was stopped knows less than the round before it
	}
	for i, name := range a.of {
		if name == t.At() {
			t.turn = &a.parts[i]
			continue
		}
		e := a.rounds[i].Entry()
		e.Enter()
		e.GiveBackLocked(&a.rounds[i], a.parts[i].Call)
		e.Exit()
	}
	return false
}

// lost finds out which names were in the way. The refusal is about the first name that nobody can take. If there is
// none, it is about the first name that others hold on too many nodes. If there is none either, it is about the first
// name that was refused. Where a node would have granted that name alone, its answer is the reason why it refused
// another name.
//
// Answers about different names do not add up: names that others hold on one node each are in nobody's way.
func (a *joint) lost(l *Locker) {
	a.others, a.records = a.Others(), a.LostRounds()
	refusals := make([]*QuorumError, len(a.rounds))
	for i := range a.rounds {
		if r := &a.rounds[i].Round; r.Outcome() != quorum.Done {
			refusals[i] = l.refusalOf(r)
		}
	}
	at := slices.IndexFunc(refusals, func(r *QuorumError) bool { return r != nil && l.hopeless(r) })
	if a.hopeless = at >= 0; !a.hopeless {
		at = slices.IndexFunc(a.others, a.Blocks)
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
