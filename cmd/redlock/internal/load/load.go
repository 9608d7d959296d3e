// Package load drives a lock with many callers and measures how long it takes: in a closed
// loop, as fast as the callers go, or on a schedule that does not wait for the lock.
//
// On a schedule every latency counts from the instant at which its cycle was due. A lock that
// stalls is then charged with all the cycles that had to wait, and not only with those that
// were under way (coordinated omission).
package load

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/benchreport"
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
