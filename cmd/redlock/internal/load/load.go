// Package load drives a lock with many callers and measures how long it takes: in a closed
// loop, as fast as the callers go, or on a schedule that does not wait for the lock.
//
// On a schedule every latency counts from the instant at which its cycle was due. A lock that
// stalls is then charged with all the cycles that had to wait, and not only with those that
// were under way (coordinated omission).
package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/redlock"
)

// Held is a lock that is held.
type Held interface {
	Unlock(ctx context.Context) error
}

// Plan defines what is measured, and how.
type Plan struct {
	// Take acquires a lock. One cycle is a Take and the Unlock of what it returned.
	Take func(ctx context.Context, name string) (Held, error)
	// Names[i] is the name of the lock that caller i takes.
	Names []string
	// Waits means that Take blocks while another holds the lock. Its ctx then ends with the
	// measurement.
	Waits bool

	Rate     float64       // cycles that are due per second; 0 means as many as the callers make
	WarmUp   time.Duration // before the measurement
	Duration time.Duration // of the measurement

	// Votes, if not nil, is the Observer of the Locker behind Take. It counts from the end of
	// the warm-up on.
	Votes *Votes
	// Ready, if not nil, is called between the warm-up and the measurement.
	Ready func() error
	// Over, if not nil, is called after the measurement, before Votes are read.
	Over func()
}

// Run carries out a plan. Every lock that was taken has been unlocked when Run returns.
//
// If ctx ends during the measurement, Run returns what was measured until then with ctx.Err().
// The result of any other error is nil.
func Run(ctx context.Context, plan Plan) (*benchreport.Result, error) {
	if plan.WarmUp > 0 {
		newPhase(plan, plan.WarmUp).run(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if plan.Ready != nil {
		if err := plan.Ready(); err != nil {
			return nil, err
		}
	}
	if plan.Votes != nil {
		plan.Votes.begin()
	}
	measured := newPhase(plan, plan.Duration)
	elapsed := measured.run(ctx)
	if plan.Over != nil {
		plan.Over()
	}
	return newResult(measured, elapsed), ctx.Err()
}

// afterFailure is how long a caller of a closed loop pauses after a failure. Without it, nodes
// that refuse at once would be asked in an endless rush.
const afterFailure = 5 * time.Millisecond

// parts is how many equal parts of a phase the throughput is counted in.
const parts = 50

// errPhaseOver is the reason why a Take that waits ends with its phase.
var errPhaseOver = errors.New("the phase is over")

// phase is the warm-up or the measurement. Its callers share one schedule and one record.
type phase struct {
	Plan
	length     time.Duration
	start, end time.Time
	begun      atomic.Int64 // cycles that a caller was assigned

	mu           sync.Mutex
	latencies    map[string]*hdrhistogram.Histogram // by the names of a [benchreport.Latency]
	failures     map[[2]string]*benchreport.Failure // by operation and kind
	done, failed [parts]int64
}

func newPhase(plan Plan, length time.Duration) *phase {
	p := &phase{
		Plan: plan, length: length,
		latencies: map[string]*hdrhistogram.Histogram{}, failures: map[[2]string]*benchreport.Failure{},
	}
	for _, name := range latencyNames {
		p.latencies[name] = newHistogram()
	}
	return p
}

// run returns how long the phase was, after every caller has ended.
func (p *phase) run(ctx context.Context) time.Duration {
	p.start = time.Now()
	p.end = p.start.Add(p.length)
	takeCtx := ctx
	if p.Waits {
		var cancel context.CancelFunc
		takeCtx, cancel = context.WithDeadlineCause(ctx, p.end, errPhaseOver)
		defer cancel()
	}
	var working sync.WaitGroup
	for _, name := range p.Names {
		working.Go(func() {
			for {
				due, ok := p.next(ctx)
				if !ok {
					return
				}
				if !p.cycle(takeCtx, name, due) && p.Rate == 0 {
					pause(ctx, time.Now().Add(afterFailure))
				}
			}
		})
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
	if due.Before(p.end) && p.Rate > 0 {
		// Computed from the start, so that rounding does not add up.
		i := p.begun.Add(1) - 1
		due = p.start.Add(time.Duration(float64(i) / p.Rate * float64(time.Second)))
		if due.Before(p.end) {
			pause(ctx, due)
		}
	}
	return due, due.Before(p.end) && ctx.Err() == nil
}

// pause waits until an instant or the end of ctx.
func pause(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	<-ctx.Done()
}

// cycle acquires and releases, and reports whether both succeeded.
func (p *phase) cycle(ctx context.Context, name string, due time.Time) bool {
	begun := time.Now()
	timed := p.Rate > 0
	if !timed {
		due = begun
	}
	held, err := p.Take(ctx, name)
	acquired := time.Now()
	if timed {
		p.record(benchreport.Queueing, begun.Sub(due))
	}
	if err != nil {
		switch {
		case ctx.Err() == nil:
			p.record(benchreport.Refusal, acquired.Sub(due))
			p.fail(benchreport.Acquire, kindOf(err), err)
		case errors.Is(context.Cause(ctx), errPhaseOver):
			p.fail(benchreport.Acquire, benchreport.Unfinished, err)
		}
		return false
	}
	p.record(benchreport.Acquire, acquired.Sub(due))
	if timed {
		p.record(benchreport.Service, acquired.Sub(begun))
	}
	if err := held.Unlock(context.Background()); err != nil {
		p.fail(benchreport.Release, kindOf(err), err)
		return false
	}
	released := time.Now()
	p.record(benchreport.Release, released.Sub(acquired))
	p.record(benchreport.Cycle, released.Sub(due))
	p.count(&p.done)
	return true
}

func (p *phase) record(what string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	record(p.latencies[what], d)
}

// count counts an event by its time, unless the phase has ended.
func (p *phase) count(events *[parts]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := int(time.Since(p.start) * parts / p.length); i < parts {
		events[i]++
	}
}

func kindOf(err error) string {
	switch {
	case errors.Is(err, redlock.ErrTaken):
		return "taken"
	case errors.Is(err, redlock.ErrNoQuorum):
		return "no_quorum"
	case errors.Is(err, redlock.ErrNotHeld):
		return "not_held"
	}
	return "other"
}

// fail counts a failure, and keeps the text of the first one of its group.
func (p *phase) fail(op, kind string, err error) {
	p.count(&p.failed)
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]string{op, kind}
	if p.failures[key] == nil {
		p.failures[key] = &benchreport.Failure{Op: op, Kind: kind, Example: err.Error()}
	}
	p.failures[key].Count++
}
