//go:build linux

package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/promtest"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// The rules of promredlock/alerts-nodes.yml see what the tool has written about real servers.

// scrapeOf returns what a page answers, once it has what the doctor found.
func scrapeOf(t *testing.T, servers []*testredis.Process) (samples map[string]float64) {
	t.Helper()
	p := start(t, toolCommand(servers, "web", "--listen=127.0.0.1:0", "--key-prefix=lock:", "--timeout=30s", "--node-timeout=30s"))
	url := regexp.MustCompile(`http://[\d.:]+/`).FindString(p.line("out", "the URL", func(line string) bool { return strings.Contains(line, "http://") }))
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // as Prometheus
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"metrics", nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		promtest.Check(t, string(text))
		samples = promtest.Samples(t, string(text))
		return strings.Contains(string(text), "redlock_doctor_last_examination_timestamp_seconds")
	}, runPatience, time.Second)
	return samples
}

// fileOf returns what a doctor writes.
func fileOf(t *testing.T, servers []*testredis.Process) map[string]float64 {
	t.Helper()
	dir := t.TempDir()
	callDoctor(t, servers, "--metrics-dir="+dir)
	return samplesOf(t, doctorFile(t, dir))
}

func TestAlertsOfNodes_FireForWhatThePageAndTheDoctorSee(t *testing.T) {
	const minute = time.Minute
	s := newScrapes(t, minute)
	s.rules = "alerts-nodes.yml"
	servers := durableServers(t, 3)
	s.add("page", scrapeOf(t, servers), 0, 10*minute)
	s.add("file", fileOf(t, servers), 0, 10*minute)
	do(t, servers[:1], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	do(t, servers, "SET", "lock:eternal", "a-token")
	s.add("page", scrapeOf(t, servers), 10*minute, 20*minute)
	s.add("file", fileOf(t, servers), 10*minute, 20*minute)
	down := servers[2].Addr()
	servers[2].Stop()
	s.add("page", scrapeOf(t, servers), 20*minute, 30*minute)
	servers[1].Stop()
	s.add("page", scrapeOf(t, servers), 30*minute, 60*minute)
	nodes := `nodes="` + sortedAddrs(servers) + `", `

	page := `job="node-page", instance="page", severity=`
	eviction := []string{`alertname="RedlockDoctorFault", check="eviction", ` + page + `"warning"`,
		`alertname="RedlockDoctorFault", check="eviction", ` + nodes + `job="node-file", instance="file", severity="warning"`}
	eternal := `alertname="RedlockLockWithoutTTL", ` + page + `"warning"`
	isDown := func(addr string) string {
		return `alertname="RedlockProbeNodeDown", job="node-page", node="` + addr + `", severity="warning"`
	}
	s.firing(9 * minute)
	s.firing(11*minute, eviction...)
	s.firing(19*minute, append(eviction, eternal)...)
	s.firing(28*minute, eviction[0], eternal, isDown(down))
	s.firing(45*minute, eviction[0], isDown(down), isDown(servers[1].Addr()), `alertname="RedlockProbeMajorityDown", `+page+`"critical"`,
		`alertname="RedlockProbeMissing", job="node-file", instance="file", severity="warning"`)
	s.test()
}

func TestDashboard_ShowsTheNodes(t *testing.T) {
	s := newScrapes(t, 5*time.Minute)
	servers := durableServers(t, 3)
	do(t, servers, "SET", "lock:eternal", "a-token")
	s.add("page", scrapeOf(t, servers), 0, time.Hour)
	s.shown(6, "redlock_probe_", "redlock_doctor_")
	s.test()
}
