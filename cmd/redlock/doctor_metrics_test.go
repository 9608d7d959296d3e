//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/promtest"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// doctorFile returns the path of the only file of metrics in a folder.
func doctorFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.prom"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

// sortedAddrs are the addresses of servers as the label of a file has them.
func sortedAddrs(servers []*testredis.Process) string {
	var addrs []string
	for _, server := range servers {
		addrs = append(addrs, server.Addr())
	}
	slices.Sort(addrs)
	return strings.Join(addrs, ",")
}

func TestDoctor_WritesMetricsThatNodeExporterReads(t *testing.T) {
	servers := durableServers(t, 3)
	do(t, servers[1:2], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	do(t, servers[:1], "CONFIG", "SET", "timeout", 5)
	servers[2].Stop()
	dir, began := t.TempDir(), float64(time.Now().UnixMilli())/1000
	code, out, errors := callDoctor(t, servers, "--metrics-dir="+dir)
	require.Equal(t, exitFaults, code, out)
	require.Empty(t, errors)
	file := doctorFile(t, dir)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode(), "node_exporter is another user")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	promtest.Check(t, string(text))

	addrs := []string{servers[0].Addr(), servers[1].Addr(), servers[2].Addr()}
	common := `nodes="` + sortedAddrs(servers) + `",prefix="lock:"}`
	is := samplesOf(t, file)
	for sample, value := range map[string]float64{
		`redlock_probe_node_up{node="` + addrs[0] + `",`:                  1,
		`redlock_probe_node_up{node="` + addrs[2] + `",`:                  0,
		`redlock_probe_node_master{node="` + addrs[1] + `",`:              1,
		`redlock_doctor_findings{check="eviction",severity="fault",`:      1,
		`redlock_doctor_findings{check="eviction",severity="warning",`:    0,
		`redlock_doctor_findings{check="reachable",severity="fault",`:     1,
		`redlock_doctor_findings{check="timeout",severity="warning",`:     1,
		`redlock_doctor_findings{check="keys-no-ttl",severity="warning",`: 0,
		`redlock_doctor_unexamined{`:                                      0,
		`redlock_probe_timestamp_seconds{`:                                is[`redlock_doctor_last_examination_timestamp_seconds{`+common],
	} {
		require.Contains(t, is, sample+common)
		require.Equal(t, value, is[sample+common], sample)
	}
	require.Positive(t, is[`redlock_probe_node_latency_seconds{node="`+addrs[0]+`",`+common])
	require.GreaterOrEqual(t, is[`redlock_probe_timestamp_seconds{`+common], began)
	for _, unknown := range []string{"latency_seconds", "uptime_seconds", "master", "quarantined"} {
		require.NotContains(t, string(text), "redlock_probe_node_"+unknown+`{node="`+addrs[2])
	}
	require.NotContains(t, string(text), "redlock_probe_locks", "the doctor lists no locks")
}

func TestDoctor_KeepsAFileForEachSetOfNodesAndReplacesIt(t *testing.T) {
	servers := durableServers(t, 3)
	dir := t.TempDir()
	first := []string{"--metrics-dir=" + dir, "--only=eviction,quarantine", "--restart-guard=1h"}
	callDoctor(t, servers, first...)
	file := doctorFile(t, dir)
	before := samplesOf(t, file)
	do(t, servers[1:2], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	slices.Reverse(servers)
	callDoctor(t, servers, first...)
	require.Equal(t, file, doctorFile(t, dir), "the same nodes in another order")
	after := samplesOf(t, file)
	require.Len(t, after, len(before))
	found := 0
	for sample, value := range after {
		require.NotContains(t, sample, "redlock_probe_node_quarantined", "it may be over by now")
		if strings.HasPrefix(sample, `redlock_doctor_findings{check="quarantine",severity="warning"`) {
			found += int(value)
		}
		if strings.HasPrefix(sample, `redlock_doctor_findings{check="eviction",severity="fault"`) {
			require.Zero(t, before[sample])
			require.EqualValues(t, 1, value)
		}
	}
	require.Equal(t, 3, found, "they have no stamp")

	callDoctor(t, servers, append(first, "--key-prefix=other:")...)
	callDoctor(t, servers[1:], first...)
	files, err := filepath.Glob(filepath.Join(dir, "*.prom"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	seen := map[string]bool{}
	for _, file := range files {
		for sample := range samplesOf(t, file) {
			require.False(t, seen[sample], "node_exporter refuses a sample of two files: %s", sample)
			seen[sample] = true
		}
	}
}

func TestDoctor_RefusesAFolderThatItCannotWriteBeforeItAsksTheNodes(t *testing.T) {
	for name, dir := range map[string]string{"no folder": "/missing/folder", "no folder but a file": os.Args[0], "no file can be made": "/proc/self"} {
		t.Run(name, func(t *testing.T) {
			code, out, errors := call(t.Context(), "doctor", "--nodes=redis://127.0.0.1:1", "--metrics-dir="+dir)
			require.Equal(t, exitUsage, code)
			require.Empty(t, out)
			require.Contains(t, errors, `--metrics-dir: "`+dir+`" cannot be written`)
		})
	}
}

func TestDoctor_TellsOfMetricsThatItCannotWriteAndExitsAsItWould(t *testing.T) {
	for code, of := range map[int]func(*testing.T, []*testredis.Process){
		0: func(*testing.T, []*testredis.Process) {},
		exitFaults: func(t *testing.T, servers []*testredis.Process) {
			do(t, servers[:1], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		},
	} {
		servers, dir := durableServers(t, 3), t.TempDir()
		flags := []string{"--only=eviction", "--metrics-dir=" + dir}
		callDoctor(t, servers, flags...)
		file := doctorFile(t, dir)
		require.NoError(t, os.Remove(file))
		require.NoError(t, os.MkdirAll(filepath.Join(file, "in the way"), 0o700))
		of(t, servers)
		is, out, errors := callDoctor(t, servers, flags...)
		require.Equal(t, code, is, out)
		require.Contains(t, out, "3 nodes, 1 check")
		require.Contains(t, errors, "redlock: metrics: ")
		require.Contains(t, errors, filepath.Base(file))
	}
}
