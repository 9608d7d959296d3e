package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

func TestCluster_CommandsThatLookAtServersRefuseItsNodes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"list"}, {"doctor", "--restart-guard=1m"}, {"web"}, {"demo"}} {
		code, out, problems := call(t.Context(), append(args, "--nodes=redis+cluster://127.0.0.1:1,127.0.0.1:2/?nodes=3")...)
		require.Contains(t, []int{exitUsage, exitInternal}, code, out)
		require.Contains(t, problems, "--nodes: ", args)
	}
}

func TestCluster_LocksAreTakenThere(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	flags := []string{"--nodes=" + c.URL(3), "--timeout=10s"}
	code, _, problems := call(t.Context(), with(flags, "try", "job", "--ttl=100ms", "--restart-guard=100ms", "--wait=20s")...)
	require.Zero(t, code, problems)
	code, out, problems := call(t.Context(), with(flags, "inspect", "job")...)
	require.Zero(t, code, problems)
	require.Contains(t, out, "q2/3.9@") // it may have expired by now
}
