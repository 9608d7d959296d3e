package redlock_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// An Observer is notified of the groups of events that it wants. This one prints the calls and how locks end.
func ExampleWithObserver() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()

	observer := event.ObserverFunc(func(e event.Event) {
		switch e := e.(type) {
		case event.Acquire:
			fmt.Printf("%q: acquired in %d round, error: %v\n", e.Name, e.Rounds, e.Err)
		case event.End:
			fmt.Printf("%q: ended: %v\n", e.Name, e.Err)
		case event.Drop:
			fmt.Printf("%d events were missed\n", e.Count)
		}
	})
	locker := openLocker(urls, redlock.WithObserver(observer, event.Calls, event.Ends))
	lock, err := locker.TryLock(ctx, "invoice-42")
	if err != nil {
		log.Fatal(err)
	}
	if err := lock.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	locker.Close() // waits for the Observer

	// Output:
	// "invoice-42": acquired in 1 round, error: <nil>
	// "invoice-42": ended: redlock: lock is released
}

// Losses, nodes that go down and quarantines are worth a line in the log; refused calls are not, at this level.
func ExampleWithLogger() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()

	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "held" { // for how long
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: withoutTime}))
	locker := openLocker(urls, redlock.WithLogger(logger))
	defer locker.Close()
	lock, err := locker.TryLock(ctx, "invoice-42", redlock.Metadata("web-1"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := locker.ForceUnlock(ctx, "invoice-42"); err != nil {
		log.Fatal(err)
	}

	<-lock.Done()

	// Unordered output:
	// level=WARN msg="redlock: lock released by force" name=invoice-42 nodes=3 metadata=web-1
	// level=WARN msg="redlock: a lock is lost" name=invoice-42 error="redlock: lock is gone"
}
