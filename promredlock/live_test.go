package promredlock_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/promredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

var figures = flag.String("figures", "", "the document whose table of figures the test writes, from its run")

// A Prometheus server collects the metrics of Lockers on real servers. Each job has servers of its own, and faults that make some
// of the alerts fire, and clear when the faults are over. The rules are those of alerts.yml with windows and waiting times that are
// 30 times shorter (scaled): two seconds of the test stand for a minute. Nodes may take longer than those of the rules, since the
// machine may be busy (patientNodes). Each expression of the dashboard has to return something other than 0 at some time.
func TestAlertsAndDashboard_ShowTheFaultsOfRealServers(t *testing.T) {
	needPrometheus(t, "prometheus", "promtool")
	t.Parallel()
	mux := http.NewServeMux()
	jobs := []*job{
		newJob(t, mux, "nodes", 5, []redlock.Option{redlock.TTL(1500 * time.Millisecond)}, pool.WithRestartGuard(6*time.Second), pool.WithMaxOverdue(500*time.Millisecond)),
		newJob(t, mux, "slow", 3, nil, pool.WithMaxOverdue(time.Minute)),
		newJob(t, mux, "contention", 5, nil),
		newJob(t, mux, "keys", 3, []redlock.Option{redlock.WithFencing()}),
	}
	faults := map[string]func(*testing.T, *job){"nodes": faultsOfNodes, "slow": slowness, "contention": contention, "keys": faultsOfKeys}
	metrics := httptest.NewServer(mux)
	t.Cleanup(metrics.Close)
	rules, alerts := readAlerts(t)
	begin := time.Now()
	server := startPrometheus(t, metrics.Listener.Addr().String(), slices.Sorted(maps.Keys(faults)), patientNodes(t, scaled(t, rules)))
	waitUntil(t, "all jobs work, all nodes vote, and no alert fires", func() bool {
		working := server.at(t, time.Now(), `sum by (job) (rate(redlock_extend_duration_seconds_count{outcome="done"}[5s])) > 0`)
		voting := server.at(t, time.Now(), `sum(redlock_node_up * (1 - redlock_node_quarantined)) == 16`)
		alarmed := slices.ContainsFunc(jobs, func(j *job) bool { return !server.clear(t, j.name) })
		return len(working) == len(jobs) && len(voting) == 1 && !alarmed
	})
	healthy := time.Now()
	for _, j := range jobs {
		j.prometheus, j.healthy = server, healthy
	}
	t.Run("faults", func(t *testing.T) {
		for _, j := range jobs {
			t.Run(j.name, func(t *testing.T) {
				t.Parallel()
				faults[j.name](t, j)
				waitUntil(t, "the alerts clear", func() bool { return server.clear(t, j.name) })
			})
		}
	})
	if t.Failed() {
		return
	}
	end := time.Now()

	fired := map[string]bool{}
	for _, s := range server.during(t, begin, end, `ALERTS{alertstate="firing"}`) {
		fired[s.Metric["alertname"]] = true
	}
	for _, alert := range alerts {
		require.True(t, fired[alert], "%s has fired", alert)
	}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			if ofTool.MatchString(target.Expr) { // for which cmd/redlock has a test
				continue
			}
			highest := extreme(server.during(t, begin, end, filled(target.Expr, "10s")), math.Max)
			require.True(t, highest > 0, "%s: it came to %v at most: %s", p.Title, highest, target.Expr) // not if it is NaN
		}
	}
	if *figures != "" {
		writeFigures(t, server, healthy, end)
	}
}

// ofTool matches the metrics of the tool.
var ofTool = regexp.MustCompile(`redlock_(job|probe|doctor)_`)

// extreme returns the highest or lowest number of a result; NaN if there is none.
func extreme(result []series, of func(x, y float64) float64) float64 {
	found := math.NaN()
	for _, s := range result {
		for _, x := range s.numbers() {
			if math.IsNaN(found) {
				found = x
			}
			found = of(found, x)
		}
	}
	return found
}

// job is a program that takes locks, and its servers.
type job struct {
	name       string
	servers    []*testredis.Process
	collector  *promredlock.Collector
	options    []redlock.Option
	pool       []pool.Option
	locker     *redlock.Locker
	pause      context.CancelFunc // ends the everyday work
	working    sync.WaitGroup
	prometheus *promServer
	healthy    time.Time // no alert fired at that time
}

