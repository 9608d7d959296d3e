package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// startServers stands for the independent Redis servers of a production set-up.
func startServers(n int) (servers []*miniredis.Miniredis, urls []string, stop func()) {
	for range n {
		server, err := miniredis.Run()
		if err != nil {
			log.Fatal(err)
		}
		servers = append(servers, server)
		urls = append(urls, "redis://"+server.Addr())
	}
	return servers, urls, func() {
		for _, server := range servers {
			server.Close()
		}
	}
}

// openLocker is what the start of a program does, see the example of the package.
func openLocker(urls []string, opts ...pool.Option) (locker *redlock.Locker, closeAll func()) {
	nodes, err := pool.Open(urls, opts...)
	if err != nil {
		log.Fatal(err)
	}
	locker, err = redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	return locker, func() {
		locker.Close()
		closeNodes(nodes)
	}
}

func closeNodes(nodes []*pool.Node) {
	for _, node := range nodes {
		node.Close()
	}
}

func writeReport(ctx context.Context) error {
	fmt.Println("writing the report")
	return ctx.Err()
}

func Example() {
	ctx := context.Background()
	_, urls, stop := startServers(5) // "redis://host:6379" and so on
	defer stop()

	nodes, err := pool.Open(urls)
	if err != nil {
		log.Fatal(err)
	}
	defer closeNodes(nodes)
	locker, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	err = locker.Do(ctx, "nightly-report", func(ctx context.Context, lock *redlock.Lock) error {
		return writeReport(ctx) // ctx ends when the lock is lost
	}, redlock.TTL(30*time.Second), redlock.MaxHold(time.Hour))
	if err != nil {
		log.Fatal(err) // of the function, or why the lock was not acquired, or that it was lost
	}

	// Output:
	// writing the report
}

func ExampleLocker_Lock() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()
	locker, closeAll := openLocker(urls)
	defer closeAll()

	lock, err := locker.Lock(ctx, "invoice-42", redlock.TTL(30*time.Second))
	if err != nil {
		log.Fatal(err) // ctx ended first: the error has every node's reason
	}
	defer lock.Unlock(ctx)            //nolint:errcheck // its error only matters to work that cannot bear an overlap
	work, cancel := lock.Context(ctx) // ends when the lock does
	defer cancel()
	if err := writeReport(work); err != nil {
		log.Fatal(err)
	}

	// Output:
	// writing the report
}

func ExampleReentrant() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()
	locker, closeAll := openLocker(urls)
	defer closeAll()

	err := locker.Do(ctx, "account-7", func(ctx context.Context, _ *redlock.Lock) error {
		_, err := locker.TryLock(ctx, "account-7") // of a function that locks for itself
		fmt.Println("by mistake:", errors.Is(err, redlock.ErrDeadlock))
		inner, err := locker.Lock(ctx, "account-7", redlock.Reentrant())
		if err != nil {
			return err
		}
		fmt.Println("the same lock:", inner.Name())
		return inner.Unlock(ctx) // Do still holds it
	})
	fmt.Println(err)

	// Output:
	// by mistake: true
	// the same lock: account-7
	// <nil>
}

// One request takes a lock, and another releases it, in whatever process it runs: it is handed the token.
func ExampleLocker_Attach() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()
	first, closeFirst := openLocker(urls)
	defer closeFirst()
	second, closeSecond := openLocker(urls)
	defer closeSecond()

	lock, err := first.Lock(ctx, "upload-9", redlock.TTL(time.Minute), redlock.Metadata("started by web-1"))
	if err != nil {
		log.Fatal(err)
	}
	state, err := second.Inspect(ctx, "upload-9")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", state.Held(), state.Metadata)
	token, err := lock.Detach(ctx) // from here on the lock is the other's
	if err != nil {
		log.Fatal(err) // it has ended
	}
	same, err := second.Attach(ctx, "upload-9", token)
	if err != nil {
		log.Fatal(err) // ErrNotHeld: it is over
	}
	fmt.Println("first:", lock.Err(), "- second:", same.Err())
	fmt.Println("released:", same.Unlock(ctx))

	// Output:
	// held: true started by web-1
	// first: redlock: lock is released - second: <nil>
	// released: <nil>
}

func ExampleLocker_TryLock() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()
	locker, closeAll := openLocker(urls)
	defer closeAll()

	first, err := locker.TryLock(ctx, "invoice-42")
	fmt.Println("first:", err)
	_, err = locker.TryLock(ctx, "invoice-42")
	fmt.Println("second is refused:", errors.Is(err, redlock.ErrTaken))
	fmt.Println("first unlocks:", first.Unlock(ctx))
	third, err := locker.TryLock(ctx, "invoice-42")
	fmt.Println("third:", err)
	fmt.Println("tokens differ:", first.Token() != third.Token())

	// Output:
	// first: <nil>
	// second is refused: true
	// first unlocks: <nil>
	// third: <nil>
	// tokens differ: true
}

func ExampleLock_Extend() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()
	locker, closeAll := openLocker(urls)
	defer closeAll()

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
	// afterwards: redlock: lock is released
}

func ExampleQuorumError() {
	ctx := context.Background()
	servers, urls, stop := startServers(3)
	defer stop()
	names := pool.WithName(func(i int) string { return fmt.Sprintf("rack-%d", i+1) })
	locker, closeAll := openLocker(urls, names, pool.WithTimeout(time.Second))
	defer closeAll()

	servers[0].SetError("READONLY You can't write against a read only replica.")
	servers[2].SetError("LOADING Redis is loading the dataset in memory")
	_, err := locker.TryLock(ctx, "nightly-report")

	fmt.Println("no quorum:", errors.Is(err, redlock.ErrNoQuorum))
	var refusal *redlock.QuorumError
	if errors.As(err, &refusal) {
		fmt.Printf("%s %q needs %d of %d nodes\n", refusal.Op, refusal.Name, refusal.Need, len(refusal.Nodes))
		for _, node := range refusal.Nodes {
			var reason *pool.ServerError
			if errors.As(node.Err, &reason) {
				fmt.Println(node.Addr, "refused:", reason.Code)
			}
		}
	}

	// Output:
	// no quorum: true
	// acquire "nightly-report" needs 2 of 3 nodes
	// rack-1 refused: READONLY
	// rack-3 refused: LOADING
}
