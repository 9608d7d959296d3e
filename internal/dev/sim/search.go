package sim

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Search runs the plans of n seeds, from first on, on all processors, until one breaks a promise. It
// returns the lowest seed that does; found is false if none does.
func Search(first, n uint64) (seed uint64, found bool) {
	var next atomic.Uint64
	var mu sync.Mutex
	var workers sync.WaitGroup
	lowest := n
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				if Run(NewPlan(first+i)) != nil {
					mu.Lock()
					lowest = min(lowest, i)
					mu.Unlock()
					next.Store(n) // those under way are lower
				}
			}
		})
	}
	workers.Wait()
	return first + lowest, lowest < n
}

// Shrink leaves out of a plan the steps that are not needed to break the promise that it breaks.
// A plan that breaks none is returned as it is.
func Shrink(p Plan) Plan {
	first := Run(p)
	for i := len(p.Steps) - 1; i >= 0 && first != nil; i-- {
		q := p
		q.Steps = slices.Delete(slices.Clone(p.Steps), i, i+1)
		if v := Run(q); v != nil && v.What == first.What {
			p = q
		}
	}
	return p
}
