// Package contention lets waiters of one process or of several want the same locks, and measures how long each waits.
package contention

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
)

const (
	// firstHold is how long the lock is held in the warm-up. What is measured gives it back at once, which leaves two
	// holders next to no time to meet in the Guard.
	firstHold = time.Millisecond
	// patience is how long a warm-up may take, and after Stop those that still wait.
	patience = 30 * time.Second
)

// Crew is the waiters of one process. Its methods are for one goroutine.
type Crew struct {
	waiters []*waiter
	running sync.WaitGroup
	over    atomic.Bool
	begin   time.Time
	cancel  context.CancelFunc // of what Start has begun
}

// NewCrew makes n waiters for the locks of some names, each for one of them in turn. Where Guards are shared, the waiters'
// numbers must differ from those of other crews: they are counted from first, which is 1 or more. The names are dealt out by
// these numbers, so that crews go on where others have ended.
func NewCrew(client subject.Client, names []string, n int, guard *Guard, first uint64) (*Crew, error) {
	c := &Crew{}
	for i := range n {
		number := first + uint64(i)
		lock := int((number - 1) % uint64(len(names)))
		caller := client.Caller(names[lock])
		waits, ok := caller.(subject.Waiter)
		if !ok {
			return nil, fmt.Errorf("contention: %T cannot wait for a lock", caller)
		}
		c.waiters = append(c.waiters, &waiter{caller: waits, guard: guard, lock: lock, number: number})
	}
	return c, nil
}

// WarmUp has every waiter take its lock once.
func (c *Crew) WarmUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, w := range c.waiters {
		c.running.Go(func() { w.failure = w.once(ctx, firstHold) })
	}
	return c.wait()
}

// Start lets the waiters take their locks and give them back, again and again, until Stop.
func (c *Crew) Start(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(ctx)
	c.over.Store(false)
	for _, w := range c.waiters {
		w.record = newRecord()
	}
	c.begin = time.Now()
	for _, w := range c.waiters {
		c.running.Go(func() { w.work(ctx, &c.over) })
	}
}

// Stop returns what the waiters have recorded when none of them wants a lock any more. Those that still wait for one
// go on until they have it: the longest waits would be missing otherwise. Two holders at once, and anything else that
// failed, are an error, and there is no result.
func (c *Crew) Stop() (*Shift, error) {
	c.over.Store(true)
	shift := &Shift{Elapsed: time.Since(c.begin)}
	late := time.AfterFunc(patience, c.cancel)
	defer late.Stop()
	defer c.cancel()
	if err := c.wait(); err != nil {
		return nil, err
	}
	for _, w := range c.waiters {
		shift.Waiters = append(shift.Waiters, w.record)
	}
	return shift, nil
}

func (c *Crew) wait() error {
	c.running.Wait()
	var all []error
	for _, w := range c.waiters {
		all = append(all, w.failure)
	}
	return errors.Join(all...)
}

// waiter is one goroutine that wants a lock.
type waiter struct {
	caller  subject.Waiter
	guard   *Guard
	lock    int // its place among those of the guard
	number  uint64
	record  *Record
	failure error
}

// work goes on until the time is over, or something fails: then it is over for all.
func (w *waiter) work(ctx context.Context, over *atomic.Bool) {
	for !over.Load() {
		begin := time.Now()
		err := w.caller.Wait(ctx)
		waited := time.Since(begin)
		if err == nil {
			w.record.add(waited, !over.Load())
			err = w.hold(ctx, 0)
		}
		if err != nil {
			w.failure = fmt.Errorf("contention: waiter %d after %s: %w", w.number, waited.Round(time.Millisecond), err)
			over.Store(true)
		}
	}
}

func (w *waiter) once(ctx context.Context, hold time.Duration) error {
	if err := w.caller.Wait(ctx); err != nil {
		return fmt.Errorf("contention: waiter %d in the warm-up: %w", w.number, err)
	}
	return w.hold(ctx, hold)
}

// hold gives back the lock in any case.
func (w *waiter) hold(ctx context.Context, d time.Duration) error {
	failure := w.guard.enter(w.lock, w.number)
	if d > 0 {
		<-time.After(d)
	}
	if failure == nil {
		failure = w.guard.leave(w.lock, w.number)
	}
	return errors.Join(failure, w.caller.Release(ctx))
}
