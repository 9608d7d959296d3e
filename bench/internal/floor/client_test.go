package floor_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/bench/internal/floor"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs the test with a client of each kind on three servers.
func each(t *testing.T, test func(*testing.T, []testredis.Server, *floor.Client)) {
	for _, writing := range []floor.Writing{floor.Direct, floor.Queued, floor.Gathered} {
		t.Run(fmt.Sprint(writing), func(t *testing.T) {
			servers := testredis.Mini(t, 3)
			c, err := floor.Dial(addrs(servers), 10*time.Second, writing)
			require.NoError(t, err)
			test(t, servers, c)
		})
	}
}

func addrs(servers []testredis.Server) []string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr()
	}
	return all
}

func TestALockIsOnEveryNodeUntilItIsReleased(t *testing.T) {
	each(t, func(t *testing.T, servers []testredis.Server, c *floor.Client) {
		token, err := c.Acquire("job")
		require.NoError(t, err)
		_, err = c.Acquire("job")
		require.Error(t, err, "it is taken")
		require.NoError(t, c.Release("job", token))
		require.Error(t, c.Release("job", token), "it is gone")

		token, err = c.Acquire("job")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		for _, s := range servers {
			value, err := s.Do("GET", "job")
			require.NoError(t, err)
			assert.Equal(t, string(token[:]), string(value.([]byte)), "a node behind the majority has it too")
			ttl, err := s.Do("PTTL", "job")
			require.NoError(t, err)
			assert.InDelta(t, 10_000, ttl, 9_999)
		}
	})
}

func TestManyCallersShareAClient(t *testing.T) {
	each(t, func(t *testing.T, servers []testredis.Server, c *floor.Client) {
		var running sync.WaitGroup
		for i := range 8 {
			running.Go(func() {
				for range 50 {
					token, err := c.Acquire(fmt.Sprint(i))
					if assert.NoError(t, err) {
						assert.NoError(t, c.Release(fmt.Sprint(i), token))
					}
				}
			})
		}
		running.Wait()
		require.NoError(t, c.Close())
		for _, s := range servers {
			size, err := s.Do("DBSIZE")
			require.NoError(t, err)
			assert.Zero(t, size)
		}
	})
}

func TestServersThatAreGoneRefuse(t *testing.T) {
	each(t, func(t *testing.T, servers []testredis.Server, c *floor.Client) {
		defer c.Close()
		servers[0].Stop()
		token, err := c.Acquire("job")
		require.NoError(t, err, "a majority is there")
		servers[1].Stop()
		require.Error(t, c.Release("job", token))

		_, err = floor.Dial(addrs(servers), time.Second, floor.Queued)
		require.Error(t, err)
	})
}
