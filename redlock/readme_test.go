package redlock_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// readme is the code that the README shows, to the letter, which integration/docs checks.
func readme(ctx context.Context, urls []string, store *invoices) error {
	locker, err := redlock.Open(urls, // "redis://10.0.0.1:6379" and so on, one for each independent server
		redlock.WithKeyPrefix("lock:")) // invoice-4711 is the key lock:invoice-4711
	if err != nil {
		return err
	}
	defer locker.Close()
	return locker.Do(ctx, "invoice-4711", func(ctx context.Context, _ *redlock.Lock) error {
		if billed, err := store.Billed(ctx, 4711); billed || err != nil {
			return err // another call has done it, perhaps while this one waited
		}
		return store.Bill(ctx, 4711) // ctx ends when the lock is lost
	}, redlock.MaxWait(5*time.Second)) // then ErrTaken, or ErrNoQuorum if too few servers answer
}

// invoices stands for a table of a database. It does not exclude callers: Billed and Bill are two steps.
type invoices struct {
	mu    sync.Mutex
	bills map[int]int // how often each was billed
}

func (s *invoices) Billed(_ context.Context, invoice int) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bills[invoice] > 0, nil
}

func (s *invoices) Bill(ctx context.Context, invoice int) error {
	<-time.After(10 * time.Millisecond) // callers without the lock would all be past Billed by now
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bills == nil {
		s.bills = map[int]int{}
	}
	s.bills[invoice]++
	return bill(ctx)
}

func bill(ctx context.Context) error {
	fmt.Println("billed")
	return ctx.Err()
}

// The second call is that of a client who has sent its request again.
func ExampleLocker_Do() {
	_, urls, stop := startServers(3)
	defer stop()
	store := &invoices{}
	for range 2 {
		fmt.Println(readme(context.Background(), urls, store))
	}
	// Output:
	// billed
	// <nil>
	// <nil>
}
