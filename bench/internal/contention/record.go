package contention

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Waits are kept from 1 µs to 10 minutes, with an error below 0.1 %.
const (
	shortest = time.Microsecond
	longest  = 10 * time.Minute
	digits   = 3
)

// Record is what one waiter got.
type Record struct {
	Acquired int64 `json:"acquired"` // before the end
	Waits    Waits `json:"waits"`    // those too that the end found under way
}

func newRecord() *Record { return &Record{Waits: newWaits()} }

func (r *Record) add(waited time.Duration, counts bool) {
	_ = r.Waits.RecordValue(int64(min(max(waited, 0), longest))) // fails only for what is out of range
	if counts {
		r.Acquired++
	}
}

// Waits is the distribution of waits.
type Waits struct{ *hdrhistogram.Histogram }

func newWaits() Waits { return Waits{hdrhistogram.New(int64(shortest), int64(longest), digits)} }

// MarshalText returns the text that all HdrHistograms have in common.
func (w Waits) MarshalText() ([]byte, error) {
	return w.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// UnmarshalText reads what MarshalText wrote.
func (w *Waits) UnmarshalText(text []byte) (err error) {
	w.Histogram, err = hdrhistogram.Decode(text)
	return err
}

// At returns the wait at a percentile; 100 is the longest.
func (w Waits) At(percentile float64) time.Duration {
	if percentile == 100 {
		return time.Duration(w.Max())
	}
	return time.Duration(w.ValueAtPercentile(percentile))
}

// Shift is what the waiters of one process got.
type Shift struct {
	Elapsed time.Duration `json:"elapsed_ns"`
	Waiters []*Record     `json:"waiters"`
}

func (s *Shift) acquired() (n int64) {
	for _, w := range s.Waiters {
		n += w.Acquired
	}
	return n
}

// Result is what the waiters of all processes got.
type Result []*Shift

// Rate returns how often the lock was taken per second.
func (r Result) Rate() (rate float64) {
	for _, s := range r {
		rate += float64(s.acquired()) / s.Elapsed.Seconds()
	}
	return rate
}

// Waits returns the waits of all waiters together.
func (r Result) Waits() Waits {
	all := newWaits()
	for _, w := range r.waiters() {
		all.Merge(w.Waits.Histogram)
	}
	return all
}

// Range returns the wait at a percentile for the waiter for which it is the least, and for which it is the most.
func (r Result) Range(percentile float64) (least, most time.Duration) {
	return extremes(r.waiters(), func(w *Record) time.Duration { return w.Waits.At(percentile) })
}

// LuckOfWaiters returns how many times as often as the unluckiest waiter the luckiest got the lock. One that never got
// it counts as if it had once.
func (r Result) LuckOfWaiters() float64 {
	return luck(extremes(r.waiters(), func(w *Record) int64 { return w.Acquired }))
}

// LuckOfProcesses is the same for what the waiters of each process got together.
func (r Result) LuckOfProcesses() float64 { return luck(extremes(r, (*Shift).acquired)) }

func (r Result) waiters() (all []*Record) {
	for _, s := range r {
		all = append(all, s.Waiters...)
	}
	return all
}

func luck(least, most int64) float64 { return float64(max(most, 1)) / float64(max(least, 1)) }

// extremes returns the least and the most of something; there must be one at least.
func extremes[T any, V cmp.Ordered](all []T, of func(T) V) (least, most V) {
	values := make([]V, len(all))
	for i := range all {
		values[i] = of(all[i])
	}
	return slices.Min(values), slices.Max(values)
}
