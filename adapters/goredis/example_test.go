package goredis_test

import (
	"context"
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

	nodes, err := goredis.Open(servers)
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
	err = locker.Do(context.Background(), "invoice-4711", func(ctx context.Context, lock *redlock.Lock) error {
		fmt.Println("billed")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: billed
}

func ExampleDoer() {
	server, err := miniredis.Run() // a Redis server inside the program, for the example
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer client.Close()

	for _, token := range []uint64{34, 33} { // Fence of a lock
		_, err := fence.Run(context.Background(), goredis.Doer(client), "{account-7}:guard", token,
			fence.Command{"SET", fence.Key("{account-7}:balance"), 100})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// fence: "{account-7}:guard": fence 33 is stale: the resource has seen 34
}

func ExampleOpenFailover() {
	var groups []*redis.FailoverOptions
	for _, name := range []string{"locks-a", "locks-b", "locks-c"} { // three servers each
		groups = append(groups, &redis.FailoverOptions{
			MasterName: name, SentinelAddrs: []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
		})
	}
	nodes, err := goredis.OpenFailover(groups, pool.WithRestartGuard(time.Minute))
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
	nodes, err := goredis.OpenCluster(options, 3, pool.WithRestartGuard(time.Minute))
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
