package load

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// errPhaseOver is the reason why a Take that waits ends with its phase.
var errPhaseOver = errors.New("the phase is over")

// phase is the warm-up or the measurement. Its callers share one schedule.
type phase struct {
	plan       Plan
	length     time.Duration
	start, end time.Time
	begun      atomic.Int64 // cycles that a caller was assigned
	callers    []*caller
}

func newPhase(plan Plan, length time.Duration) *phase {
	p := &phase{plan: plan, length: length}
	for _, name := range plan.Names {
		p.callers = append(p.callers, newCaller(p, name))
	}
	return p
}

// run returns how long the phase was, after every caller has ended.
func (p *phase) run(ctx context.Context) time.Duration {
	p.start = time.Now()
	p.end = p.start.Add(p.length)
	takeCtx := ctx
	if p.plan.Waits {
		var cancel context.CancelFunc
		takeCtx, cancel = context.WithDeadlineCause(ctx, p.end, errPhaseOver)
		defer cancel()
	}
	var working sync.WaitGroup
	for _, c := range p.callers {
		working.Go(func() { c.work(ctx, takeCtx) })
	}
	working.Wait()
	if ctx.Err() != nil {
		return min(p.length, time.Since(p.start))
	}
	return p.length
}

// next waits until a cycle is due for the caller that asks, and returns the instant at which
// it was due: long ago if all callers were busy. It returns false after the end.
func (p *phase) next(ctx context.Context) (due time.Time, ok bool) {
	due = time.Now()
	if due.Before(p.end) && p.plan.Rate > 0 {
		// Computed from the start, so that rounding does not add up.
		i := p.begun.Add(1) - 1
		due = p.start.Add(time.Duration(float64(i) / p.plan.Rate * float64(time.Second)))
		if due.Before(p.end) {
			pause(ctx, due)
		}
	}
	return due, due.Before(p.end) && ctx.Err() == nil
}

// notBegun returns how many cycles were due within elapsed and found no free caller.
func (p *phase) notBegun(elapsed time.Duration) int64 {
	due := int64(math.Ceil(elapsed.Seconds() * p.plan.Rate))
	return max(0, due-p.begun.Load())
}

// pause waits until an instant or the end of ctx.
func pause(ctx context.Context, until time.Time) {
	if !until.After(time.Now()) {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	<-ctx.Done()
}
