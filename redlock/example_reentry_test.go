package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock/redlock"
)

// transfer locks for itself, also if its caller holds the lock of the account.
func transfer(ctx context.Context, locker *redlock.Locker, account string) error {
	return locker.Do(ctx, account, func(ctx context.Context, _ *redlock.Lock) error {
		fmt.Println("transfer from", account)
		return ctx.Err()
	}, redlock.Reentrant())
}

func ExampleReentrant() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	err := locker.Do(ctx, "account-7", func(ctx context.Context, lock *redlock.Lock) error {
		if err := transfer(ctx, locker, "account-7"); err != nil { // ctx says who holds the lock
			return err
		}
		fmt.Println("still held:", lock.Err() == nil)
		_, err := locker.TryLock(ctx, "account-7") // without Reentrant it would wait for itself
		fmt.Println("by mistake:", errors.Is(err, redlock.ErrDeadlock))
		return nil
	})
	fmt.Println(err)

	// Output:
	// transfer from account-7
	// still held: true
	// by mistake: true
	// <nil>
}

// lockFor takes the lock of an account for an order, also if another call has it for the same order.
func lockFor(ctx context.Context, locker *redlock.Locker, account, order string) (*redlock.Lock, error) {
	return locker.TryLock(ctx, account, redlock.Owner(order), redlock.Reentrant())
}

func ExampleOwner() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	// Both calls are for the order 17, and no context leads from one to the other.
	first, err := lockFor(ctx, locker, "account-7", "order-17")
	if err != nil {
		log.Fatal(err)
	}
	second, err := lockFor(ctx, locker, "account-7", "order-17")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("one lock, two handles:", first.Token() == second.Token())
	_, err = lockFor(ctx, locker, "account-7", "order-18")
	fmt.Println("another owner:", errors.Is(err, redlock.ErrTaken))

	fmt.Println("first:", first.Unlock(ctx), "- the lock is held:", second.Err() == nil)
	fmt.Println("second:", second.Unlock(ctx), "- the lock is free")

	// Output:
	// one lock, two handles: true
	// another owner: true
	// first: <nil> - the lock is held: true
	// second: <nil> - the lock is free
}
