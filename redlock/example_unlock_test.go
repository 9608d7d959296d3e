package redlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// billUnderALock does what Do does, for work that does not fit into a function.
func billUnderALock(ctx context.Context, locker *redlock.Locker) error {
	lock, err := locker.Lock(ctx, "invoice-42",
		redlock.MaxWait(5*time.Second), redlock.RenewFor(time.Minute))
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx) // also if ctx has ended by then

	work, end := lock.Context(ctx) // ends when the lock is lost
	defer end()
	return bill(work)
}

func ExampleLock_Unlock() {
	locker, stop := startLocker()
	defer stop()
	for range 2 { // the second call finds the lock free
		fmt.Println(billUnderALock(context.Background(), locker))
	}

	// Output:
	// billed
	// <nil>
	// billed
	// <nil>
}
