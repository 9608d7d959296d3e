package sim

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Found is a seed whose plan breaks a promise.
type Found struct {
	Seed  uint64
	Tried uint64 // how many seeds were tried until then, this one included
	What  string // the promise
	How   string
	Trace []string // of the plan, shrunk
}

// Search runs the plans of n seeds, from first on, on all processors. It returns the
// lowest seed that breaks a promise, or nil; with ctx it ends early, and tried is how
// many plans have been run.
func Search(ctx context.Context, first, n uint64) (found *Found, tried uint64) {
	var next, done atomic.Uint64
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= n {
					return
				}
				v := Run(NewPlan(first + i))
				done.Add(1)
				if v == nil {
					continue
				}
				mu.Lock()
				if found == nil || first+i < found.Seed {
					found = &Found{Seed: first + i, Tried: i + 1, What: v.What, How: v.How}
				}
				mu.Unlock()
				next.Store(n) // those under way are lower
				return
			}
		})
	}
	workers.Wait()
	if found != nil {
		found.Trace = Trace(Shrink(NewPlan(found.Seed)))
	}
	return found, done.Load()
}
