package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// index does a part of some long work.
func index(ctx context.Context, part int) error {
	fmt.Println("part", part)
	return ctx.Err()
}

// A short TTL, so that the lock of a process that dies is soon free, and renewals for as long as the work takes.
func ExampleRenewFor() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	err := locker.Do(ctx, "search-index", func(ctx context.Context, lock *redlock.Lock) error {
		for part := range 3 {
			if ctx.Err() != nil {
				return context.Cause(ctx) // ErrLost, if the lock is why
			}
			if err := index(ctx, part); err != nil {
				return err
			}
		}
		return nil
	}, redlock.TTL(15*time.Second), redlock.RenewFor(time.Hour))
	fmt.Println(err)

	// Output:
	// part 0
	// part 1
	// part 2
	// <nil>
}

// The function has the last second of the lock's validity to stop its pump. Nobody else has the lock before that is over.
func ExampleGrace() {
	ctx := context.Background()
	servers, urls, stop := startServers(3)
	defer stop()
	locker := openLocker(urls)
	defer locker.Close()
	startPump := func() {
		fmt.Println("pump on")
		servers[0].SetError("LOADING Redis is loading the dataset in memory")
		servers[1].SetError("LOADING Redis is loading the dataset in memory")
	}
	stopPump := func() { fmt.Println("pump off") }

	err := locker.Do(ctx, "pump-7", func(ctx context.Context, lock *redlock.Lock) error {
		startPump()
		<-ctx.Done() // too few servers answer, so that the lock is not renewed
		stopPump()
		return context.Cause(ctx)
	}, redlock.TTL(3*time.Second), redlock.Grace(time.Second))
	fmt.Println(errors.Is(err, redlock.ErrExpired))

	// Output:
	// pump on
	// pump off
	// true
}

// What Do does, for work that does not fit into a function.
func ExampleRenewFor_lock() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	lock, err := locker.Lock(ctx, "search-index", redlock.RenewFor(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	work, cancel := lock.Context(ctx) // ends when the lock does
	err = index(work, 0)
	cancel()
	fmt.Println(errors.Join(err, lock.Unlock(ctx)))

	// Output:
	// part 0
	// <nil>
}

func ExampleLock_Context() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()
	locker := openLocker(urls)
	defer locker.Close()
	operator := openLocker(urls)
	defer operator.Close()

	lock, err := locker.Lock(ctx, "search-index", redlock.TTL(3*time.Second), redlock.RenewFor(redlock.NoLimit))
	if err != nil {
		log.Fatal(err)
	}
	work, cancel := lock.Context(ctx)
	defer cancel()
	if _, err := operator.ForceUnlock(ctx, "search-index"); err != nil { // under its holder
		log.Fatal(err)
	}
	<-work.Done()
	fmt.Println(work.Err(), "-", errors.Is(context.Cause(work), redlock.ErrLost))
	fmt.Println(errors.Is(lock.Unlock(ctx), redlock.ErrLost))

	// Output:
	// context canceled - true
	// true
}

// A worker that takes jobs for as long as it holds the lock.
func ExampleLock_Done() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	lock, err := locker.Lock(ctx, "printer", redlock.TTL(2*time.Second), redlock.RenewFor(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	jobs := make(chan string, 1)
	jobs <- "page 1"
	for lock.Err() == nil {
		select {
		case job := <-jobs:
			fmt.Println("printing", job)
		case <-lock.Done(): // also if every server hangs
			fmt.Println("stopped:", errors.Is(lock.Err(), redlock.ErrExpired), lock.Remaining())
		}
	}

	// Output:
	// printing page 1
	// stopped: true 0s
}

func ExampleLock_Extend() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	lock, err := locker.TryLock(ctx, "migration", redlock.TTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	// Ask for more time when the work takes longer; the TTL counts from the call.
	if err := lock.Extend(ctx, time.Minute); err != nil {
		log.Fatal(err) // the old deadline stands
	}
	fmt.Println("more than 10 s left:", lock.Remaining() > 10*time.Second)
	if err := lock.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("afterwards:", lock.Err())

	// Output:
	// more than 10 s left: true
	// afterwards: redlock: "migration": lock is released
}
