package redlock_test

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/quorumlock/quorumlock/redlock"
)

// run is what main calls: it opens the Locker of the program, and passes it on.
func run(urls []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	locker, err := redlock.Open(urls, // "redis://10.0.0.1:6379" and so on, one for each server
		// pool.WithTimeout(time.Second), if servers are far away: by default each has 300 ms to answer
		redlock.WithKeyPrefix("lock:"))
	if err != nil {
		return err // a URL or an option is wrong: no server has been asked yet
	}
	defer locker.Close() // after serve, and so after everything that holds a lock
	return serve(ctx, locker)
}

func serve(ctx context.Context, locker *redlock.Locker) error {
	return locker.Do(ctx, "invoice-42", func(ctx context.Context, _ *redlock.Lock) error {
		return bill(ctx)
	})
}

// One Locker serves the whole program.
func Example_main() {
	_, urls, stop := startServers(1)
	defer stop()
	fmt.Println(run(urls))

	// Output:
	// billed
	// <nil>
}
