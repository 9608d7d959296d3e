package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/adapters/goredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

func bill(context.Context, *redlock.Lock) error {
	fmt.Println("billed")
	return nil
}

func Example() {
	var servers []*redis.Options
	for range 3 {
		server, err := miniredis.Run() // a Redis server inside the program, for the example
		if err != nil {
			log.Fatal(err)
		}
		defer server.Close()
		servers = append(servers, &redis.Options{Addr: server.Addr()})
	}

	ctx := context.Background()
	nodes, err := goredis.Open(servers) // []*redis.Options, which redis.NewClient gets
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range nodes {
		defer n.Close()
	}
	locker, err := redlock.New(nodes)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	err = locker.Do(ctx, "invoice-4711", bill) // func bill(ctx context.Context, lock *redlock.Lock) error
	if err != nil {
		log.Fatal(err)
	}
	// Output: billed
}

func ExampleDoer() {
	var servers []*redis.Options
	for range 4 {
		server, err := miniredis.Run() // a Redis server inside the program, for the example
		if err != nil {
			log.Fatal(err)
		}
		defer server.Close()
		servers = append(servers, &redis.Options{Addr: server.Addr()})
	}
	ctx, addr := context.Background(), servers[3].Addr
	nodes, err := goredis.Open(servers[:3])
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range nodes {
		defer n.Close()
	}

	locker, err := redlock.New(nodes, redlock.WithFencing())
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true}) // of the data
	defer client.Close()
	err = locker.Do(ctx, "invoice-4711", func(ctx context.Context, lock *redlock.Lock) error {
		_, err := fence.Run(ctx, goredis.Doer(client), "{invoice-4711}:guard", lock.Fence(),
			fence.Command{"SET", fence.Key("{invoice-4711}:state"), "billed"})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	earlier := uint64(1) // the fence of a holder that was paused
	_, err = fence.Run(ctx, goredis.Doer(client), "{invoice-4711}:guard", earlier,
		fence.Command{"SET", fence.Key("{invoice-4711}:state"), "open"})
	fmt.Println(errors.Is(err, fence.ErrStale))
	fmt.Println(client.Get(ctx, "{invoice-4711}:state").Val())
	// Output:
	// true
	// billed
}

func ExampleOpenFailover() {
	var groups []*redis.FailoverOptions
	for _, name := range []string{"locks-a", "locks-b", "locks-c"} { // three servers each
		groups = append(groups, &redis.FailoverOptions{
			MasterName: name, SentinelAddrs: []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
		})
	}
	nodes, err := goredis.OpenFailover(groups, pool.WithRestartGuard(time.Minute)) // above the longest TTL
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range nodes {
		defer n.Close()
		fmt.Println(n.Addr())
	}
	// Output:
	// locks-a@10.0.0.1:26379
	// locks-b@10.0.0.1:26379
	// locks-c@10.0.0.1:26379
}

func ExampleOpenCluster() {
	options := &redis.ClusterOptions{Addrs: []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}}
	nodes, err := goredis.OpenCluster(options, 3, pool.WithRestartGuard(time.Minute)) // above the longest TTL
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range nodes {
		defer n.Close()
		fmt.Println(n.Addr())
	}
	// Output:
	// q0/3.111@10.0.0.1:6379
	// q1/3.103@10.0.0.1:6379
	// q2/3.9@10.0.0.1:6379
}
