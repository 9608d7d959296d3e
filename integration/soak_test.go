package integration_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	soakVariable = "QUORUMLOCK_SOAK" // how long the soak test goes on
	soakCallers  = 64
	// soakTimeout is the node timeout: no healthy node may take that long, even if the machine is busy with other things.
	// Soon after it the connection to the frozen node is given up (maxOverdue). From then on nothing may grow, so the
	// sample of soakWarmUp, which comes later, is the one that the others are compared with.
	soakTimeout = 2 * time.Second
	soakWarmUp  = 3
	soakSample  = time.Second

	// What later samples may have above the one of soakWarmUp. A healthy node that is behind the majority has up to 4096
	// commands under way (package pool), of up to 400 bytes with what they hold on to, and its queues keep the room for
	// them. That is reached at some time or other, and is no growth; per lock, it is a few bytes after a minute.
	growth         = 1.3
	slackGoroutine = 16
	slackHeap      = size * 4096 * 400 // bytes
)

// sample is what the process holds at one moment of the soak.
type sample struct {
	goroutines int
	heap       uint64 // bytes that are reachable
	cycles     int64  // locks taken and given back until then
}

func takeSample(cycles int64) sample {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return sample{goroutines: runtime.NumGoroutine(), heap: m.HeapAlloc, cycles: cycles}
}

// Trap 27: a frozen node and a busy caller, and memory and goroutines grow until the process dies.
func TestNothingGrowsAndNoLockFailsWhileANodeIsFrozenUnderLoad(t *testing.T) {
	lasting := 5 * time.Second
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		lasting, err = time.ParseDuration(text)
		require.NoError(t, err, soakVariable)
	}
	servers := testredis.Real(t, size)
	addrs := make([]string, size)
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	locker := newClient(t, addrs, soakTimeout)
	servers[0].Freeze()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var cycles atomic.Int64
	var callers sync.WaitGroup
	failures := make(chan error, soakCallers)
	for i := range soakCallers {
		name := fmt.Sprintf("soak-%d", i)
		callers.Go(func() {
			for ctx.Err() == nil {
				lock, err := locker.TryLock(context.Background(), name)
				if err == nil {
					err = lock.Unlock(context.Background())
				}
				if err != nil {
					failures <- err
					stop()
					return
				}
				cycles.Add(1)
			}
		})
	}
	var samples []sample
	ticker := time.NewTicker(soakSample)
	defer ticker.Stop()
	for range int(lasting / soakSample) {
		select {
		case <-ticker.C:
			samples = append(samples, takeSample(cycles.Load()))
		case <-ctx.Done():
		}
	}
	stop()
	callers.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}

	for i, s := range samples {
		t.Logf("sample %d: %d goroutines, %d KiB, %d cycles", i, s.goroutines, s.heap>>10, s.cycles)
	}
	require.Greater(t, len(samples), soakWarmUp, "%s=%s is too short", soakVariable, lasting)
	first := samples[soakWarmUp-1]
	for i, s := range samples[soakWarmUp:] {
		require.LessOrEqual(t, float64(s.goroutines), growth*float64(first.goroutines)+slackGoroutine,
			"goroutines in sample %d", soakWarmUp+i)
		require.LessOrEqual(t, float64(s.heap), growth*float64(first.heap)+slackHeap, "heap in sample %d", soakWarmUp+i)
	}

	servers[0].Thaw()
	for _, s := range servers {
		require.Eventually(t, func() bool {
			left, err := s.Do("DBSIZE")
			return err == nil && left == int64(0)
		}, settleBound, settleLook, "keys of ours stay on %s", s.Addr())
	}
}
