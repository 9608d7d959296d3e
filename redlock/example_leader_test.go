package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/election"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// campaign makes this process the leader whenever it can be, until ctx ends. locker has
// redlock.WithFencing. lead gets the fence of its term, and returns nil when its context ends.
func campaign(ctx context.Context, locker *redlock.Locker, who string,
	lead func(ctx context.Context, term uint64) error,
) error {
	e := election.New(locker, "leader", redlock.Metadata(who))
	err := e.Run(ctx, func(ctx context.Context, term *redlock.Lock) error {
		return lead(ctx, term.Fence())
	})
	if errors.Is(err, context.Canceled) {
		return nil // another process led when ctx ended
	}
	return err
}

// assign is what leaders do. The server of the assignment rejects a leader of the past.
func assign(ctx context.Context, server fence.Doer, term uint64, worker string) error {
	_, err := fence.Run(ctx, server, "assignment:guard", term,
		fence.Command{"SET", fence.Key("assignment"), worker})
	return err
}

// Each leader has a higher fence than the one before.
func Example_leader() {
	servers, urls, stop := startServers(4)
	defer stop()
	conn, err := redis.Dial("tcp", servers[3].Addr()) // the assignment is on a server of its own
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	server := fence.DoFunc(func(ctx context.Context, command string, args ...any) (any, error) {
		return redis.DoContext(conn, ctx, command, args...)
	})

	ctx := context.Background()
	terms := make(chan uint64)
	lead := func(ctx context.Context, term uint64) error {
		terms <- term
		<-ctx.Done() // the term is lost, or the process stops
		return nil
	}
	start := func(who string) (end func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() {
			locker := openLocker(urls[:3], redlock.WithFencing())
			err := campaign(ctx, locker, who, lead)
			locker.Close()
			ended <- err
		}()
		return func() {
			cancel()
			fmt.Println(who, "ends:", <-ended)
		}
	}

	endFirst := start("host-1")
	first := <-terms
	fmt.Println(assign(ctx, server, first, "worker-7"))
	endSecond := start("host-2")
	endFirst()
	second := <-terms
	fmt.Println("a higher fence:", second > first)
	fmt.Println(assign(ctx, server, second, "worker-8"))
	fmt.Println("a late write is rejected:", errors.Is(assign(ctx, server, first, "worker-7"), fence.ErrStale))
	start("host-3")()
	endSecond()

	// Output:
	// <nil>
	// host-1 ends: <nil>
	// a higher fence: true
	// <nil>
	// a late write is rejected: true
	// host-3 ends: <nil>
	// host-2 ends: <nil>
}
