package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// begin takes the lock of an upload, which finish releases, in whatever process it runs.
func begin(ctx context.Context, locker *redlock.Locker, upload string) (text string, err error) {
	lock, err := locker.TryLock(ctx, upload,
		redlock.TTL(30*time.Minute), redlock.Metadata("upload by web-1"))
	if err != nil {
		return "", err
	}
	token, err := lock.Detach(ctx) // the lock stays on the servers; this process no longer holds it
	return string(token), err      // string: otherwise fmt and slog print "(token)", also in Sprintf
}

// finish is called with the text of the token that begin has returned.
func finish(ctx context.Context, locker *redlock.Locker, upload, text string) error {
	lock, err := locker.Attach(ctx, upload, redlock.Token(text), redlock.RenewFor(redlock.NoLimit))
	if err != nil {
		return err // ErrNotHeld: the TTL is over, and another may hold the lock
	}
	work, cancel := lock.Context(ctx)
	defer cancel()
	return errors.Join(store(work, upload), lock.Unlock(ctx))
}

func store(ctx context.Context, upload string) error {
	fmt.Println("storing", upload)
	return ctx.Err()
}

// One request takes a lock, and another releases it, in whatever process it runs: it is handed the token.
func ExampleLocker_Attach() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()
	first, second := openLocker(urls), openLocker(urls) // of two processes
	defer first.Close()
	defer second.Close()

	token, err := begin(ctx, first, "upload-9")
	if err != nil {
		log.Fatal(err)
	}
	_, err = second.TryLock(ctx, "upload-9")
	fmt.Println("still taken:", errors.Is(err, redlock.ErrTaken))
	fmt.Println(finish(ctx, second, "upload-9", token))
	err = finish(ctx, second, "upload-9", token)
	fmt.Println("it is over:", errors.Is(err, redlock.ErrNotHeld))

	// Output:
	// still taken: true
	// storing upload-9
	// <nil>
	// it is over: true
}

// The program numbers the locks of its documents, and shows the number where the lock stands in a client's way.
func ExampleTokenSource() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()
	last := 4711
	next := func() (string, error) { // of a sequence in the program's database: never the same number twice
		last++
		return fmt.Sprint("lock-", last), nil
	}

	lock, err := locker.TryLock(ctx, "document-7", redlock.TokenSource(next))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(lock.Token()))
	fmt.Println(lock.Unlock(ctx))

	// Output:
	// lock-4712
	// <nil>
}

// After Detach the lock stays on the nodes until its TTL is over.
func ExampleLock_Detach() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	lock, err := locker.TryLock(ctx, "upload-9", redlock.TTL(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	token, err := lock.Detach(ctx)
	fmt.Println(token == lock.Token(), err)
	fmt.Println("this handle:", lock.Err())
	_, err = locker.TryLock(ctx, "upload-9")
	fmt.Println("the name is taken:", errors.Is(err, redlock.ErrTaken))

	// Output:
	// true <nil>
	// this handle: redlock: "upload-9": lock is released
	// the name is taken: true
}

func ExampleMetadata() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	lock, err := locker.TryLock(ctx, "upload-9", redlock.Metadata("web-1, pid 4711"))
	if err != nil {
		log.Fatal(err)
	}
	state, err := locker.Inspect(ctx, lock.Name())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held by", state.Holders[0].Metadata)

	// Output:
	// held by web-1, pid 4711
}
