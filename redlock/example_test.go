package redlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

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

// openLocker opens a Locker of an example, whose servers get more time to answer than the default of 300 ms.
func openLocker(urls []string, opts ...redlock.Option) *redlock.Locker {
	locker, err := redlock.Open(urls, append(opts, pool.WithTimeout(10*time.Second))...)
	if err != nil {
		log.Fatal(err)
	}
	return locker
}

// startLocker opens one over three servers; stop ends them.
func startLocker(opts ...redlock.Option) (locker *redlock.Locker, stop func()) {
	_, urls, end := startServers(3)
	locker = openLocker(urls, opts...)
	return locker, func() {
		_ = locker.Close()
		end()
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

	locker, err := redlock.Open(urls)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	err = locker.Do(ctx, "nightly-report", func(ctx context.Context, lock *redlock.Lock) error {
		return writeReport(ctx) // ctx ends when the lock is lost
	}, redlock.TTL(30*time.Second), redlock.RenewFor(time.Hour))
	if err != nil {
		log.Fatal(err) // of the function, or why the lock was not acquired, or that it was lost
	}

	// Output:
	// writing the report
}

func ExampleOpen() {
	locker, err := redlock.Open([]string{
		"redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379",
		"redis://10.0.0.4:6379", "redis://10.0.0.5:6379",
	},
		redlock.WithKeyPrefix("lock:"),
		redlock.TTL(15*time.Second))
	if err != nil {
		log.Fatal(err) // a URL or an option is wrong: no server has been asked yet
	}
	defer locker.Close()

	// Output:
}

// The nodes may be those of redigo pools that the program has, and Lockers may share them.
func ExampleNew() {
	_, urls, stop := startServers(3)
	defer stop()
	var pools []*redis.Pool
	for _, url := range urls {
		pools = append(pools, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, url)
		}})
	}

	nodes, err := pool.Wrap(pools, pool.WithTimeout(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		for _, node := range nodes {
			node.Close()
		}
	}()
	invoices, err := redlock.New(nodes, redlock.WithKeyPrefix("lock:invoice:"), redlock.WithBackoff(5*time.Millisecond, time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer invoices.Close()
	accounts, err := redlock.New(nodes, redlock.WithKeyPrefix("lock:account:"), redlock.WithFencing())
	if err != nil {
		log.Fatal(err)
	}
	defer accounts.Close()

	ctx := context.Background()
	invoice, err := invoices.TryLock(ctx, "7")
	fmt.Println(invoice.Name(), err)
	account, err := accounts.TryLock(ctx, "7")
	fmt.Println(account.Name(), err)

	// Output:
	// 7 <nil>
	// 7 <nil>
}

func ExampleWithKeyPrefix() {
	servers, urls, stop := startServers(1)
	defer stop()
	locker := openLocker(urls, redlock.WithKeyPrefix("lock:"))
	defer locker.Close()

	lock, err := locker.TryLock(context.Background(), "invoice-42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Name(), servers[0].Keys())

	// Output:
	// invoice-42 [lock:invoice-42]
}
