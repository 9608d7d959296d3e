package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// testScenario makes parties on n embedded nodes.
func testScenario(t *testing.T, n int) *scenario {
	t.Helper()
	servers, err := testredis.Embed(n, nil)
	require.NoError(t, err)
	s := &scenario{
		n:    n,
		show: &show{w: io.Discard}, urls: testredis.URLs(servers), network: newNetwork(),
		name: "name", ttl: 10 * time.Second, timeout: 500 * time.Millisecond,
	}
	t.Cleanup(func() {
		assert.NoError(t, s.close())
		assert.NoError(t, testredis.Close(servers))
	})
	return s
}

func testParty(t *testing.T, s *scenario) *party {
	t.Helper()
	p, err := s.newParty("A")
	require.NoError(t, err)
	return p
}

func TestNetwork_DisconnectedNodeKeepsItsKeysAndIsReachableAfterReconnect(t *testing.T) {
	s := testScenario(t, 1)
	a := testParty(t, s)
	lock, err := a.locker.TryLock(t.Context(), "name")
	require.NoError(t, err)
	s.network.disconnect(strings.TrimPrefix(s.urls[0], "redis://"))
	err = lock.Extend(t.Context(), 10*time.Second)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	_, err = testParty(t, s).locker.TryLock(t.Context(), "name")
	require.ErrorIs(t, err, errUnreachable)

	s.network.reconnect()
	_, err = testParty(t, s).locker.TryLock(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrTaken)
}
