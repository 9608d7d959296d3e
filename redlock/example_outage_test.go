package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// The call waits for a holder for as long as that takes, and for servers only for a moment.
func ExampleMaxOutage() {
	servers, urls, stop := startServers(3)
	defer stop()
	locker := openLocker(urls)
	defer locker.Close()
	if err := locker.Ping(context.Background()); err != nil {
		log.Fatal(err)
	}

	billed := func(ctx context.Context) error {
		return locker.Do(ctx, "invoice-42", func(ctx context.Context, _ *redlock.Lock) error {
			return bill(ctx)
		}, redlock.MaxOutage(50*time.Millisecond))
	}
	fmt.Println(billed(context.Background()))
	servers[0].Close()
	servers[1].Close()
	err := billed(context.Background())
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum), errors.Is(err, redlock.ErrNotRun))

	// Output:
	// billed
	// <nil>
	// true true
}

// The error names each server and its reason.
func ExampleLocker_Ping() {
	servers, urls, stop := startServers(3)
	defer stop()
	locker := openLocker(urls)
	defer locker.Close()
	ctx := context.Background()
	fmt.Println(locker.Ping(ctx))
	servers[0].SetError("READONLY You can't write against a read only replica.")
	servers[1].SetError("READONLY You can't write against a read only replica.")
	err := locker.Ping(ctx)
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	if refusal := new(redlock.QuorumError); errors.As(err, &refusal) {
		fmt.Println(refusal.Nodes[0].Err)
	}

	// Output:
	// <nil>
	// true
	// READONLY You can't write against a read only replica. (the server is a replica: nodes must be independent masters)
}
