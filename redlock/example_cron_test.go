package redlock_test

import (
	"context"
	"errors"
	"log"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// runTick runs the job of a tick, a planned time, on one of the machines that call runTick for it.
func runTick(ctx context.Context, locker *redlock.Locker, tick time.Time, job func(context.Context) error) error {
	name := "report-" + tick.UTC().Format("2006-01-02T15:04")
	err := locker.TryDo(ctx, name, func(ctx context.Context, lock *redlock.Lock) error {
		err := job(ctx)
		// The lock stays: a machine that is late finds it taken.
		_, lost := lock.Detach(ctx)
		return errors.Join(err, lost)
	}, redlock.TTL(15*time.Minute))
	if errors.Is(err, redlock.ErrTaken) && errors.Is(err, redlock.ErrNotRun) {
		return nil // another machine runs the job, or has run it
	}
	return err
}

// A job that runs on one of many machines, whose clocks differ.
func Example_cron() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()

	tick := time.Now().Round(15 * time.Minute) // also if the timer fires a moment early
	var machines sync.WaitGroup
	for range 4 {
		machines.Go(func() {
			locker := openLocker(urls)
			defer locker.Close()
			if err := runTick(ctx, locker, tick, writeReport); err != nil {
				log.Fatal(err)
			}
		})
	}
	machines.Wait()

	// Output:
	// writing the report
}
