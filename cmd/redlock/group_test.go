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
