package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	slots "github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// Every command works on groups that fail over as on servers.
func TestGroups_AreNodesForEachCommand(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	s := testredis.NewSentinels(t, names...)
	var flags []string
	for _, name := range names {
		testredis.InUse(t, s.Group(name).Primary(), name, time.Hour)
		flags = append(flags, "--nodes="+s.URL(name)+"/0")
	}
	flags = append(flags, "--key-prefix=lock:", "--timeout=10s")
	ok := func(args ...string) string {
		code, out, problems := call(t.Context(), with(flags, args...)...)
		require.Zero(t, code, "%q: %s%s", args, out, problems)
		return out
	}
	token := ok("try", "job", "--ttl=10m")
	require.Contains(t, ok("inspect", "job"), "Held by a majority")
	require.Contains(t, ok("list"), "job")
	require.Contains(t, ok("list"), "3 of 3 nodes answered")
	ok("extend", "job", "--ttl=20m", "--token="+token[:len(token)-1])
	s.Group("a").FailOver()
	require.Contains(t, ok("inspect", "job"), "Held by a majority")
	ok("release", "job", "--token="+token[:len(token)-1])
	ok("try", "job", "--ttl=10m", "--restart-guard=30m")
	ok("unlock", "job", "--force", "--yes")
	code, out, _ := call(t.Context(), with(flags, "doctor")...)
	require.Equal(t, exitUsage, code, out)
	code, out, _ = call(t.Context(), with(flags, "doctor", "--restart-guard=10m", "--json", "--only=sentinels,role")...)
	require.Zero(t, code, out)
	require.Contains(t, out, "a@"+s.Addrs()[0])
}

// Every command but the demo works on the nodes of a cluster as on servers.
func TestCluster_MakesNodesForEachCommand(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	flags := []string{"--nodes=" + c.URL(3), "--key-prefix=lock:", "--timeout=10s"}
	ok := func(args ...string) string {
		code, out, problems := call(t.Context(), with(flags, args...)...)
		require.Zero(t, code, "%q: %s%s", args, out, problems)
		return out
	}
	for i := range 3 {
		n := slots.New(nil).Node(i, 3)
		owner := c.Owner(n.Slot())
		left := 60*24*time.Hour - time.Hour
		_, err := owner.Do("SET", n.Tag()+testredis.Stamps+n.Name(), testredis.OwnStamp(t, owner), "PX", left.Milliseconds())
		require.NoError(t, err)
	}
	token := ok("try", "job", "--ttl=10m")
	require.Contains(t, ok("inspect", "job"), "q2/3.9@")
	list := ok("list")
	require.Contains(t, list, "job")
	require.Contains(t, list, "3/3")
	require.Contains(t, list, "1 lock, 3 of 3 nodes answered")
	require.NotContains(t, list, "{q")
	ok("extend", "job", "--ttl=20m", "--token="+token[:len(token)-1])
	ok("unlock", "job", "--force", "--yes")
	require.Contains(t, ok("list"), "0 locks")

	code, out, _ := call(t.Context(), with(flags, "doctor")...)
	require.Equal(t, exitUsage, code, out)
	code, out, _ = call(t.Context(), with(flags, "doctor", "--restart-guard=10m", "--durable=all")...)
	require.Equal(t, exitUsage, code, out)
	out = ok("doctor", "--restart-guard=10m", "--only=role,cluster,cluster-servers,replicas,duplicate,rights-locks,lock")
	require.Contains(t, out, "nothing to fix")

	ended, end := context.WithCancel(t.Context())
	end()
	code, out, problems := call(ended, with(flags, "web", "--listen=127.0.0.1:0")...)
	require.Zero(t, code, problems)
	require.Contains(t, out, "redlock: http://127.0.0.1:")
	code, _, problems = call(t.Context(), "demo", flags[0])
	require.NotZero(t, code)
	require.Contains(t, problems, "--nodes: the demo needs servers, and no groups or clusters")
}
