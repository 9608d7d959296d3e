package check

import (
	"cmp"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// effect is what an operation does to a register, at a moment between from and to.
type effect struct {
	op       *history.Op
	what     string
	from, to int64
}

const (
	writes = "writes" // with success
	stale  = "stale"  // a write that was rejected
	may    = "may"    // a write that may come at any time, or not at all
	reads  = "reads"
)

// registerState is the state of a register with a fence. Before anything is seen of it only a bound of its fence is known.
type registerState struct {
	fence uint64 // unless known: at least
	value string
	known bool
}

func (s registerState) step(e effect) (bool, registerState) {
	now := registerState{e.op.Fence, e.op.Value, true}
	switch above := e.op.Fence >= s.fence; {
	case e.what == stale && s.known:
		return !above, s
	case e.what == stale:
		return true, registerState{fence: max(s.fence, e.op.Fence+1)}
	case e.what == may && !above:
		return true, s
	case e.what == reads && s.known:
		return s == now, s
	default:
		return above, now
	}
}

func registerModel(bound uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return registerState{fence: bound} },
		Step: func(state, input, _ any) (bool, any) { return state.(registerState).step(input.(effect)) },
	}
}

// registers checks the registers with a fence that are written under the lock: a value with a lower fence never replaces another.
func (l *lock) registers() {
	for _, register := range []string{history.Redis, history.Postgres} {
		effects := effectsOn(l.ops, register)
		for from := 0; from < len(effects); from += windowSize / 2 {
			l.register(register, effects, from, min(from+windowSize, len(effects)))
		}
	}
}

// register checks a window. Effects that began before it, or begin after it but before it has ended, may come within it. All that
// is known of the register at first is the highest fence that was seen before.
func (l *lock) register(register string, effects []effect, from, to int) {
	begin, end := effects[from].from, effects[to-1].from
	window := slices.Clone(effects[from:to])
	var highest *history.Op
	for _, e := range window {
		if e.what != may {
			end = max(end, e.to)
		}
	}
	for _, e := range effects[:from] {
		if (e.what == writes || e.what == reads) && e.to < begin && (highest == nil || e.op.Fence > highest.Fence) {
			highest = e.op
		}
	}
	var bound uint64
	if highest != nil {
		bound = highest.Fence
	}
	for _, e := range effects[:from] {
		if (e.what == may || e.what == writes && e.to >= begin) && e.op.Fence >= bound {
			window = append(window, effect{e.op, may, begin, never})
		}
	}
	for _, e := range effects[to:] {
		if e.from <= end && (e.what == may || e.what == writes) {
			window = append(window, effect{e.op, may, e.from, never})
		}
	}
	model := registerModel(bound)
	fails := func(w []effect) bool {
		var ops []porcupine.Operation
		for _, e := range w {
			ops = append(ops, porcupine.Operation{Input: e, Call: e.from, Return: e.to})
		}
		return !l.linearizable(model, ops)
	}
	if !fails(window) {
		return
	}
	v := l.report(RegisterBack, effectOps(window, highest), "no order of %d writes and reads of %s explains them", len(window), register)
	v.reduce = func() []*history.Op { return effectOps(smallerWindow(window, fails), highest) }
}

func effectOps(effects []effect, highest *history.Op) (ops []*history.Op) {
	if highest != nil {
		ops = append(ops, highest)
	}
	for _, e := range effects {
		ops = append(ops, e.op)
	}
	return ops
}

// smallerWindow leaves out reads and rejected writes, and, if none was rejected, values: a write and all reads of it. More would make
// a history wrong that was right.
func smallerWindow(window []effect, fails func([]effect) bool) []effect {
	reason := func(e effect) bool { return e.what == reads || e.what == stale }
	var kept []effect
	for _, e := range window {
		if !reason(e) {
			kept = append(kept, e)
		}
	}
	seen := smaller(slices.DeleteFunc(slices.Clone(window), func(e effect) bool { return !reason(e) }),
		func(some []effect) bool { return fails(slices.Concat(kept, some)) })
	all := slices.Concat(kept, seen)
	if slices.ContainsFunc(seen, func(e effect) bool { return e.what == stale }) {
		return all
	}
	values := map[string][]effect{}
	var names []string
	for _, e := range all {
		if values[e.op.Value] == nil {
			names = append(names, e.op.Value)
		}
		values[e.op.Value] = append(values[e.op.Value], e)
	}
	of := func(names []string) (some []effect) {
		for _, n := range names {
			some = append(some, values[n]...)
		}
		return some
	}
	return of(smaller(names, func(names []string) bool { return fails(of(names)) }))
}

// effectsOn returns what was done to a register, by its beginning. A write without an answer that somebody has read has taken effect
// by then. One that nobody has read matters only if a write was rejected for which nothing else accounts.
func effectsOn(ops []*history.Op, register string) (effects []effect) {
	type written struct {
		fence uint64
		value string
	}
	read, times := map[written]int64{}, map[written]int{}
	for _, o := range ops {
		w := written{o.Fence, o.Value}
		switch {
		case o.Register != register:
		case o.Kind == history.Write:
			times[w]++
		case o.Kind == history.Read && o.Err == "" && o.Ended():
			if first, ok := read[w]; !ok || o.End < first {
				read[w] = o.End
			}
		}
	}
	for _, o := range ops {
		if o.Register != register || o.Kind != history.Write && o.Kind != history.Read {
			continue
		}
		first, seen := read[written{o.Fence, o.Value}]
		switch e := (effect{o, writes, o.Start, o.End}); {
		case o.Kind == history.Read && o.Err == "" && o.Ended():
			e.what = reads
			effects = append(effects, e)
		case o.Kind == history.Read:
		case o.Ended() && o.Err == history.Stale:
			e.what = stale
			effects = append(effects, e)
		case o.Ended() && o.Err == "":
			effects = append(effects, e)
		case seen && times[written{o.Fence, o.Value}] == 1 && first >= o.Start:
			e.to = first
			effects = append(effects, e)
		default:
			effects = append(effects, effect{o, may, o.Start, never})
		}
	}
	open := unexplained(effects)
	return slices.DeleteFunc(effects, func(e effect) bool {
		_, seen := read[written{e.op.Fence, e.op.Value}]
		return e.what == may && !seen && !slices.ContainsFunc(open, func(r effect) bool { return r.op.Fence < e.op.Fence && r.to >= e.from })
	})
}

// unexplained returns the writes that were rejected though no higher fence is known to have been there before.
func unexplained(effects []effect) (open []effect) {
	ended := slices.Clone(effects)
	slices.SortStableFunc(ended, func(a, b effect) int { return cmp.Compare(a.to, b.to) })
	var highest uint64
	for _, e := range effects {
		for ; len(ended) > 0 && ended[0].to < e.from; ended = ended[1:] {
			if ended[0].what == writes || ended[0].what == reads {
				highest = max(highest, ended[0].op.Fence)
			}
		}
		if e.what == stale && e.op.Fence >= highest {
			open = append(open, e)
		}
	}
	return open
}
