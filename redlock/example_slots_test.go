package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// export runs in three processes at the most.
func export(ctx context.Context, locker *redlock.Locker, work func(context.Context) error) error {
	return locker.Do(ctx, "export", func(ctx context.Context, _ *redlock.Lock) error {
		return work(ctx)
	}, redlock.Slots(3))
}

// At most three of ten exports run at once.
func Example_slots() {
	locker, stop := startLocker(redlock.WithKeyPrefix("lock:"))
	defer stop()

	var running, most atomic.Int32
	var exports sync.WaitGroup
	for range 10 {
		exports.Go(func() {
			err := export(context.Background(), locker, func(context.Context) error {
				defer running.Add(-1)
				for n := running.Add(1); n > most.Load(); {
					most.Store(n)
				}
				<-time.After(time.Millisecond)
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	exports.Wait()
	fmt.Println(most.Load() <= 3)

	// Output:
	// true
}
