package redlock_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// passes counts the locks that were handed off.
type passes struct{ atomic.Int64 }

func (p *passes) Observe(e event.Event) {
	if e, ok := e.(event.Unlock); ok && e.Handoff {
		p.Add(1)
	}
}

// Forty buyers of one program want the same item.
func ExampleWithLocalHandoff() {
	ctx := context.Background()
	_, urls, stop := startServers(3)
	defer stop()
	seen := &passes{}
	locker, err := redlock.Open(urls,
		redlock.WithLocalHandoff(50*time.Millisecond),
		redlock.WithObserver(seen))
	if err != nil {
		log.Fatal(err)
	}

	sold := 0 // the lock guards it
	var buyers sync.WaitGroup
	for range 40 {
		buyers.Go(func() {
			err := locker.Do(ctx, "item-7", func(context.Context, *redlock.Lock) error {
				sold++
				return nil
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	buyers.Wait()
	_ = locker.Close() // always nil; the observer has been told of everything then
	fmt.Println("sold:", sold)
	fmt.Println("some got the lock from the buyer before, without a node:", seen.Load() > 0)

	// Output:
	// sold: 40
	// some got the lock from the buyer before, without a node: true
}
