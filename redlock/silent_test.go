package redlock_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// bubbleClock is the time of a bubble of synctest.
type bubbleClock struct{}

func (bubbleClock) Now() time.Time { return time.Now().Round(0) }

func (bubbleClock) AfterFunc(d time.Duration, f func()) clock.Timer { return time.AfterFunc(d, f) }

// ice stops servers in a bubble: the servers read what has arrived when the ice is gone.
type ice struct {
	mu   sync.Mutex
	gone chan struct{} // nil while there is no ice
}

// form stops the servers until gone is closed.
func (i *ice) form(gone chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.gone = gone
}

// wait waits until there is no ice.
func (i *ice) wait() {
	i.mu.Lock()
	gone := i.gone
	i.mu.Unlock()
	if gone != nil {
		<-gone
	}
}

// icy is the server's end of a connection. The other end can write while the server is stopped, as to a socket.
type icy struct {
	net.Conn
	on      *ice
	arrived chan []byte
	rest    []byte // of the last of arrived
}

// listen takes what the other end writes, until the connection ends.
func (c *icy) listen() {
	defer close(c.arrived)
	for {
		p := make([]byte, 4096)
		n, err := c.Conn.Read(p)
		if err != nil {
			return
		}
		c.arrived <- p[:n]
	}
}

func (c *icy) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		c.rest = <-c.arrived
		c.on.wait()
	}
	if len(c.rest) == 0 {
		return 0, net.ErrClosed
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

const bubbleTimeout = time.Second // the node timeout in a bubble

// inBubble runs a test in a bubble, with a Locker over three servers. freeze freezes two of them, and returns when the nodes have
// found them silent.
func inBubble(t *testing.T, maxOverdue time.Duration, test func(t *testing.T, locker *redlock.Locker, freeze func())) {
	synctest.Test(t, func(t *testing.T) {
		frozen, servers := &ice{}, map[string]*miniredis.Miniredis{}
		var urls []string
		for i := range 3 {
			db := miniredis.NewMiniRedis()
			require.NoError(t, db.Start())
			db.Server().Close() // the listener: no connection comes from outside of the bubble
			host := fmt.Sprint("node-", i)
			servers[host+":6379"] = db
			urls = append(urls, "redis://"+host)
		}
		locker, err := redlock.Open(urls, redlock.WithClock(bubbleClock{}), redlock.TTL(long),
			pool.WithTimeout(bubbleTimeout), pool.WithMaxOverdue(maxOverdue),
			pool.WithDialer(func(_ context.Context, _, address string) (net.Conn, error) {
				client, server := net.Pipe()
				end := &icy{Conn: server, on: &ice{}, arrived: make(chan []byte, 1000)}
				if address != "node-2:6379" {
					end.on = frozen
				}
				go end.listen()
				servers[address].Server().ServeConn(end)
				return client, nil
			}))
		require.NoError(t, err)
		gone := make(chan struct{})
		t.Cleanup(func() {
			close(gone)
			assert.NoError(t, locker.Close())
			for _, db := range servers {
				db.Close()
			}
		})
		test(t, locker, func() {
			synctest.Wait() // all nodes have the keys
			frozen.form(gone)
			_, err := locker.TryLock(t.Context(), "finds that the nodes are silent")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorIs(t, err, nodeerr.ErrTimeout)
		})
	})
}

// ends are ways to give up many locks. Each takes the locks of the names, and returns what gives them up, while no majority answers.
var ends = map[string]func(t *testing.T, locker *redlock.Locker, names []string) func(){
	"Unlock": func(t *testing.T, locker *redlock.Locker, names []string) func() {
		var locks []*redlock.Lock
		for _, name := range names {
			lock, err := locker.TryLock(t.Context(), name)
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		return func() {
			for _, lock := range locks {
				require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNoQuorum)
			}
		}
	},
	"Unlock of Locks": func(t *testing.T, locker *redlock.Locker, names []string) func() {
		var all []*redlock.Locks
		for two := range slices.Chunk(names, 2) {
			locks, err := locker.TryLockAll(t.Context(), two)
			require.NoError(t, err)
			all = append(all, locks)
		}
		return func() {
			for _, locks := range all {
				require.ErrorIs(t, locks.Unlock(t.Context()), redlock.ErrNoQuorum)
			}
		}
	},
	"Close": func(t *testing.T, locker *redlock.Locker, names []string) func() {
		wait := whileFunctionsRun(t, locker, names)
		return func() {
			require.NoError(t, locker.Close())
			wait()
		}
	},
	"Shutdown": func(t *testing.T, locker *redlock.Locker, names []string) func() {
		wait := whileFunctionsRun(t, locker, names)
		return func() {
			require.NoError(t, locker.Shutdown(context.WithoutCancel(t.Context())))
			wait()
		}
	},
}

// whileFunctionsRun returns when functions of Do hold the locks. They return when their contexts end, and wait waits for that.
func whileFunctionsRun(t *testing.T, locker *redlock.Locker, names []string) (wait func()) {
	var began, ended sync.WaitGroup
	began.Add(len(names))
	for _, name := range names {
		ended.Go(func() {
			err := locker.Do(t.Context(), name, func(ctx context.Context, _ *redlock.Lock) error {
				began.Done()
				<-ctx.Done()
				return nil
			})
			assert.ErrorIs(t, err, redlock.ErrNoQuorum)
		})
	}
	began.Wait()
	return ended.Wait
}

// The danger: the end of a program with many locks takes a node timeout for each.
func TestSilence_TheEndsOfManyLocksDoNotTakeANodeTimeoutEach(t *testing.T) {
	t.Parallel()
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprint("name ", i)
	}
	for name, take := range ends {
		for _, maxOverdue := range []time.Duration{bubbleTimeout / 2, bubbleTimeout, long} {
			t.Run(fmt.Sprint(name, " with ", maxOverdue), func(t *testing.T) {
				t.Parallel()
				inBubble(t, maxOverdue, func(t *testing.T, locker *redlock.Locker, freeze func()) {
					most := 2 * bubbleTimeout // of the releases, and of the nodes, which are closed
					switch {
					case !strings.HasPrefix(name, "Unlock"):
					case maxOverdue == long:
						most = bubbleTimeout
					default: // each of the two nodes that are silent may be waited for once more, when its connection was cut
						most = 3 * bubbleTimeout
					}
					end := take(t, locker, names)
					freeze()
					start := time.Now()
					end()
					assert.LessOrEqual(t, time.Since(start), most)
				})
			})
		}
	}
}
