package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

var errSoldOut = errors.New("sold out")

// sell sells one item of the stock to an order, while the lock is held. The read carries the fence
// too: after it no earlier holder can write any more, so that what was read stays true until this
// holder writes.
func sell(ctx context.Context, conn redis.Conn, lock *redlock.Lock, order string) error {
	replies, err := fence.Run(ctx, over(conn), "{stock}:guard", lock.Fence(),
		fence.Command{"GET", fence.Key("{stock}:left")})
	if err != nil {
		return err
	}
	left, err := redis.Int(replies[0], nil)
	if err != nil {
		return err
	}
	if left == 0 {
		return errSoldOut
	}
	// A pause here may last longer than the lock.
	_, err = fence.Run(ctx, over(conn), "{stock}:guard", lock.Fence(),
		fence.Command{"SET", fence.Key("{stock}:left"), left - 1},
		fence.Command{"RPUSH", fence.Key("{stock}:orders"), order})
	return err
}

// buy waits for its turn, for as long as ctx lasts. locker has redlock.WithFencing.
func buy(ctx context.Context, locker *redlock.Locker, stock *redis.Pool, order string) error {
	return locker.Do(ctx, "stock", func(ctx context.Context, lock *redlock.Lock) error {
		conn, err := stock.GetContext(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return sell(ctx, conn, lock, order)
	})
}

// Two shops sell a stock of 50 items to 60 buyers, and one process is paused between its read and
// its write.
func Example() {
	ctx := context.Background()
	urls, stop := startNodes(3)
	defer stop()
	server, err := miniredis.Run() // the stock is on a server of its own
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	stock := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	defer stock.Close()
	if err := server.Set("{stock}:left", "50"); err != nil {
		log.Fatal(err)
	}

	var shops [2]*redlock.Locker
	for i := range shops {
		shops[i], err = redlock.Open(urls, redlock.WithFencing(), pool.WithTimeout(10*time.Second))
		if err != nil {
			log.Fatal(err)
		}
		defer shops[i].Close()
	}
	paused, err := shops[0].TryLock(ctx, "stock")
	if err != nil {
		log.Fatal(err)
	}
	if err := paused.Unlock(ctx); err != nil { // stands for the end of the TTL during a pause
		log.Fatal(err)
	}

	var buyers sync.WaitGroup
	for i := range 60 {
		buyers.Go(func() {
			err := buy(ctx, shops[i%len(shops)], stock, fmt.Sprint("order-", i))
			if err != nil && !errors.Is(err, errSoldOut) {
				log.Fatal(err)
			}
		})
	}
	buyers.Wait()
	conn := stock.Get()
	defer conn.Close()
	// The pause ends. The process had read that 50 are left.
	_, err = fence.Run(ctx, over(conn), "{stock}:guard", paused.Fence(), fence.Command{"SET", fence.Key("{stock}:left"), 49})
	fmt.Println("a late write is rejected:", errors.Is(err, fence.ErrStale))
	fmt.Println("so is a late reader:", errors.Is(sell(ctx, conn, paused, "order-late"), fence.ErrStale))
	fmt.Println(redis.Int(conn.Do("LLEN", "{stock}:orders")))

	// Output:
	// a late write is rejected: true
	// so is a late reader: true
	// 50 <nil>
}
