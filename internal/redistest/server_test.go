package redistest_test

import (
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
)

// both runs a test on each kind of server.
func both(t *testing.T, n int, test func(t *testing.T, servers []redistest.Server)) {
	t.Run("miniredis", func(t *testing.T) { test(t, redistest.Mini(t, n)) })
	t.Run("redis-server", func(t *testing.T) { test(t, redistest.Servers(redistest.Real(t, n))) })
}

func TestServersAreIndependentOfEachOther(t *testing.T) {
	both(t, 3, func(t *testing.T, servers []redistest.Server) {
		for i, s := range servers {
			reply, err := s.Do("SET", "key", i)
			require.NoError(t, err)
			assert.Equal(t, "OK", reply)
		}
		for i, s := range servers {
			value, err := redis.Int(s.Do("GET", "key"))
			require.NoError(t, err)
			assert.Equal(t, i, value)
		}
	})
}

func TestURLsNameEachServerInOrder(t *testing.T) {
	both(t, 2, func(t *testing.T, servers []redistest.Server) {
		assert.Equal(t, []string{"redis://" + servers[0].Addr(), "redis://" + servers[1].Addr()}, redistest.URLs(servers))
		for _, url := range redistest.URLs(servers) {
			c, err := redis.DialURL(url)
			require.NoError(t, err)
			assert.NoError(t, c.Close())
		}
	})
}

func TestAStoppedServerIsGoneAndComesBackEmptyOnTheSameAddress(t *testing.T) {
	both(t, 1, func(t *testing.T, servers []redistest.Server) {
		s := servers[0]
		addr := s.Addr()
		script, err := redis.String(s.Do("SCRIPT", "LOAD", "return 1"))
		require.NoError(t, err)
		_, err = s.Do("SET", "key", "value")
		require.NoError(t, err)
		c, err := redis.DialURL(s.URL())
		require.NoError(t, err)
		defer c.Close()

		s.Stop()
		_, err = c.Do("PING")
		require.Error(t, err, "the connection that was open is cut")
		_, err = s.Do("PING")
		require.Error(t, err, "and no new one can be made")
		s.Stop()

		for range 2 {
			s.Start() // the second time there is nothing to do
			require.Equal(t, addr, s.Addr())
			_, err = redis.String(s.Do("GET", "key"))
			require.ErrorIs(t, err, redis.ErrNil)
			_, err = s.Do("EVALSHA", script, 0)
			require.ErrorContains(t, err, "NOSCRIPT")
		}
	})
}

func TestAServerWhoseAddressWasTakenMeanwhileFailsTheTest(t *testing.T) {
	tb := &recorder{TB: t}
	servers := append(redistest.Mini(tb, 1), redistest.Servers(redistest.Real(tb, 1))...)
	for i, s := range servers {
		s.Stop()
		l, err := net.Listen("tcp", s.Addr())
		require.NoError(t, err)
		s.Start()
		assert.Len(t, tb.errors, i+1)
		require.NoError(t, l.Close())
		s.Start()
		_, err = s.Do("PING")
		require.NoError(t, err)
	}
	for _, message := range tb.errors {
		assert.Contains(t, message, "address already in use")
	}
}

func TestAKeyExpiresWhenItsTTLIsOverAndNotBefore(t *testing.T) {
	const ttl = 20 * time.Millisecond
	both(t, 1, func(t *testing.T, servers []redistest.Server) {
		c, err := redis.DialURL(servers[0].URL())
		require.NoError(t, err)
		defer c.Close()
		for range 10 {
			<-time.After(ttl) // idle time must not be charged to a key that is set after it
			sent := time.Now()
			_, err := c.Do("SET", "key", "value", "PX", ttl.Milliseconds())
			require.NoError(t, err)
			for err == nil {
				require.Less(t, time.Since(sent), ttl+5*time.Second, "the key is still there")
				_, err = redis.String(c.Do("GET", "key"))
			}
			require.ErrorIs(t, err, redis.ErrNil)
			require.GreaterOrEqual(t, time.Since(sent), ttl)
		}
	})
}

func TestAScriptSeesRealTime(t *testing.T) {
	both(t, 1, func(t *testing.T, servers []redistest.Server) {
		s := servers[0]
		_, err := s.Do("SET", "key", "value", "PX", 10_000)
		require.NoError(t, err)
		<-time.After(20 * time.Millisecond)
		left, err := redis.Int(s.Do("EVAL", "return redis.call('PTTL', KEYS[1])", 1, "key"))
		require.NoError(t, err)
		assert.LessOrEqual(t, left, 9_980)
		assert.Greater(t, left, 0)
	})
}
