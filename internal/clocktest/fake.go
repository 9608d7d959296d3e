// Package clocktest provides a clock that stands still until a test moves it.
package clocktest

import (
	"context"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/clock"
)

// forever is the end of a Fake's time: times beyond it are cut to it.
const forever = time.Duration(math.MaxInt64)

// epoch is the first reading of every Fake.
var epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Fake is a clock.Clock whose time goes by only in Advance, AdvanceToNext and Jump. Make it with New.
//
// Its methods are safe for concurrent use, and a function that Advance runs may call all of them. Calls that move the
// clock may overlap, nested or on several goroutines. Then they overlap in time too: each one moves the clock to its
// own start + d, unless the clock is there already.
type Fake struct {
	mu      sync.Mutex
	now     time.Duration // since epoch
	pending []*timer      // by due time, then in the order they were set
	set     chan struct{} // closed and replaced when a timer is set
}

var _ clock.Clock = (*Fake)(nil)

// New returns a clock that reads 2000-01-01 00:00 UTC and has no timers.
func New() *Fake { return &Fake{set: make(chan struct{})} }

// Now returns the current time of f.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return epoch.Add(f.now)
}

// AfterFunc schedules fn: the Advance that reaches d from now runs it. On a real clock, a d that is zero or less means
// at once. Here the next Advance runs fn, Advance(0) included. If a function that an Advance runs sets the timer, that
// Advance runs fn.
func (f *Fake) AfterFunc(d time.Duration, fn func()) clock.Timer {
	t := &timer{fake: f, run: fn}
	t.Reset(d)
	return t
}

// Advance moves f forward by d, from one due timer to the next. It runs the function of each timer to its end on the
// calling goroutine, with Now at the time when the timer was due. Timers that are due at the same time run in the order
// in which they were set. Timers that these functions set run too if they are due within d. No lock is held meanwhile.
// Timers that a Jump made late run first, with Now where the Jump left it. Advance(0) runs the timers that are due
// already. Advance panics if d is negative.
func (f *Fake) Advance(d time.Duration) {
	mustNotBeNegative(d)
	f.mu.Lock()
	end := add(f.now, d)
	for len(f.pending) > 0 && f.pending[0].due <= end {
		t := f.pending[0]
		f.pending = slices.Delete(f.pending, 0, 1)
		f.now = max(f.now, t.due)
		f.mu.Unlock()
		t.run()
		f.mu.Lock()
	}
	f.now = max(f.now, end)
	f.mu.Unlock()
}

// Next returns the time until the earliest pending timer is due, zero if it is late, or false if none is pending.
func (f *Fake) Next() (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pending) == 0 {
		return 0, false
	}
	return max(f.pending[0].due-f.now, 0), true
}

// Pending returns how many timers are due within d.
func (f *Fake) Pending(d time.Duration) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := add(f.now, d)
	return sort.Search(len(f.pending), func(i int) bool { return f.pending[i].due > end })
}

// AdvanceToNext advances f to the earliest pending timer and runs every timer due by then. It returns how far it
// advanced, or false, leaving f where it is, if none is pending.
func (f *Fake) AdvanceToNext() (time.Duration, bool) {
	d, ok := f.Next()
	if ok {
		f.Advance(d)
	}
	return d, ok
}

// Jump moves f forward by d as a suspend does: Now moves, and timers that become due stay pending until the next
// Advance, Advance(0) included. It panics if d is negative.
func (f *Fake) Jump(d time.Duration) {
	mustNotBeNegative(d)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = add(f.now, d)
}

// WaitForTimers blocks until at least n timers are pending, late ones included, and returns nil. If ctx ends first, it
// returns ctx.Err(). It returns nil at once if n timers are pending already, and so it always does for n <= 0.
func (f *Fake) WaitForTimers(ctx context.Context, n int) error {
	for {
		f.mu.Lock()
		pending, set := len(f.pending), f.set
		f.mu.Unlock()
		if pending >= n {
			return nil
		}
		select {
		case <-set:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add returns a + b, which are not negative, or forever if that is less.
func add(a, b time.Duration) time.Duration {
	if b > forever-a {
		return forever
	}
	return a + b
}

func mustNotBeNegative(d time.Duration) {
	if d < 0 {
		panic("clocktest: a clock cannot go back by " + (-d).String())
	}
}
