package redlock_test

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// otherWays returns URLs that lead to the server of a process in ways that look like another server.
func otherWays(t *testing.T, c *cluster) map[string]string {
	t.Helper()
	_, port, err := net.SplitHostPort(c.servers[0].Addr())
	require.NoError(t, err)
	socket := filepath.Join(c.processes[0].Dir(), "redis.sock")
	return map[string]string{
		"host name":                     fmt.Sprintf("redis://localhost:%s", port),
		"host name, another database":   fmt.Sprintf("redis://localhost:%s/1", port),
		"unix socket":                   "unix://" + socket,
		"unix socket, another database": "unix://" + socket + "?db=1",
	}
}

// eventuallyWithoutKeys waits until the servers that run are empty, all of their databases.
func (c *cluster) eventuallyWithoutKeys() {
	c.tb.Helper()
	for _, p := range c.processes {
		if p.PID() != 0 {
			eventually(c.tb, func() bool {
				keyspace, err := redis.String(p.Do("INFO", "keyspace"))
				return err == nil && !strings.Contains(keyspace, "keys=")
			}, "%s is empty", p.Addr())
		}
	}
}

// The danger: the same server configured twice under two names.
func TestTryLock_AServerUnderTwoNamesDoesNotCountTwice(t *testing.T) {
	t.Parallel()
	// The third node never comes up, so the server would need both of its votes.
	c := onReal(t, 2, "--unixsocket", "redis.sock")
	c.processes[1].Stop()
	for way, url := range otherWays(t, c) {
		t.Run(way, func(t *testing.T) {
			locker := lockerOver(t, open(t, []string{c.servers[0].URL(), url, c.servers[1].URL()}))
			for range 10 {
				_, err := locker.TryLock(t.Context(), "name")
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				refusal := as[*redlock.QuorumError](t, err)
				require.Len(t, refusal.Nodes, 3)
				// Which of the two votes comes first is open; the other one is refused with the first one's address.
				first, twin := refusal.Nodes[0], refusal.Nodes[1]
				if errors.Is(first.Err, nodeerr.ErrSameServer) {
					first, twin = twin, first
				}
				require.NotErrorIs(t, first.Err, nodeerr.ErrSameServer)
				require.ErrorIs(t, twin.Err, nodeerr.ErrSameServer)
				require.ErrorContains(t, twin.Err, first.Addr)
			}
			c.eventuallyWithoutKeys()
		})
	}
}

func TestTryLock_TwoDatabasesOfAServerCountOnce(t *testing.T) {
	t.Parallel()
	c := onReal(t, 2, "--unixsocket", "redis.sock")
	for way, url := range otherWays(t, c) {
		if !strings.HasSuffix(way, "another database") {
			continue // the server may say no to itself there, and no is then what counts
		}
		t.Run(way, func(t *testing.T) {
			locker := lockerOver(t, open(t, []string{c.servers[0].URL(), url, c.servers[1].URL()}))
			for range 10 {
				lock := take(t, locker, "name") // with the other server it is two of three
				require.NoError(t, lock.Extend(t.Context(), 2*long))
				require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
				require.NoError(t, lock.Unlock(t.Context()))
				c.eventuallyWithoutKeys()
			}
		})
	}
}
