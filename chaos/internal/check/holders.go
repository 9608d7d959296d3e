package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

const (
	windowSize = 200             // operations that porcupine gets at a time
	patience   = 5 * time.Second // that it gets for a window
)

// linearizable asks porcupine. If it gives up, nothing is known.
func (l *lock) linearizable(m porcupine.Model, ops []porcupine.Operation) bool {
	switch porcupine.CheckOperationsTimeout(m, ops, patience) {
	case porcupine.Illegal:
		return false
	case porcupine.Unknown:
		l.undecided++
	}
	return true
}

// event is what happens to a lock at one moment of an operation.
type event struct {
	hold *hold
	got  bool // by an Acquire or Attach; otherwise the hold is seen to last
	rank int  // of a fence in the window, when fences have to rise; otherwise -1
}

// holderState is the state of a lock. Who gets the lock excludes all others until the last that is known of him has been seen. That
// is no more than that he has it then, but whoever else got the lock in between would be found out only then. It
// has writers alone, see within.
type holderState struct {
	lease string
	owes  int // what of the holder is still to be seen
	fence int // the rank of the next fence
}

// holderModel has no end of a hold: a lock may expire, or be released, at any moment after its holder was seen to have it.
var holderModel = porcupine.Model{
	Init: func() any { return holderState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, e := state.(holderState), input.(event)
		switch {
		case !e.got:
			s.owes--
			return s.lease == e.hold.lease, s
		case s.owes > 0 && s.lease != e.hold.lease, e.rank >= 0 && e.rank != s.fence:
			return false, s
		case e.rank >= 0:
			s.fence++
		}
		if s.lease != e.hold.lease {
			s.owes = 0
		}
		s.lease = e.hold.lease
		s.owes += len(e.hold.shows()) - 1
		return true, s
	},
}

// holders looks for an order in which the holders can have had the lock. Nobody has to get it so that another can, so each part of a
// history is legal if the history is. So windows may begin and end anywhere; they overlap, as neighbours are compared.
func (l *lock) holders() {
	const holds = windowSize / 2
	writers := slices.DeleteFunc(slices.Clone(l.holds), func(a *hold) bool { return a.op.Shares() })
	for from := 0; from < len(writers); from += holds / 2 {
		window := writers[from:min(from+holds, len(writers))]
		if l.legal(window) {
			continue
		}
		v := l.report(NoOrder, operations(window), "of %d holds", len(window))
		v.reduce = func() []*history.Op {
			return operations(smaller(window, func(w []*hold) bool { return !l.legal(w) }))
		}
	}
}

// within finds locks that were got to be shared while somebody had the lock alone, and the other way round, or who shares it in another way. Porcupine is not asked:
// there are too many orders in which those who share may have come and gone, and all of them are the same to the others.
func (l *lock) within() {
	for _, a := range l.holds {
		for _, b := range l.holds {
			if b.op.End > a.op.Start { // and so do those that follow
				break
			}
			if shared(a.op) != shared(b.op) && b.until() > a.op.End {
				l.report(NoOrder, operations([]*hold{b, a}), "%s got the lock while %s had it", a.op.Hold, b.op.Hold)
			}
		}
	}
}

// legal reports whether there is such an order of these holds.
func (l *lock) legal(holds []*hold) bool {
	var fences []uint64
	for _, a := range holds {
		if l.ranked(a) {
			fences = append(fences, a.op.Fence)
		}
	}
	slices.Sort(fences)
	var ops []porcupine.Operation
	for _, a := range holds {
		rank := -1
		if l.ranked(a) {
			rank, _ = slices.BinarySearch(fences, a.op.Fence)
		}
		ops = append(ops, porcupine.Operation{Input: event{a, true, rank}, Call: a.op.Start, Return: a.op.End})
		if a.proven > 0 {
			ops = append(ops, porcupine.Operation{Input: event{hold: a}, Call: a.proven, Return: a.proven})
		}
		if a.said > 0 {
			ops = append(ops, porcupine.Operation{Input: event{hold: a}, Call: a.unlock.Start, Return: a.unlock.End})
		}
	}
	return l.linearizable(holderModel, ops)
}

// ranked reports whether the lock was got with a fence above those of all who had got it before. If keys are deleted by force while a
// round is under way, that holds only for those who had got it before the round began; fences looks at these.
func (l *lock) ranked(a *hold) bool {
	return l.rules.Fenced && len(l.forces) == 0 && a.op.Kind == history.Acquire && a.outer == nil
}

func operations(holds []*hold) (ops []*history.Op) {
	for _, a := range holds {
		ops = append(ops, a.shows()...)
	}
	return ops
}

// reducing is how long smaller may take.
const reducing = 10 * time.Second

// smaller leaves out what can be left out so that it still fails.
func smaller[T any](of []T, fails func([]T) bool) []T {
	begun := time.Now()
	for size := len(of) / 2; size > 0; size /= 2 {
		for i := 0; i < len(of) && time.Since(begun) < reducing; {
			rest := slices.Delete(slices.Clone(of), i, min(i+size, len(of)))
			if len(rest) > 0 && fails(rest) {
				of = rest
			} else {
				i += size
			}
		}
	}
	return of
}

// never is when an operation has returned that may still happen.
const never = math.MaxInt64

func byStart(a, b *history.Op) int { return cmp.Compare(a.Start, b.Start) }
