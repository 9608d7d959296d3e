//go:build linux

// Package overload lets more callers take locks than the servers and CPUs can serve.
package overload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	servers  = 5
	hotNames = 10
	ttl      = 10 * time.Second
	patience = 5 * time.Second // of a caller
	// recovery is how long it may take after the load until a lock is got.
	recovery = time.Second
	// mostHeap is how much each caller may need, and all together.
	mostHeap = 16 << 10
	baseHeap = 64 << 20
)

// load is what callers do, and what comes of it.
type load struct {
	locker *redlock.Locker

	held, waited atomic.Int64 // locks that were got, and contexts that ended
	refused      atomic.Int64 // calls of TryLock that got none: somebody has it, or no majority has answered in time
	unconfirmed  atomic.Int64 // releases that no majority has confirmed in time
	failed       atomic.Int64 // calls that failed for another reason
	once         sync.Once
	failure      error // of one of these
}

// Run lets callers take locks for a while, as fast as they can, and returns what came of it, and an error if that is not as it should.
func Run(ctx context.Context, callers int, lasting time.Duration, seed uint64) (report string, err error) {
	c, err := cluster.New(ctx, cluster.Config{Servers: make([]cluster.ServerConfig, servers)})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var urls []string
	for _, s := range c.Servers() {
		urls = append(urls, "redis://"+s.Addr())
	}
	before := runtime.NumGoroutine()
	locker, err := redlock.Open(urls, redlock.TTL(ttl), redlock.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return "", err
	}
	l := &load{locker: locker}
	limited, cancel := context.WithTimeout(ctx, lasting)
	defer cancel()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { l.call(limited, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	heap := most(limited)
	ended := time.Now()
	lock, err := locker.Lock(ctx, "recovered")
	recovered := time.Since(ended)
	if err != nil {
		return "", fmt.Errorf("after the load: %w", err)
	}
	err = lock.Unlock(ctx)
	all.Wait()
	err = errors.Join(err, locker.Shutdown(ctx))
	left := leftOver(before)
	report = fmt.Sprintf("%d callers for %v: %d locks, %d contexts ended, %d calls of TryLock refused, %d releases not confirmed; "+
		"%d MB of heap at most; a lock was got %v after the load; %d goroutines were left",
		callers, lasting, l.held.Load(), l.waited.Load(), l.refused.Load(), l.unconfirmed.Load(), heap>>20,
		recovered.Round(time.Millisecond), left)
	if n := l.failed.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d calls failed; one of them: %w", n, l.failure))
	}
	if limit := uint64(baseHeap + callers*mostHeap); heap > limit {
		err = errors.Join(err, fmt.Errorf("more than %d MB of heap", limit>>20))
	}
	if left > 0 {
		err = errors.Join(err, errors.New("goroutines were left"))
	}
	if recovered > recovery {
		err = errors.Join(err, fmt.Errorf("no lock within %v after the load", recovery))
	}
	return report, err
}

// leftOver returns how many goroutines there are beyond those before. One that is about to end has the time for it.
func leftOver(before int) (left int) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range 40 {
		if left = runtime.NumGoroutine() - before; left <= 0 {
			break
		}
		<-ticker.C
	}
	return left
}

// most returns the most memory that the program needed until ctx ended.
func most(ctx context.Context) (heap uint64) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap = max(heap, m.HeapAlloc)
		select {
		case <-ctx.Done():
			return heap
		case <-ticker.C:
		}
	}
}

// call takes one lock after the other, hot ones and cold ones.
func (l *load) call(ctx context.Context, number int, dice *rand.Rand) {
	for ctx.Err() == nil {
		name := fmt.Sprint("cold-", number)
		if dice.IntN(3) == 0 {
			name = fmt.Sprint("hot-", dice.IntN(hotNames))
		}
		l.turn(ctx, name, dice.IntN(3))
	}
}

// turn takes a lock in one of the ways, and releases it.
func (l *load) turn(ctx context.Context, name string, way int) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	var lock *redlock.Lock
	switch way {
	case 0:
		err = l.locker.Do(limited, name, func(context.Context, *redlock.Lock) error { return nil })
	case 1:
		lock, err = l.locker.Lock(limited, name)
	default:
		lock, err = l.locker.TryLock(limited, name)
	}
	switch {
	case lock != nil:
		l.held.Add(1)
		if err := lock.Unlock(context.WithoutCancel(ctx)); errors.Is(err, redlock.ErrNoQuorum) {
			l.unconfirmed.Add(1)
		} else if err != nil {
			l.fail(err)
		}
	case err == nil:
		l.held.Add(1)
	case limited.Err() != nil && errors.Is(err, limited.Err()):
		l.waited.Add(1)
	case way > 1 && (errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum)):
		l.refused.Add(1)
	default:
		l.fail(err)
	}
}

func (l *load) fail(err error) {
	l.failed.Add(1)
	l.once.Do(func() { l.failure = err })
}
