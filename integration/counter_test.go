package integration_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

const (
	increments  = 4_000
	eachKind    = 4 // clients
	minPause    = time.Millisecond
	maxPause    = 5 * time.Millisecond
	counterName = "counter"
)

// counter is a number in a file. To increment it is to read the file and to write it, so that two who do so at
// the same time lose one increment: the locks are all that orders them, as between processes.
type counter string

func (c counter) read() (int, error) {
	text, err := os.ReadFile(string(c))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

func (c counter) write(n int) error { return os.WriteFile(string(c), []byte(strconv.Itoa(n)), 0o600) }

// critical runs section under the lock of one client.
type critical func(ctx context.Context, section func() error) error

func withLocker(locker *redlock.Locker) critical {
	return func(ctx context.Context, section func() error) error {
		lock, err := locker.Lock(ctx, counterName)
		if err != nil {
			return err
		}
		return errors.Join(section(), lock.Unlock(ctx))
	}
}

func withRedsync(client *redsync.Redsync) critical {
	return func(ctx context.Context, section func() error) error {
		mutex := client.NewMutex(counterName, redsync.WithExpiry(longTTL), redsync.WithTries(1e9),
			redsync.WithRetryDelayFunc(func(int) time.Duration { return minPause + rand.N(maxPause-minPause) }))
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		err := section()
		_, failure := mutex.UnlockContext(ctx)
		return errors.Join(err, failure)
	}
}

func TestNoIncrementIsLostBetweenOurClientsAndThoseOfRedsync(t *testing.T) {
	c := five(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var clients []critical
	for range eachKind {
		clients = append(clients, withLocker(c.connected(t, ampleTimeout, redlock.WithBackoff(minPause, maxPause))))
	}
	for range eachKind {
		clients = append(clients, withRedsync(newRedsync(t, c.addrs())))
	}
	total := counter(filepath.Join(t.TempDir(), "counter"))
	require.NoError(t, total.write(0))

	done := make([]int, len(clients)) // done[i] is what client i has added
	failures := make([]error, len(clients))
	var running sync.WaitGroup
	for i, locked := range clients {
		running.Go(func() {
			for full := false; !full && failures[i] == nil; {
				failures[i] = locked(ctx, func() error {
					n, err := total.read()
					if full = n >= increments; full || err != nil {
						return err
					}
					done[i]++
					return total.write(n + 1)
				})
			}
		})
	}
	running.Wait()
	require.NoError(t, errors.Join(failures...))

	t.Logf("increments of each quorumlock client: %v, of each redsync client: %v", done[:eachKind], done[eachKind:])
	sum := 0
	for i, n := range done {
		require.NotZero(t, n, "client %d never got the lock", i)
		sum += n
	}
	n, err := total.read()
	require.NoError(t, err)
	require.Equal(t, increments, n)
	require.Equal(t, n, sum, "increments were lost")
	c.requireNoKey(t)
}
