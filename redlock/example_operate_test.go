package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func ExampleLocker_Inspect() {
	ctx := context.Background()
	servers, urls, stop := startServers(5)
	defer stop()
	locker := openLocker(urls)
	defer locker.Close()
	servers[3].SetError("LOADING Redis is loading the dataset in memory")
	if _, err := locker.Lock(ctx, "nightly-report", redlock.Metadata("host-1")); err != nil {
		log.Fatal(err)
	}

	state, err := locker.Inspect(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err) // ErrNoQuorum: too few servers answered
	}
	for _, holder := range state.Holders { // one, as the lock is exclusive
		fmt.Println(state.Verdict, "by", holder.Metadata, "for seconds:", holder.TTL > time.Second)
	}
	for i, node := range state.Nodes {
		fmt.Println(i, len(node.Holders) > 0, node.Err)
	}

	// Output:
	// held by host-1 for seconds: true
	// 0 true <nil>
	// 1 true <nil>
	// 2 true <nil>
	// 3 false LOADING Redis is loading the dataset in memory (the server is starting)
	// 4 true <nil>
}

func ExampleLocker_ForceUnlock() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()
	holder, operator := openLocker(urls), openLocker(urls)
	defer holder.Close()
	defer operator.Close()
	lock, err := holder.TryLock(ctx, "nightly-report", redlock.Metadata("host-1"))
	if err != nil {
		log.Fatal(err)
	}

	removed, err := operator.ForceUnlock(ctx, "nightly-report") // somebody knows that host-1 is gone
	if err != nil {
		log.Fatal(err) // too few servers answered, or they have data there that is no short string
	}
	for _, holder := range removed {
		fmt.Println("was held by", holder.Metadata)
	}
	fmt.Println("the holder finds out:", errors.Is(lock.Unlock(ctx), redlock.ErrLost))

	// Output:
	// was held by host-1
	// the holder finds out: true
}

func ExampleWithHeal() {
	ctx := context.Background()
	servers, urls, stop := startServers(3)
	defer stop()
	for _, server := range servers { // a program has locked with SETNX, and died before its EXPIRE
		if err := server.Set("lock:nightly-report", "1"); err != nil {
			log.Fatal(err)
		}
	}

	strict := openLocker(urls, redlock.WithKeyPrefix("lock:"))
	defer strict.Close()
	_, err := strict.TryLock(ctx, "nightly-report")
	fmt.Println("nobody will release it:", errors.Is(err, nodeerr.ErrNoExpiry))

	const after = 200 * time.Millisecond // in a program: far above the time for which anybody may hold a lock
	healing, err := redlock.Open(urls, redlock.WithKeyPrefix("lock:"), redlock.WithHeal(after))
	if err != nil {
		log.Fatal(err)
	}
	defer healing.Close()
	lock, err := healing.Lock(ctx, "nightly-report")
	fmt.Println(err, lock.Err())

	// Output:
	// nobody will release it: true
	// <nil> <nil>
}
