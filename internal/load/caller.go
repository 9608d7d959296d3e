package load

import (
	"context"
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorumlock/quorumlock/redlock"
)

// afterFailure is how long a caller of a closed loop pauses after a failure. Without it, nodes
// that refuse at once would be asked in an endless rush.
const afterFailure = 5 * time.Millisecond

// caller runs one cycle after the other. Its records are its own: nothing is shared while it
// measures.
type caller struct {
	phase     *phase
	name      string
	latencies map[string]*hdrhistogram.Histogram // by the names of a [Latency]
	failures  map[failureKey]*Failure

	done, failed series
}

func newCaller(p *phase, name string) *caller {
	return &caller{
		phase: p, name: name,
		latencies: map[string]*hdrhistogram.Histogram{}, failures: map[failureKey]*Failure{},
	}
}

// work runs cycles until the phase or ctx ends. takeCtx is the context of each Take.
func (c *caller) work(ctx, takeCtx context.Context) {
	for {
		due, ok := c.phase.next(ctx)
		if !ok {
			return
		}
		if !c.cycle(takeCtx, due) && c.phase.plan.Rate == 0 {
			pause(ctx, time.Now().Add(afterFailure))
		}
	}
}

// cycle acquires and releases, and reports whether both succeeded.
func (c *caller) cycle(ctx context.Context, due time.Time) bool {
	begun := time.Now()
	timed := c.phase.plan.Rate > 0
	if !timed {
		due = begun
	}
	held, err := c.phase.plan.Take(ctx, c.name)
	acquired := time.Now()
	if timed {
		c.record(Queueing, begun.Sub(due))
	}
	if err != nil {
		switch {
		case ctx.Err() == nil:
			c.record(Refusal, acquired.Sub(due))
			c.fail(string(redlock.OpAcquire), kindOf(err), err)
		case errors.Is(context.Cause(ctx), errPhaseOver):
			c.fail(string(redlock.OpAcquire), Unfinished, err)
		}
		return false
	}
	c.record(Acquire, acquired.Sub(due))
	if timed {
		c.record(Service, acquired.Sub(begun))
	}
	if err := held.Unlock(context.Background()); err != nil {
		c.fail("release", kindOf(err), err)
		return false
	}
	released := time.Now()
	c.record(Release, released.Sub(acquired))
	c.record(Cycle, released.Sub(due))
	c.done.add(released.Sub(c.phase.start), c.phase.length)
	return true
}

func (c *caller) record(what string, d time.Duration) {
	if c.latencies[what] == nil {
		c.latencies[what] = newHistogram()
	}
	record(c.latencies[what], d)
}

// Unfinished is the kind of an acquire that the end of the measurement cut off.
const Unfinished = "unfinished"

// failureKey groups failures: what failed, and of which kind the failure was.
type failureKey struct{ op, kind string }

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
func (c *caller) fail(op, kind string, err error) {
	c.failed.add(time.Since(c.phase.start), c.phase.length)
	key := failureKey{op, kind}
	if c.failures[key] == nil {
		c.failures[key] = &Failure{Op: op, Kind: kind, Example: err.Error()}
	}
	c.failures[key].Count++
}
