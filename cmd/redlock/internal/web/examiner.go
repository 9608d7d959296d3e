package web

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
)

// examiner has the doctor examine the nodes: when somebody looks at the page first, on demand, and now and then.
type examiner struct {
	examine func(context.Context) (*doctor.Report, error)
	every   time.Duration // 0 means only first and on demand

	mu      sync.Mutex
	running bool
	last    examination
	working sync.WaitGroup
}

// examination is what the doctor has found last.
type examination struct {
	Running bool
	At      time.Time // zero before the first has ended
	Report  *doctor.Report
	Err     error
}

// visit begins an examination if it is time for one, or if it is demanded.
func (e *examiner) visit(ctx context.Context, demanded bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.last.At.IsZero()
	due := e.every > 0 && time.Since(e.last.At) >= e.every
	if e.running || ctx.Err() != nil || !first && !due && !demanded {
		return
	}
	e.running = true
	e.working.Go(func() {
		report, err := e.examine(ctx)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.running, e.last = false, examination{At: time.Now(), Report: report, Err: err}
	})
}

// result returns what was found last.
func (e *examiner) result() examination {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.last
	last.Running = e.running
	return last
}
