package testredis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestMemory_KeepsItsKeysAndItsAddressWhileStopped(t *testing.T) {
	s, err := testredis.NewMemory()
	require.NoError(t, err)
	defer s.Stop()
	addr := s.Addr()
	c, err := redis.DialURL(s.URL())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Do("SET", "key", "value", "PX", time.Hour.Milliseconds())
	require.NoError(t, err)

	s.Stop()
	s.Stop()
	_, err = c.Do("PING")
	require.Error(t, err, "the connection that was open is cut")
	_, err = s.Do("PING")
	require.Error(t, err)

	require.NoError(t, s.Start())
	require.NoError(t, s.Start())
	value, err := redis.String(s.Do("GET", "key"))
	require.NoError(t, err)
	require.Equal(t, "value", value)
	require.Equal(t, addr, s.Addr())
}

func TestMemory_ExpiresKeysInRealTime(t *testing.T) {
	s, err := testredis.NewMemory()
	require.NoError(t, err)
	defer s.Stop()
	begin := time.Now()
	_, err = s.Do("SET", "key", "value", "PX", 50)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := redis.String(s.Do("GET", "key"))
		return errors.Is(err, redis.ErrNil)
	}, 30*time.Second, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond, "not before they are over")
}
