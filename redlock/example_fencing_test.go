package redlock_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quorumlock/quorumlock/redlock"
)

func ExampleWithFencing() {
	ctx := context.Background()
	locker, stop := startLocker(redlock.WithFencing())
	defer stop()

	var last uint64
	for range 3 {
		lock, err := locker.Lock(ctx, "account-7")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("higher than all before:", lock.Fence() > last)
		last = lock.Fence() // goes with each write, see package redlock/fence
		if err := lock.Unlock(ctx); err != nil {
			log.Fatal(err)
		}
	}

	// Output:
	// higher than all before: true
	// higher than all before: true
	// higher than all before: true
}
