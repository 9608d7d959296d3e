package valkeygo_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"

	"github.com/quorumlock/quorumlock/adapters/valkeygo"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func bill(context.Context, *redlock.Lock) error {
	fmt.Println("billed")
	return nil
}

func Example() {
	var servers []valkey.ClientOption
	for range 3 {
		server, err := miniredis.Run() // a Redis server inside the program, for the example
		if err != nil {
			log.Fatal(err)
		}
		defer server.Close()
		servers = append(servers, valkey.ClientOption{InitAddress: []string{server.Addr()}})
	}

	ctx := context.Background()
	nodes, err := valkeygo.Open(servers) // []valkey.ClientOption, which valkey.NewClient gets
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

func ExampleOpenCluster() {
	cluster := valkey.ClientOption{InitAddress: []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}}
	nodes, err := valkeygo.OpenCluster(cluster, 3, pool.WithRestartGuard(time.Minute)) // above the longest TTL
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
