package bench_test

import (
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	// inLine is how many processes come one after the other in Y8.
	inLine = 8
	// freshRounds is how many times Y8 counts as the first ones of new processes.
	freshRounds = 8
	// lateMessage is for how long Y8 waits for the message that a process waits.
	lateMessage = 200 * time.Millisecond
)

// BenchmarkY8_Order is 8 processes that want a lock which another one holds. They come one after the other, each when
// the one before has sent the message that it waits. Then the holder releases the lock, and each has it for 1 ms:
// which share of all pairs gets it in the wrong order (wrong-%). fresh-wrong-% is the same for the first 8 times, in which
// the processes are new.
func BenchmarkY8_Order(b *testing.B) {
	servers := testredis.Real(b, 5)
	b.Run("subject=quorumlock/nodes=5", func(b *testing.B) {
		addrs := empty(b, servers)
		lockers, all := openLockers(b, addrs, inLine+1), make([]redis.Conn, len(addrs))
		for i, addr := range addrs {
			conn, err := redis.Dial("tcp", addr)
			require.NoError(b, err)
			b.Cleanup(func() { assert.NoError(b, conn.Close()) })
			all[i] = conn
		}
		rounds, fresh, wrong := 0, 0, 0
		for range freshRounds {
			fresh += inversions(oneByOne(b, all, lockers))
		}
		for b.Loop() {
			rounds++
			wrong += inversions(oneByOne(b, all, lockers))
		}
		const pairs = inLine * (inLine - 1) / 2
		b.ReportMetric(100*float64(fresh)/(freshRounds*pairs), "fresh-wrong-%")
		b.ReportMetric(100*float64(wrong)/float64(rounds*pairs), "wrong-%")
	})
}

// oneByOne returns the order in which the processes get the lock, by when they came.
func oneByOne(b *testing.B, servers []redis.Conn, lockers []*redlock.Locker) (order []int) {
	holder, err := lockers[inLine].Lock(ctx, hotName)
	require.NoError(b, err)
	var (
		waiting sync.WaitGroup
		mu      sync.Mutex
	)
	for i, locker := range lockers[:inLine] {
		before := commandCalls(b, servers, "publish")
		waiting.Go(func() {
			lock, err := locker.Lock(ctx, hotName)
			if !assert.NoError(b, err) {
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			<-time.After(moveHold)
			assert.NoError(b, lock.Unlock(ctx))
		})
		late := time.After(lateMessage)
		for !isOver(late) && commandCalls(b, servers, "publish") == before {
			<-time.After(time.Millisecond)
		}
	}
	require.NoError(b, holder.Unlock(ctx))
	waiting.Wait()
	return order
}

// inversions returns how many pairs are in the wrong order.
func inversions(order []int) (n int) {
	for i, later := range order {
		for _, earlier := range order[:i] {
			if earlier > later {
				n++
			}
		}
	}
	return n
}

func TestEachPairInTheWrongOrderCountsOnce(t *testing.T) {
	for want, order := range map[int][]int{0: {0, 1, 2, 3}, 1: {0, 2, 1, 3}, 3: {3, 0, 1, 2}, 6: {3, 2, 1, 0}} {
		assert.Equal(t, want, inversions(order), order)
	}
}