// newJob starts servers, and a program that takes locks on them, whose metrics mux serves.
func newJob(t *testing.T, mux *http.ServeMux, name string, n int, options []redlock.Option, ofPool ...pool.Option) *job {
	t.Helper()
	ofPool = append(ofPool, pool.WithTimeout(nodeTimeout))
	j := &job{name: name, servers: testredis.Real(t, n), collector: promredlock.New(), options: options, pool: ofPool}
	registry := prometheus.NewRegistry()
	registry.MustRegister(j.collector)
	cheap := promhttp.HandlerOpts{DisableCompression: true, MaxRequestsInFlight: 1} // the race detector makes the rest slow
	mux.Handle("/"+name, promhttp.HandlerFor(registry, cheap))
	j.locker = j.open(t)
	var ctx context.Context
	ctx, j.pause = context.WithCancel(context.Background())
	t.Cleanup(func() {
		j.pause()
		j.working.Wait()
	})
	for worker := range 2 { // often, and for a moment
		j.working.Go(func() {
			for tick(ctx, 50*time.Millisecond) {
				_ = j.locker.Do(ctx, fmt.Sprintf("often-%d", worker), func(context.Context, *redlock.Lock) error { return nil })
			}
		})
	}
	j.working.Go(func() { // with renewals
		for ctx.Err() == nil {
			_ = j.locker.Do(ctx, "long", func(ctx context.Context, _ *redlock.Lock) error {
				tick(ctx, time.Second)
				return nil
			}, redlock.TTL(1500*time.Millisecond))
		}
	})
	return j
}

// open makes another Locker, as another process would have.
func (j *job) open(t *testing.T, options ...redlock.Option) *redlock.Locker {
	t.Helper()
	options = slices.Concat([]redlock.Option{redlock.WithObserver(j.collector)}, j.options, options)
	for _, option := range j.pool {
		options = append(options, option)
	}
	locker, err := redlock.Open(testredis.URLs(j.servers), options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = locker.Close() })
	return locker
}

// tick waits; it returns false if ctx ends before.
func tick(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fired reports whether an alert of the job fires, or has fired since all was healthy.
func (j *job) fired(t *testing.T, alert string) bool {
	t.Helper()
	expr := fmt.Sprintf(`ALERTS{alertstate="firing",alertname=%q,job=%q}`, alert, j.name)
	return len(j.prometheus.during(t, j.healthy, time.Now(), expr)) > 0
}

// waitFor waits for an alert.
func (j *job) waitFor(t *testing.T, alert string) {
	t.Helper()
	waitUntil(t, alert+" fires", func() bool { return j.fired(t, alert) })
}

// during has something done again and again, until an alert fires.
func (j *job) during(t *testing.T, alert string, does func()) {
	t.Helper()
	begin := time.Now()
	for !j.fired(t, alert) {
		require.Less(t, time.Since(begin), patience, "%s does not fire", alert)
		does()
	}
	t.Logf("after %v: %s fires", time.Since(begin).Round(glance), alert)
}

// do runs a command on some servers.
func (j *job) do(t *testing.T, servers []*testredis.Process, command string, args ...any) {
	t.Helper()
	for _, server := range servers {
		_, err := server.Do(command, args...)
		require.NoError(t, err)
	}
}

// writeFigures replaces the table of figures in the document.
func writeFigures(t *testing.T, server *promServer, healthy, end time.Time) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| figure | healthy | with faults |\n|---|---|---|\n")
	for _, row := range []struct {
		panel, figure string
		of            func(x, y float64) float64
		as            func(float64) string
	}{
		{"Nodes that vote", "the least", math.Min, number},
		{"Rounds without a quorum", "the most", math.Max, percent},
		{"Locks lost", "in all", math.Max, number},
		{"Shortest margin of renewals", "the least", math.Min, percent},
		{"Missing votes", "of one node", math.Max, percent},
		{"Connections that broke", "of one node", math.Max, rate},
	} {
		panels := readDashboard(t).Panels
		i := slices.IndexFunc(panels, func(p panel) bool { return p.Title == row.panel })
		require.GreaterOrEqual(t, i, 0, row.panel)
		targets := panels[i].Targets
		expr := targets[len(targets)-1].Expr // the highest quantile
		before := extreme(server.at(t, healthy, filled(expr, "5s")), row.of)
		after := extreme(server.during(t, healthy, end, filled(expr, "5s")), row.of)
		fmt.Fprintf(&table, "| %s: %s | %s | %s |\n", row.panel, row.figure, row.as(before), row.as(after))
	}
	document, err := os.ReadFile(*figures)
	require.NoError(t, err)
	const from, to = "<!-- figures: make figures -->\n", "<!-- end of figures -->"
	before, rest, found := strings.Cut(string(document), from)
	require.True(t, found)
	_, after, found := strings.Cut(rest, to)
	require.True(t, found)
	require.NoError(t, os.WriteFile(*figures, []byte(before+from+"\n"+table.String()+"\n"+to+after), 0o644))
}

func number(x float64) string  { return fmt.Sprintf("%.0f", x) }
func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }
func rate(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.1f per s", x)
	}
	return fmt.Sprintf("%.0f per s", x)
}
