// Package inquiry asks servers that know it at which address another server is.
//
// The files:
//   - search.go: which of several servers are asked, and which of their answers counts
//   - talk.go: a conversation with one server
package inquiry

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// hedge is how long a search waits for one server before it asks the next one too.
	hedge = 300 * time.Millisecond
	// Patience is how long a conversation with one server may take.
	Patience = 2 * time.Second
)

// Answer is what a server knows.
type Answer struct {
	Address string
	Epoch   int64 // a later answer has a higher one
	Err     error // nil if there is an Address
}

// Search remembers what was found, to know which answers are out of date. It is safe for concurrent use.
type Search struct {
	mu    sync.Mutex
	epoch int64 // the highest one of an answer
}

// Find asks n servers, in random order. The first answer counts, unless another one has had a higher epoch. Such an
// answer counts only if no server has a better one.
func (s *Search) Find(ctx context.Context, n int, ask func(ctx context.Context, i int) Answer) (address string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()

	var best Answer
	var failures []error
	answers, order, asked := make(chan Answer), rand.Perm(n), 0
	next := time.NewTimer(0)
	defer next.Stop()
	for ended := 0; ended < n; {
		select {
		case <-next.C:
			if asked < n {
				i := order[asked]
				asking.Go(func() {
					select {
					case answers <- ask(ctx, i):
					case <-ctx.Done():
					}
				})
				asked++
				next.Reset(hedge)
			}
		case a := <-answers:
			ended++
			next.Reset(0)
			if a.Err != nil {
				failures = append(failures, a.Err)
				continue
			}
			if s.Newest(a) {
				return a.Address, nil
			}
			if best.Address == "" || a.Epoch > best.Epoch {
				best = a
			}
		case <-ctx.Done():
			return "", errors.Join(append(failures, ctx.Err())...)
		}
	}
	if best.Address == "" {
		return "", errors.Join(failures...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = best.Epoch // the servers have been set up again
	return best.Address, nil
}

// Newest reports whether no answer has had a higher epoch, and records its epoch.
func (s *Search) Newest(a Answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := a.Epoch >= s.epoch
	s.epoch = max(s.epoch, a.Epoch)
	return newest
}
