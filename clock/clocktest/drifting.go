package clocktest

import (
	"fmt"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// drifting is a Fake seen through a clock that runs at rate.
type drifting struct {
	fake  *Fake
	since time.Duration // true time at which the view was made and agreed with fake
	rate  float64
}

// Drifting returns a view of f through a clock that runs at rate: 1.01 is one percent fast, 1 is exact. It agrees with f
// now and drifts apart as f advances. Its readings and timers are in its own time, so that a timer of 1010ms on a clock
// at 1.01 is due after Advance(time.Second); durations are exact to a nanosecond of f up to about 100 days. Its timers
// are pending on f. It panics unless rate is from 0.01 to 100.
func (f *Fake) Drifting(rate float64) clock.Clock {
	if !(rate >= 0.01 && rate <= 100) { // so that NaN fails too
		panic(fmt.Sprintf("clocktest: a clock cannot run at a rate of %v", rate))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return drifting{fake: f, since: f.now, rate: rate}
}

func (c drifting) Now() time.Time {
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	return epoch.Add(add(c.since, c.ownLocked()))
}

func (c drifting) AfterFunc(d time.Duration, fn func()) clock.Timer {
	t := &timer{clock: c, run: fn}
	t.Reset(d)
	return t
}

// ownLocked returns how much time has gone by on c since it was made.
func (c drifting) ownLocked() time.Duration { return scale(c.fake.now-c.since, c.rate) }

// dueLocked returns the true time, since epoch, at which d more will have gone by on c: never earlier, so that
// a function that looks at Now finds its time gone by.
func (c drifting) dueLocked(d time.Duration) time.Duration {
	if d <= 0 {
		return c.fake.now
	}
	own := add(c.ownLocked(), d)
	t := scale(own, 1/c.rate)
	for t < forever && scale(t, c.rate) < own { // undoes what rounding took away
		t++
	}
	return add(c.since, t)
}

// scale returns d * rate, to the nearest nanosecond, or forever if that is less. d is not negative.
func scale(d time.Duration, rate float64) time.Duration {
	more := math.Round(float64(d) * (rate - 1)) // exact for a rate of 1, however large d is
	if float64(d)+more >= float64(forever) {
		return forever
	}
	return d + time.Duration(more)
}
