package load

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// schedule says when cycles begin. It is shared by all callers of a phase.
type schedule struct {
	start, end time.Time
	rate       float64 // cycles per second; 0: a cycle is due whenever a caller is free
	taken      atomic.Int64
}

func (s *schedule) begin(now time.Time, length time.Duration, rate float64) {
	s.start, s.end, s.rate = now, now.Add(length), rate
}

// due is the instant of cycle i, from 0. It is computed from the start, so that rounding
// does not add up.
func (s *schedule) due(i int64) time.Time {
	return s.start.Add(time.Duration(float64(i) / s.rate * float64(time.Second)))
}

// cycles returns how many cycles were due until a time after the start.
func (s *schedule) cycles(elapsed time.Duration) int64 {
	return int64(math.Ceil(elapsed.Seconds() * s.rate))
}

// next waits until a cycle is due for the caller that asks, and returns when that was:
// long ago where all callers were busy. false: there is none any more.
func (s *schedule) next(ctx context.Context, timer *time.Timer) (due time.Time, ok bool) {
	now := time.Now()
	if !now.Before(s.end) || ctx.Err() != nil {
		return now, false
	}
	if s.rate == 0 {
		return now, true
	}
	due = s.due(s.taken.Add(1) - 1)
	if !due.Before(s.end) {
		return due, false
	}
	return due, rest(ctx, timer, due.Sub(now))
}

// begun returns for how many of the cycles that were due there was a caller.
func (s *schedule) begun(elapsed time.Duration) int64 {
	return min(s.taken.Load(), s.cycles(elapsed))
}

// rest waits on a timer that the caller keeps. false: ctx has ended.
func rest(ctx context.Context, timer *time.Timer, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer.Reset(d)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		timer.Stop()
		return false
	}
}
