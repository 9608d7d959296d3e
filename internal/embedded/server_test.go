package embedded_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, s *embedded.Server, addr string) redis.Conn {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, s.Serve(l))
	c, err := redis.Dial("tcp", s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAStoppedServerCutsItsConnectionsAndKeepsItsKeysAndItsAddress(t *testing.T) {
	s := embedded.New()
	defer s.Stop()
	require.False(t, s.Running())
	c := serve(t, s, "127.0.0.1:0")
	require.True(t, s.Running())
	_, err := c.Do("SET", "key", "value", "PX", time.Hour.Milliseconds())
	require.NoError(t, err)

	addr := s.Addr()
	s.Stop()
	s.Stop()
	require.False(t, s.Running())
	_, err = c.Do("PING")
	require.Error(t, err)
	_, err = redis.Dial("tcp", addr)
	require.Error(t, err)

	value, err := redis.String(serve(t, s, addr).Do("GET", "key"))
	require.NoError(t, err)
	require.Equal(t, "value", value)
	require.Equal(t, addr, s.Addr())
}

func TestTTLsRunInRealTime(t *testing.T) {
	s := embedded.New()
	defer s.Stop()
	c := serve(t, s, "127.0.0.1:0")
	begin := time.Now()
	_, err := c.Do("SET", "key", "value", "PX", 50)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := redis.String(c.Do("GET", "key"))
		return errors.Is(err, redis.ErrNil)
	}, 30*time.Second, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond, "not before they are over")
}
