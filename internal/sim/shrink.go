package sim

import (
	"slices"
	"time"
)

// Shrink leaves out of a plan whatever is not needed to break the promise that it
// breaks, and returns the rest. A plan that breaks none is returned as it is.
func Shrink(p Plan) Plan {
	first := Run(p)
	if first == nil {
		return p
	}
	breaks := func(q Plan) bool {
		v := Run(q)
		return v != nil && v.What == first.What
	}
	even := p
	even.Rates, even.Walls = slices.Repeat([]float64{1}, len(p.Rates)), make([]time.Duration, len(p.Walls))
	if breaks(even) {
		p = even
	}
	// A step that has gone may have been what another was there for: once more, until
	// none goes.
	for before := -1; before != len(p.Steps); {
		before = len(p.Steps)
		p.Steps = shrinkSteps(p, breaks)
	}
	return p
}

// shrinkSteps leaves out runs of steps, long ones first.
func shrinkSteps(p Plan, breaks func(Plan) bool) []Step {
	for size := max(1, len(p.Steps)/2); size > 0; size /= 2 {
		for i := 0; i+size <= len(p.Steps); {
			q := p
			q.Steps = slices.Delete(slices.Clone(p.Steps), i, i+size)
			if breaks(q) {
				p = q
			} else {
				i += size
			}
		}
	}
	return p.Steps
}
