package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// patience are flags that no busy machine makes impatient, and with which nothing is left out.
var patience = []string{"--timeout=30s", "--node-timeout=30s", "--key-prefix=lock:"}

// durableServers starts servers that doctor finds nothing wrong with, but for the args.
func durableServers(t *testing.T, n int, args ...string) []*testredis.Process {
	t.Helper()
	return testredis.Real(t, n, append([]string{"--appendonly", "yes", "--appendfsync", "always"}, args...)...)
}

// callDoctor runs doctor on servers.
func callDoctor(t *testing.T, servers []*testredis.Process, args ...string) (code int, out, errors string) {
	t.Helper()
	return call(t.Context(), slices.Concat([]string{"doctor", "--nodes=" + strings.Join(testredis.URLs(servers), ",")}, patience, args)...)
}

func TestDoctor_PrintsOneLineIfNothingIsWrong(t *testing.T) {
	code, out, errors := callDoctor(t, durableServers(t, 5), "--fencing")
	require.Zero(t, code, out)
	require.Regexp(t, `^5 nodes, \d+ checks: nothing to fix\n$`, out)
	require.Empty(t, errors)
}

func TestDoctor_PrintsABlockForEachFindingAndFailsWithTheWorst(t *testing.T) {
	servers := durableServers(t, 3)
	do(t, servers[0:1], "CONFIG", "SET", "timeout", 5)
	code, out, errors := callDoctor(t, servers)
	require.Equal(t, exitWarnings, code, out)
	require.Empty(t, errors)

	do(t, servers[1:2], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	code, out, errors = callDoctor(t, servers)
	require.Equal(t, exitFaults, code, out)
	require.Empty(t, errors)
	blocks := strings.Split(out, "\n\n")
	require.Len(t, blocks, 3)
	require.Equal(t, []string{
		"FAULT  " + servers[1].Addr() + "  eviction",
		`  what  maxmemory-policy is "allkeys-lru"`,
		"  why   Locks are evicted when memory is short, and nobody notices until there are two holders.",
		"  fix   CONFIG SET maxmemory-policy noeviction (also in the file)",
		"  docs  https://github.com/quorumlock/quorumlock/blob/main/docs/operations.md#server-settings",
	}, strings.Split(blocks[0], "\n"))
	require.True(t, strings.HasPrefix(blocks[1], "WARNING  "+servers[0].Addr()+"  timeout\n"), blocks[1])
	require.Regexp(t, `^3 nodes, \d+ checks: 1 fault, 1 warning\n$`, blocks[2])
}

func TestDoctor_PrintsAFindingOnSeveralNodesOnceAndCountsWhatItPrints(t *testing.T) {
	servers := durableServers(t, 5)
	do(t, servers[1:], "CONFIG", "SET", "timeout", 5)
	code, out, _ := callDoctor(t, servers)
	require.Equal(t, exitWarnings, code, out)
	require.Equal(t, 1, strings.Count(out, "WARNING  "))
	require.Contains(t, out, "WARNING  "+servers[1].Addr()+", "+servers[2].Addr()+", "+servers[3].Addr()+", "+servers[4].Addr()+"  timeout\n")
	require.Contains(t, out, ": 0 faults, 1 warning on 4 nodes\n")

	do(t, servers[:3], "CONFIG", "SET", "tracking-table-max-keys", 10)
	do(t, servers[1:2], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	code, out, _ = callDoctor(t, servers)
	require.Equal(t, exitFaults, code, out)
	require.Equal(t, 2, strings.Count(out, "WARNING  "))
	require.Contains(t, out, ": 1 fault, 2 warnings on 5 nodes\n")
}

func TestDoctor_PrintsTheReportAsJSON(t *testing.T) {
	servers := durableServers(t, 3)
	servers[2].Stop()
	do(t, servers[:2], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	code, out, errors := callDoctor(t, servers, "--json")
	require.Equal(t, exitFaults, code, out)
	require.Empty(t, errors)
	var report doctor.Document
	in := json.NewDecoder(strings.NewReader(out))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&report))
	require.False(t, in.More())
	require.Len(t, report.Nodes, 3)
	require.Len(t, report.Findings, 2, "each once")
	require.Equal(t, []string{servers[2].Addr()}, report.Findings[0].Nodes)
	require.Equal(t, []string{servers[0].Addr(), servers[1].Addr()}, report.Findings[1].Nodes)
	for _, key := range []string{`"nodes": [`, `"unexamined": []`, `"check": "reachable"`, `"severity": "fault"`, `"p50_ms": `, `"uptime_s": `} {
		require.Contains(t, out, key)
	}
}

func TestDoctor_SaysWhatItCouldNotExamineAndWhatThatTakes(t *testing.T) {
	servers := durableServers(t, 3)
	do(t, servers, "ACL", "SETUSER", "default", "-config", "-pubsub")
	code, out, _ := callDoctor(t, servers, "--durable=all", "--only=sentinel,timeout,buffer-limit")
	require.Zero(t, code, out)
	require.Equal(t, `Not examined on 3 nodes: sentinel. That takes the right +pubsub|numsub.
Not examined on 3 nodes: buffer-limit, timeout. That takes the right +config|get.
Run doctor once more as an administrator of the servers, who has these rights.
3 nodes, 3 checks: nothing to fix
`, out)
}

func TestDoctor_PreparesServersOnDemand(t *testing.T) {
	servers := durableServers(t, 3)
	flags := []string{"--restart-guard=1h", "--only=quarantine"}
	code, out, _ := callDoctor(t, servers, flags...)
	require.Equal(t, exitWarnings, code, out)
	require.Contains(t, out, "it has no stamp")
	require.Contains(t, out, "redlock doctor --prepare")
	stamped := func(server *testredis.Process) any {
		exists, err := server.Do("EXISTS", "quorumlock:since:"+server.Addr())
		require.NoError(t, err)
		return exists
	}
	for _, server := range servers {
		require.EqualValues(t, 0, stamped(server))
	}
	code, out, _ = callDoctor(t, servers, append(flags, "--prepare", "--durable="+servers[0].Addr())...)
	require.Equal(t, exitWarnings, code, out)
	require.Regexp(t, `(?m)^WARNING  `+servers[1].Addr()+`.*  quarantine$`, out)
	require.Contains(t, out, "has been in use as this node for ")
	require.Contains(t, out, "3 nodes, 2 checks")
	for i, server := range servers {
		require.EqualValues(t, min(i, 1), stamped(server), "the first one is durable")
	}
}

func TestDoctor_NeverPrintsWhatATerminalWouldActOn(t *testing.T) {
	servers := durableServers(t, 1)
	do(t, servers[0:1], "SET", "lock:\x1b]0;title\a\x9b2J\u202e", "x")
	for _, args := range [][]string{nil, {"--json"}} {
		code, out, _ := callDoctor(t, servers, args...)
		require.Equal(t, exitWarnings, code)
		require.Contains(t, out, "keys-no-ttl")
		require.NotContains(t, strings.ReplaceAll(out, "\n", ""), "\x1b")
		require.NotContains(t, out, "\a")
		require.NotContains(t, out, "\u202e")
	}
}

func TestDoctor_RefusesFlagsThatDoNotFit(t *testing.T) {
	refuses(t, []string{"doctor", "--nodes=redis://a,redis://b"}, map[string][]string{
		"between 0s and 336h, not -1s":            {"--restart-guard=-1s"},
		"between 0s and 336h, not 337h":           {"--restart-guard=337h"},
		"--prepare needs --restart-guard":         {"--prepare"},
		"--node-timeout must be between 1ms and ": {"--node-timeout=0"},
		"--max-ttl must be between 0s and ":       {"--max-ttl=-1s"},
		`--only: "evictoin" is no check`:          {"--only=eviction,evictoin"},
		`--durable: "b:6380" is not the address`:  {"--durable=a:6379,b:6380"},
	})
	refuses(t, []string{"doctor"}, map[string][]string{"no nodes: set --nodes": nil})
}
