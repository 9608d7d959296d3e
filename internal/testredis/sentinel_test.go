package testredis_test

import (
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// These are how long tests wait for what is bound to happen, and how often they look.
const waiting, tick = 30 * time.Second, 10 * time.Millisecond

// named returns whom a sentinel names as the primary of a group.
func named(t *testing.T, sentinel *testredis.Process, group string) string {
	t.Helper()
	addr, err := redis.Strings(sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", group))
	require.NoError(t, err)
	return net.JoinHostPort(addr[0], addr[1])
}

func set(t *testing.T, server *testredis.Process, key string) {
	t.Helper()
	_, err := server.Do("SET", key, "value")
	require.NoError(t, err)
}

func has(t *testing.T, server *testredis.Process, key string) bool {
	t.Helper()
	n, err := redis.Int(server.Do("EXISTS", key))
	require.NoError(t, err)
	return n == 1
}

// arrives waits until a replica has a key.
func arrives(t *testing.T, replica *testredis.Process, key string) {
	t.Helper()
	require.Eventually(t, func() bool { return has(t, replica, key) }, waiting, tick)
}

func TestSentinels_WatchEachGroup(t *testing.T) {
	s := testredis.NewSentinels(t, "a", "b")
	assert.Equal(t, "redis+sentinel://"+s.Addrs()[0]+","+s.Addrs()[1]+","+s.Addrs()[2]+"/b", s.URL("b"))
	for _, name := range []string{"a", "b"} {
		g := s.Group(name)
		for _, p := range s.Processes() {
			assert.Equal(t, g.Primary().Addr(), named(t, p, name))
		}
		assert.Len(t, g.Servers(), 3)
		assert.Equal(t, "2", testredis.Info(t, g.Primary(), "replication", "connected_slaves"))
		set(t, g.Primary(), name)
		for _, p := range g.Replicas() {
			arrives(t, p, name)
		}
	}
	assert.NotSame(t, s.Group("a").Primary(), s.Group("b").Primary())
	assert.False(t, has(t, s.Group("a").Primary(), "b"))
}

func TestGroup_FailsOverAndBack(t *testing.T) {
	s := testredis.NewSentinels(t, "a")
	g := s.Group("a")
	set(t, g.Primary(), "key")
	for _, p := range g.Replicas() {
		arrives(t, p, "key")
	}
	for range 2 {
		former := g.Primary()
		g.FailOver()
		require.NotSame(t, former, g.Primary())
		for _, p := range s.Processes() {
			assert.Equal(t, g.Primary().Addr(), named(t, p, "a"))
		}
		assert.Equal(t, "master", testredis.Info(t, g.Primary(), "replication", "role"))
		assert.True(t, has(t, g.Primary(), "key"))
		g.WaitForReplicas(g.Primary())
		assert.Equal(t, "slave", testredis.Info(t, former, "replication", "role"))
	}
}

func TestGroup_LosesTheWritesSinceLagWhenItFailsOverLate(t *testing.T) {
	s := testredis.NewSentinels(t, "a")
	g := s.Group("a")
	former := g.Primary()
	set(t, former, "kept")
	for _, p := range g.Replicas() {
		arrives(t, p, "kept")
	}
	g.Lag()
	set(t, former, "lost")
	g.FailOverLate()
	require.NotSame(t, former, g.Primary())
	assert.True(t, has(t, g.Primary(), "kept"))
	assert.False(t, has(t, g.Primary(), "lost"))
	set(t, g.Primary(), "later")

	former.Start()
	g.WaitForReplicas(g.Primary())
	assert.True(t, has(t, former, "later"))
	assert.False(t, has(t, former, "lost"))
}

func TestSentinelSetup_PassesArgumentsAndPasswords(t *testing.T) {
	setup := testredis.SentinelSetup{Password: "sentinels'", Args: []string{
		"--requirepass", "servers'", "--masterauth", "servers'", "--min-replicas-to-write", "2", "--min-replicas-max-lag", "1",
	}}
	s := setup.New(t, "a")
	c, err := redis.Dial("tcp", s.Addrs()[0])
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Do("PING")
	require.ErrorContains(t, err, "NOAUTH")

	g := s.Group("a")
	g.FailOver()
	g.WaitForReplicas(g.Primary())
	require.Eventually(t, func() bool { _, err := g.Primary().Do("SET", "key", "value"); return err == nil }, waiting, tick)
	g.Lag()
	_, err = g.Primary().Do("SET", "key", "value")
	require.ErrorContains(t, err, "NOREPLICAS")
}

func TestSentinels_AgreeWithoutOneOfThem(t *testing.T) {
	s := testredis.NewSentinels(t, "a")
	g := s.Group("a")
	s.Processes()[0].Freeze()
	former := g.Primary()
	former.Stop()
	next := g.WaitForPrimary(former)
	assert.Same(t, next, g.Primary())

	s.Processes()[0].Thaw()
	assert.Same(t, next, g.WaitForPrimary(former), "it learns who the primary is")
	s.Processes()[1].Stop()
	s.Processes()[1].Start()
	assert.Same(t, next, g.WaitForPrimary(former), "a sentinel that is started again knows what it knew")
}
