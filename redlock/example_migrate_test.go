package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// billWhenFree takes the place of a mutex of redsync.
func billWhenFree(ctx context.Context, locker *redlock.Locker) error {
	return locker.Do(ctx, "invoice-42", func(ctx context.Context, _ *redlock.Lock) error {
		return bill(ctx) // ctx ends when the lock is lost
	}, redlock.TTL(8*time.Second), redlock.MaxWait(5*time.Second))
}

// billIfFree takes the place of SET NX PX and a script that compares and deletes.
func billIfFree(ctx context.Context, locker *redlock.Locker) (billed bool, err error) {
	lock, err := locker.TryLock(ctx, "invoice-42", redlock.TTL(30*time.Second))
	if errors.Is(err, redlock.ErrTaken) {
		return false, nil
	}
	if err != nil {
		return false, err // too few servers answered, for example
	}
	work, cancel := lock.Context(ctx) // ends with the lock
	err = bill(work)
	cancel()
	return true, errors.Join(err, lock.Unlock(ctx))
}

func Example_migration() {
	ctx := context.Background()
	servers, urls, stop := startServers(1)
	defer stop()
	locker := openLocker(urls)
	defer locker.Close()

	fmt.Println(billWhenFree(ctx, locker))
	fmt.Println(billIfFree(ctx, locker))
	if err := servers[0].Set("invoice-42", "the value of an old client"); err != nil {
		fmt.Println(err)
	}
	servers[0].SetTTL("invoice-42", time.Minute)
	fmt.Println(billIfFree(ctx, locker))

	// Output:
	// billed
	// <nil>
	// billed
	// true <nil>
	// false <nil>
}
