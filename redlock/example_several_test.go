package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// move holds the locks of both accounts.
func move(ctx context.Context, locker *redlock.Locker, from, to string,
	transfer func(context.Context) error,
) error {
	return locker.DoAll(ctx, []string{from, to}, func(ctx context.Context, _ *redlock.Locks) error {
		return transfer(ctx) // ctx ends when either lock is lost
	}, redlock.MaxWait(5*time.Second))
}

// Transfers in both directions at once do not wait for each other for ever.
func Example_severalLocks() {
	ctx := context.Background()
	locker, stop := startLocker(redlock.WithKeyPrefix("lock:"))
	defer stop()

	balance := map[string]int{"account-7": 100, "account-8": 100} // the locks guard it
	var transfers sync.WaitGroup
	for range 10 {
		for _, way := range [][2]string{{"account-7", "account-8"}, {"account-8", "account-7"}} {
			transfers.Go(func() {
				err := move(ctx, locker, way[0], way[1], func(context.Context) error {
					balance[way[0]], balance[way[1]] = balance[way[0]]-1, balance[way[1]]+1
					return nil
				})
				if err != nil {
					fmt.Println(err)
				}
			})
		}
	}
	transfers.Wait()
	fmt.Println(balance)
	err := move(ctx, locker, "account-7", "account-7", nil)
	fmt.Println("the same lock twice:", errors.Is(err, redlock.ErrInvalid))

	// Output:
	// map[account-7:100 account-8:100]
	// the same lock twice: true
}
