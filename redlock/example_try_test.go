package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func ExampleLocker_TryLock() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

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

func ExampleLocker_TryDo() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	work := func(ctx context.Context, _ *redlock.Lock) error { return writeReport(ctx) }
	fmt.Println(locker.TryDo(ctx, "nightly-report", work))
	if _, err := locker.TryLock(ctx, "nightly-report"); err != nil {
		log.Fatal(err)
	}
	err := locker.TryDo(ctx, "nightly-report", work)
	fmt.Println("another has it:", errors.Is(err, redlock.ErrTaken))

	// Output:
	// writing the report
	// <nil>
	// another has it: true
}

func ExampleLocker_Lock() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	lock, err := locker.Lock(ctx, "invoice-42", redlock.TTL(30*time.Second))
	if err != nil {
		log.Fatal(err) // ctx ended first: the error has every node's reason
	}
	work, cancel := lock.Context(ctx) // ends when the lock does
	defer cancel()
	if err := writeReport(work); err != nil {
		log.Print(err)
	}
	if err := lock.Unlock(ctx); err != nil {
		log.Print(err) // ErrLost: the work may have overlapped with another holder's
	}

	// Output:
	// writing the report
}

// MaxWait limits the wait, and not the work.
func ExampleMaxWait() {
	_, urls, stop := startServers(3)
	defer stop()
	locker := openLocker(urls)
	defer locker.Close()
	other := openLocker(urls)
	defer other.Close()

	patient := func(ctx context.Context) error {
		err := locker.Do(ctx, "invoice-42", func(ctx context.Context, _ *redlock.Lock) error {
			return bill(ctx)
		}, redlock.MaxWait(2*time.Second))
		switch {
		case errors.Is(err, redlock.ErrTaken):
			return fmt.Errorf("somebody else is at it: %w", err)
		case errors.Is(err, redlock.ErrNoQuorum):
			return fmt.Errorf("too few of the servers answer: %w", err)
		}
		return err
	}

	ctx := context.Background()
	fmt.Println(patient(ctx))
	if _, err := other.TryLock(ctx, "invoice-42"); err != nil {
		log.Fatal(err)
	}
	err := patient(ctx)
	fmt.Println(errors.Is(err, redlock.ErrTaken), errors.Is(err, context.DeadlineExceeded))

	// Output:
	// billed
	// <nil>
	// true false
}

func ExampleQuorumError() {
	ctx := context.Background()
	servers, urls, stop := startServers(3)
	defer stop()
	names := pool.WithName(func(i int) string { return fmt.Sprintf("rack-%d", i+1) })
	locker, err := redlock.Open(urls, names, pool.WithTimeout(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	servers[0].SetError("READONLY You can't write against a read only replica.")
	servers[2].SetError("LOADING Redis is loading the dataset in memory")
	_, err = locker.TryLock(ctx, "nightly-report")

	fmt.Println("no quorum:", errors.Is(err, redlock.ErrNoQuorum))
	var refusal *redlock.QuorumError
	if errors.As(err, &refusal) {
		fmt.Printf("%s %q needs %d of %d nodes\n", refusal.Op, refusal.Name, refusal.Need, len(refusal.Nodes))
		for _, node := range refusal.Nodes {
			var reason *nodeerr.ServerError
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
