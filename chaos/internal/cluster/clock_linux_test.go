package cluster_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
)

// ahead returns how far the server's clock is ahead of that of this process, and by how much that may be wrong.
func ahead(t *testing.T, s *cluster.Server) (offset, unsure time.Duration) {
	t.Helper()
	before := time.Now()
	reply, err := redis.Int64s(s.Do("TIME"))
	require.NoError(t, err)
	after := time.Now()
	return time.Unix(reply[0], reply[1]*1000).Sub(before), after.Sub(before) + time.Millisecond
}

func assertAhead(t *testing.T, want time.Duration, s *cluster.Server) {
	t.Helper()
	got, unsure := ahead(t, s)
	assert.InDelta(t, want.Seconds(), got.Seconds(), unsure.Seconds())
}

func TestClock_IsAheadByTheOffset(t *testing.T) {
	c := start(t, 0, make([]cluster.ServerConfig, 2)...)
	s := c.Server(0)
	assertAhead(t, 0, s)
	for _, offset := range []time.Duration{time.Hour, -time.Hour, 5 * time.Millisecond} {
		s.SetClock(offset, 1)
		assertAhead(t, offset, s)
		assert.Equal(t, offset, s.ClockOffset())
		assertAhead(t, 0, c.Server(1))
	}
	s.SetClock(time.Hour, 1)
	s.Stop()
	require.NoError(t, s.Start())
	assertAhead(t, time.Hour, s)
}

func TestClock_StepExpiresKeysEarly(t *testing.T) {
	c := start(t, 0, cluster.ServerConfig{})
	_, err := c.Server(0).Do("SET", "key", "1", "PX", "600000")
	require.NoError(t, err)
	c.Server(0).SetClock(599*time.Second-soon, 1)
	assert.True(t, has(c.Server(0), "key", "1")())
	c.Server(0).SetClock(601*time.Second, 1)
	assert.False(t, has(c.Server(0), "key", "1")())
}

func TestClock_DriftsWithTheRateAndDoesNotJumpWithIt(t *testing.T) {
	c := start(t, 0, cluster.ServerConfig{})
	s := c.Server(0)
	s.SetClock(time.Minute, 1.005)
	began := time.Now()
	eventually(t, func() bool { return time.Since(began) > time.Second })
	want := time.Minute + time.Duration(0.005*float64(time.Since(began)))
	got, unsure := ahead(t, s)
	assert.InDelta(t, want.Seconds(), got.Seconds(), unsure.Seconds())
	assert.Greater(t, got, time.Minute+4*time.Millisecond)
	s.SetClockRate(1)
	assertAhead(t, s.ClockOffset(), s)
	assert.Greater(t, s.ClockOffset(), time.Minute+4*time.Millisecond)

	conn, err := s.Conn()
	require.NoError(t, err)
	defer conn.Close()
	last := int64(0)
	for i := range 2000 { // while the rate changes
		s.SetClockRate(1 + float64(i%3-1)*0.5)
		reply, err := redis.Int64s(conn.Do("TIME"))
		require.NoError(t, err)
		now := reply[0]*1e6 + reply[1]
		require.GreaterOrEqual(t, now, last)
		last = now
	}
}
