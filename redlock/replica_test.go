package redlock_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// replicate makes servers replicas of the first one, and waits until they have its data.
func (c *cluster) replicate(replicas ...int) {
	c.tb.Helper()
	host, port, err := net.SplitHostPort(c.servers[0].Addr())
	require.NoError(c.tb, err)
	for _, i := range replicas {
		c.do(i, "REPLICAOF", host, port)
	}
	for _, i := range replicas {
		eventually(c.tb, func() bool { return c.info(i, "replication", "master_link_status") == "up" }, "replica %d has the data", i)
	}
}

// requireReplica checks that the reason why a node did not answer is that it is a replica.
func requireReplica(t *testing.T, err error) {
	t.Helper()
	refusal := as[*nodeerr.ServerError](t, err)
	require.Equal(t, "READONLY", refusal.Code)
	require.ErrorContains(t, err, "the server is a replica")
}

// The danger: two replicas show the lock of their master, which only one node has granted, and three of three nodes seem to hold it.
func TestReplica_WhatItHoldsIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before   bool   // it is one before the Locker connects
		readOnly string // replica-read-only
	}{
		"before the connection":           {true, "yes"},
		"while connected":                 {false, "yes"},
		"that may be written to":          {true, "no"},
		"that is written to, made lately": {false, "no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := onReal(t, 3, "--repl-diskless-sync-delay", "0")
			c.each(func(i int) { c.do(i, "CONFIG", "SET", "replica-read-only", test.readOnly) })
			locker := c.locker()
			if !test.before {
				inspect(t, locker, "name")
			}
			c.replicate(1, 2)
			c.do(0, "SET", "name", "token", "PX", long.Milliseconds())
			c.each(func(i int) {
				eventually(t, func() bool { return c.value(i, "name") == "token" }, "server %d shows it", i)
			})

			s, err := locker.Inspect(t.Context(), "name")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, "1 of 3 nodes answered, 2 needed")
			require.Equal(t, redlock.VerdictUnknown, s.Verdict)
			require.Empty(t, s.Token)
			require.NoError(t, s.Nodes[0].Err)
			requireReplica(t, s.Nodes[1].Err)
			requireReplica(t, s.Nodes[2].Err)

			require.ErrorIs(t, errOf(locker.Attach(t.Context(), "name", "token")), redlock.ErrNoQuorum)

			// A replica that holds nothing does not show either that nobody holds the lock.
			removed, err := locker.ForceUnlock(t.Context(), "nothing")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			requireReplica(t, removed.Nodes[1].Err)

			for i := range 2 { // a node whose role changes back votes again, on the same connection
				c.do(i+1, "REPLICAOF", "NO", "ONE")
			}
			require.Equal(t, "token", inspect(t, locker, "name").Token)
		})
	}
}

// A user who may not use INFO is told what a key holds, and a server that cannot write now is still a master.
func TestReplica_IsWhatSaysSo(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string][][]any{
		"no right to INFO": {{"ACL", "SETUSER", "default", "-info"}},
		"no memory":        {{"CONFIG", "SET", "maxmemory", "1"}},
		"no replicas":      {{"CONFIG", "SET", "min-replicas-to-write", "1"}},
	}, func(t *testing.T, commands [][]any) {
		c := onReal(t, 1)
		c.do(0, "SET", "name", "token", "PX", long.Milliseconds())
		for _, command := range commands {
			c.do(0, command[0].(string), command[1:]...)
		}
		require.Equal(t, "token", inspect(t, c.locker(), "name").Token)
	})
}

// The danger: a server that still loads its data is taken for one that holds nothing.
func TestLoading_IsNoAnswer(t *testing.T) {
	t.Parallel()
	// A key takes so long that no test lives to see the last one; the server answers after each.
	c := onReal(t, 3, "--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024", "--rdbcompression", "no")
	c.doAll("SET", "name", "token", "PX", long.Milliseconds())
	for i := range 2 {
		c.do(i, "EVAL", "for i = 1, 3000 do redis.call('SET', 'key' .. i, string.rep('x', 1100)) end", 0)
		c.do(i, "SAVE")
		c.servers[i].Stop()
		c.servers[i].Start()
		require.Equal(t, "1", c.info(i, "persistence", "loading"))
	}
	locker := c.locker()
	s, err := locker.Inspect(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.Equal(t, "token", s.Nodes[2].Token)
	for _, n := range s.Nodes[:2] {
		require.ErrorContains(t, n.Err, "LOADING")
	}
	require.ErrorIs(t, errOf(locker.ForceUnlock(t.Context(), "nothing")), redlock.ErrNoQuorum)
}
