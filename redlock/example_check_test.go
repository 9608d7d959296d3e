package redlock_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/quorumlock/quorumlock/redlock"
)

// answers stands for the table of a database that keeps the answers to requests.
type answers struct {
	mu sync.Mutex
	of map[string]string
}

func (a *answers) get(_ context.Context, request string) (answer string, found bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer, found = a.of[request]
	return answer, found, nil
}

func (a *answers) put(_ context.Context, request, answer string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[request] = answer
	return nil
}

// once serves a request, or returns the answer that was given before. The name of a request is
// chosen by the client, and is the same if the client sends the request again.
func once(ctx context.Context, locker *redlock.Locker, kept *answers, request string,
	serve func(context.Context) (string, error),
) (answer string, err error) {
	err = locker.Do(ctx, "request-"+request, func(ctx context.Context, _ *redlock.Lock) error {
		var found bool
		if answer, found, err = kept.get(ctx, request); err != nil || found {
			return err // somebody has served it, perhaps while this call waited
		}
		if answer, err = serve(ctx); err != nil {
			return err
		}
		return kept.put(ctx, request, answer)
	})
	return answer, err
}

// The state of the work is checked when the lock is there: somebody else may have done the work
// meanwhile.
func Example_deduplication() {
	ctx := context.Background()
	locker, stop := startLocker()
	defer stop()

	kept := &answers{of: map[string]string{}}
	charge := func(context.Context) (string, error) {
		fmt.Println("charging")
		return "receipt 1", nil
	}
	var calls sync.WaitGroup
	for range 3 { // the client is impatient
		calls.Go(func() {
			answer, err := once(ctx, locker, kept, "c61f", charge)
			if err != nil || answer != "receipt 1" {
				log.Fatal(answer, err)
			}
		})
	}
	calls.Wait()
	fmt.Println(once(ctx, locker, kept, "c61f", charge))

	// Output:
	// charging
	// receipt 1 <nil>
}
