// Package load drives a lock with many callers and measures how long it takes: closed
// loop, as fast as the callers go, or on a schedule that does not wait for the lock.
//
// On a schedule every latency counts from the instant at which its cycle was due. A
// lock that stalls is then charged with all the cycles that had to wait, and not only with
// those that were under way (coordinated omission).
package load

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Held is a lock that is held.
type Held interface {
	Unlock(ctx context.Context) error
}

// Plan says what is measured, and how.
type Plan struct {
	// Take acquires a lock: one cycle is a Take and the Unlock of what it returned.
	Take func(ctx context.Context, name string) (Held, error)
	// Names[i] is the name of the lock that caller i takes.
	Names []string
	// Waits says that Take waits for a holder. It is cut off when the time is over.
	Waits bool

	Rate     float64       // cycles per second that are due; 0: as many as the callers make
	WarmUp   time.Duration // before the measurement
	Duration time.Duration // of the measurement

	// Votes is the Observer of the Locker behind Take, which counts from the end of the
	// warm-up on.
	Votes *Votes
	// Ready is called between the warm-up and the measurement, if it is not nil.
	Ready func(ctx context.Context) error
}

// Run carries out a plan. Every lock that was taken has been unlocked when it returns.
//
// If ctx ends during the measurement, the error is ctx.Err() and the result is what was
// measured until then; with any other error there is none.
func Run(ctx context.Context, plan Plan) (*Result, error) {
	if plan.WarmUp > 0 {
		warm := newPhase(plan, plan.WarmUp)
		warm.run(ctx, plan)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if plan.Ready != nil {
		if err := plan.Ready(ctx); err != nil {
			return nil, err
		}
	}
	measured := newPhase(plan, plan.Duration)
	plan.Votes.begin()
	elapsed := measured.run(ctx, plan)
	return newResult(plan, measured, elapsed), ctx.Err()
}

// phase is a stretch of time in which the callers are at work.
type phase struct {
	length  time.Duration
	clock   schedule
	callers []*caller
}

func newPhase(plan Plan, length time.Duration) *phase {
	p := &phase{length: length, callers: make([]*caller, len(plan.Names))}
	for i, name := range plan.Names {
		p.callers[i] = newCaller(plan, name, length)
	}
	return p
}

// run returns when every caller is done, and how long the phase was.
func (p *phase) run(ctx context.Context, plan Plan) time.Duration {
	p.clock.begin(time.Now(), p.length, plan.Rate)
	bounded := ctx
	if plan.Waits {
		var cancel context.CancelFunc
		bounded, cancel = context.WithDeadlineCause(ctx, p.clock.end, errOver)
		defer cancel()
	}
	var working sync.WaitGroup
	for _, c := range p.callers {
		working.Go(func() { c.work(ctx, bounded, &p.clock) })
	}
	working.Wait()
	if ctx.Err() != nil {
		return min(p.length, time.Since(p.clock.start))
	}
	return p.length
}

// errOver is why a Take that waits ends with its phase.
var errOver = errors.New("the time is over")
