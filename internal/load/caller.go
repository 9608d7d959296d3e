package load

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// afterFailure is how long a caller of a closed loop pauses when it was refused: nodes
// that refuse at once would otherwise be asked in an endless rush.
const afterFailure = 5 * time.Millisecond

// caller goes through one cycle after the other, and keeps a record of its own: nothing
// is shared while it measures, and nothing allocated but for the first failure of a kind.
type caller struct {
	name     string
	take     func(context.Context, string) (Held, error)
	timed    bool // cycles are due at fixed instants
	start    time.Time
	failures map[failure]*Failure

	acquire, release, cycle *histogram // from when the cycle was due
	service                 *histogram // of the acquire, from when it began
	late                    *histogram // from when the cycle was due to when it began
	refusal                 *histogram // of acquires that failed, from when the cycle was due
	done, failed            series
}

func newCaller(plan Plan, name string, length time.Duration) *caller {
	c := &caller{
		name: name, take: plan.Take, timed: plan.Rate > 0,
		failures: map[failure]*Failure{},
		acquire:  newHistogram(), release: newHistogram(), cycle: newHistogram(), refusal: newHistogram(),
		done: newSeries(length), failed: newSeries(length),
	}
	if c.timed {
		c.service, c.late = newHistogram(), newHistogram()
	}
	return c
}

// work goes on until the schedule ends or ctx does. What Take gets is bounded, which
// also ends with the measurement where Take waits.
func (c *caller) work(ctx, bounded context.Context, s *schedule) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	c.start = s.start
	for {
		due, ok := s.next(ctx, timer)
		if !ok {
			return
		}
		if !c.once(bounded, due) && !c.timed && !rest(ctx, timer, afterFailure) {
			return
		}
	}
}

// once goes through one cycle, and reports whether nothing failed.
func (c *caller) once(ctx context.Context, due time.Time) bool {
	begun := time.Now()
	if c.timed {
		c.late.record(begun.Sub(due))
	} else {
		due = begun
	}
	held, err := c.take(ctx, c.name)
	taken := time.Now()
	if err != nil {
		switch {
		case ctx.Err() == nil:
			c.refusal.record(taken.Sub(due))
			c.fail("acquire", err, taken)
		case errors.Is(context.Cause(ctx), errOver):
			c.note(failure{"acquire", Unfinished}, err)
		}
		return false
	}
	c.acquire.record(taken.Sub(due))
	if c.timed {
		c.service.record(taken.Sub(begun))
	}
	if err := held.Unlock(context.Background()); err != nil {
		c.fail("release", err, time.Now())
		return false
	}
	released := time.Now()
	c.release.record(released.Sub(taken))
	c.cycle.record(released.Sub(due))
	c.done.add(released.Sub(c.start))
	return true
}

// Unfinished is the kind of an acquire that was cut off by the end of the measurement.
const Unfinished = "unfinished"

// The other kinds of failures.
const (
	kindTaken    = "taken"
	kindNoQuorum = "no_quorum"
	kindNotHeld  = "not_held"
	kindOther    = "other"
)

// failure is what failed, and of which kind that was.
type failure struct{ op, kind string }

func (c *caller) fail(op string, err error, at time.Time) {
	c.failed.add(at.Sub(c.start))
	kind := kindOther
	switch {
	case errors.Is(err, redlock.ErrTaken):
		kind = kindTaken
	case errors.Is(err, redlock.ErrNoQuorum):
		kind = kindNoQuorum
	case errors.Is(err, redlock.ErrNotHeld):
		kind = kindNotHeld
	}
	c.note(failure{op, kind}, err)
}

// note counts a failure, and keeps the words of the first of its kind.
func (c *caller) note(what failure, err error) {
	seen := c.failures[what]
	if seen == nil {
		seen = &Failure{Op: what.op, Kind: what.kind, Example: err.Error()}
		c.failures[what] = seen
	}
	seen.Count++
}
