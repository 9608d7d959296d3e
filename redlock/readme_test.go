package redlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// readme is the code that the README shows, to the letter, which integration/docs checks.
func readme(ctx context.Context, urls []string) error {
	locker, err := redlock.Open(urls, // "redis://10.0.0.1:6379" and so on, one for each independent server
		redlock.WithKeyPrefix("lock:")) // invoice-4711 is the key lock:invoice-4711
	if err != nil {
		return err
	}
	defer locker.Close()
	return locker.Do(ctx, "invoice-4711", func(ctx context.Context, lock *redlock.Lock) error {
		return bill(ctx) // ctx ends when the lock is lost
	}, redlock.MaxWait(5*time.Second)) // then ErrTaken, or ErrNoQuorum if too few servers answer
}

func bill(ctx context.Context) error {
	fmt.Println("billed")
	return ctx.Err()
}

func ExampleLocker_Do() {
	_, urls, stop := startServers(3)
	defer stop()
	fmt.Println(readme(context.Background(), urls))
	// Output:
	// billed
	// <nil>
}
