//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/promtest"
)

// The rules of promredlock/alerts-jobs.yml see files that the tool has written, on machines whose node_exporters are scraped by jobs of
// their own. Their clocks begin with the test: promtool's begins in 1970.

// scrapes are the input of promtool, and what it expects.
type scrapes struct {
	t        *testing.T
	promtool string
	rules    string        // a file of promredlock
	step     time.Duration // between two scrapes, and two evaluations
	began    float64
	input    map[string]string // values by series
	expected []map[string]any
}

func newScrapes(t *testing.T, step time.Duration) *scrapes {
	t.Helper()
	return &scrapes{t: t, promtool: promtest.Promtool(t), rules: "alerts-jobs.yml", step: step, began: float64(time.Now().Unix()), input: map[string]string{}}
}

// add appends samples that are scraped from a machine. They are from the beginning of the test, and are moved
// to the given times, the last of which is the end.
func (s *scrapes) add(instance string, samples map[string]float64, times ...time.Duration) {
	s.t.Helper()
	for sample, value := range samples {
		name, labels, _ := strings.Cut(strings.TrimSuffix(sample, "}"), "{")
		scraped := name + "{" + strings.TrimPrefix(labels+",", ",") + fmt.Sprintf(`job="node-%[1]s", instance=%[1]q}`, instance)
		values := strings.Fields(s.input[scraped])
		for i, from := range times[:len(times)-1] {
			for len(values) < int(from/s.step) {
				values = append(values, "_")
			}
			moved := value
			if name, _, _ := strings.Cut(sample, "{"); strings.HasSuffix(name, "_timestamp_seconds") {
				moved += from.Seconds() - s.began
			}
			for len(values) < int(times[i+1]/s.step) {
				values = append(values, strconv.FormatFloat(moved, 'f', -1, 64))
			}
		}
		s.input[scraped] = strings.Join(values, " ")
	}
}

// firing expects that these alerts fire at a time, and no others.
func (s *scrapes) firing(at time.Duration, alerts ...string) {
	samples := []map[string]any{}
	for _, alert := range alerts {
		samples = append(samples, map[string]any{"labels": "ALERTS{" + alert + `, alertstate="firing"}`, "value": 1})
	}
	s.expected = append(s.expected, map[string]any{"expr": `ALERTS{alertstate="firing"}`, "eval_time": at.String(), "exp_samples": samples})
}

func (s *scrapes) test() {
	s.t.Helper()
	rules, err := filepath.Abs("../../promredlock/" + s.rules)
	require.NoError(s.t, err)
	series := []map[string]string{}
	for name, values := range s.input {
		series = append(series, map[string]string{"series": name, "values": values})
	}
	test, err := json.Marshal(map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": s.step.String(),
		"tests": []map[string]any{{"interval": s.step.String(), "input_series": series, "promql_expr_test": s.expected}},
	})
	require.NoError(s.t, err)
	file := filepath.Join(s.t.TempDir(), "test.yml")
	require.NoError(s.t, os.WriteFile(file, test, 0o600))
	out, err := exec.Command(s.promtool, "test", "rules", file).CombinedOutput()
	require.NoError(s.t, err, "%s", out)
}

// critical and warning are the labels of an alert about a job.
func critical(alert, name string) string {
	return fmt.Sprintf(`alertname=%q, name=%q, severity="critical"`, alert, name)
}

func warning(alert, name string) string {
	return fmt.Sprintf(`alertname=%q, name=%q, severity="warning"`, alert, name)
}

func TestAlerts_TakeAJobWithoutAnIntervalAsADailyOne(t *testing.T) {
	s := newScrapes(t, 15*time.Minute)
	servers := three(t)
	ran := func(name string, code int, args ...string) map[string]float64 {
		dir := t.TempDir()
		require.Equal(t, code, runTool(t, servers, append([]string{"--metrics-dir=" + dir, name}, args...)...).code())
		return series(t, dir)
	}
	good, other, bad := ran("good", 0, "true"), ran("good", 0, "true"), ran("bad", 1, "false")
	dir := t.TempDir()
	p := runTool(t, servers, "--metrics-dir="+dir, "lost", "cat")
	p.event("started")
	loseLock(t, servers, "lost")
	require.Equal(t, exitLost, p.code())
	hanging := t.TempDir()
	runningJob(t, servers, hanging, "hung", "cat")
	const hour, end = time.Hour, 100 * time.Hour
	s.add("a", good, hour, end)
	s.add("b", other, 11*hour, 20*hour) // it succeeds ten hours later, and is gone soon
	s.add("a", bad, hour, end)
	s.add("a", series(t, dir), hour, hour+s.step) // and this one at once
	s.add("a", series(t, hanging), hour, end)

	loss := `job="node-a", instance="a", ` + critical("RedlockJobLockLost", "lost")
	hangs := `job="node-a", instance="a", ` + warning("RedlockJobHangs", "hung")
	late := func(name string) string { return critical("RedlockJobNotSucceeded", name) }
	s.firing(90*time.Minute, loss)
	s.firing(105*time.Minute, loss)
	s.firing(150 * time.Minute)
	s.firing(25 * hour)
	s.firing(25*hour+s.step, hangs)
	s.firing(26*hour+s.step, hangs)
	s.firing(26*hour+2*s.step, hangs, late("bad"), late("lost"), late("hung"))
	s.firing(36*hour+s.step, hangs, late("bad"), late("lost"), late("hung"))
	s.firing(36*hour+2*s.step, hangs, late("bad"), late("good"), late("lost"), late("hung"))
	s.test()
}

// Each job has one fault, on machine a. Where it says so another machine has a part in it.
func TestAlerts_ComeAndGoByTheIntervalOfAJob(t *testing.T) {
	const minute, end = time.Minute, 3 * time.Hour
	s := newScrapes(t, 5*time.Minute)
	servers := three(t)
	dirs := map[string]string{}
	ran := func(machine, name string, code int, args ...string) map[string]float64 {
		file := machine + " " + name
		if dirs[file] == "" {
			dirs[file] = t.TempDir()
		}
		flags := []string{"-n", "--expect-every=15m", "--metrics-dir=" + dirs[file], name}
		require.Equal(t, code, runTool(t, servers, append(flags, args...)...).code())
		return series(t, dirs[file])
	}
	// It succeeds on time. Another machine always finds its lock taken, and fails once.
	s.add("a", ran("a", "healthy", 0, "true"), 0, 15*minute, 30*minute, 45*minute, 60*minute, 75*minute, 90*minute, 105*minute, 120*minute, 135*minute, 150*minute, 165*minute, end)
	ran("b", "healthy", 1, "false")
	do(t, servers, "SET", "healthy", "another", "PX", eternity.Milliseconds())
	s.add("b", ran("b", "healthy", 75, "true"), 5*minute, 35*minute, 65*minute, 95*minute, 125*minute, 155*minute, end)

	s.add("a", ran("a", "never comes", 0, "true"), 0, end)

	ran("a", "fails", 0, "true")
	ran("a", "fails", 1, "false")
	s.add("a", ran("a", "fails", 1, "false"), 0, end)
	s.add("b", ran("b", "fails", 0, "true"), 20*minute, end) // which ends it

	s.add("a", ran("a", "fails in turn", 1, "false"), 0, end)
	s.add("b", ran("b", "fails in turn", 1, "false"), 20*minute, end)

	s.add("a", ran("a", "taken", 0, "true"), 0, end)
	do(t, servers, "SET", "taken", "another", "PX", eternity.Milliseconds())
	s.add("b", ran("b", "taken", 75, "true"), 15*minute, 25*minute, 40*minute, end)

	ran("a", "always fails", 1, "false")
	s.add("a", ran("a", "always fails", 1, "false"), 0, 15*minute, 30*minute, 45*minute, 60*minute, 75*minute, 90*minute, 105*minute, 120*minute, 135*minute, 150*minute, 165*minute, end)
	do(t, servers, "SET", "always fails", "another", "PX", eternity.Milliseconds())
	s.add("b", ran("b", "always fails", 75, "true"), 5*minute, 20*minute, 35*minute, 65*minute, 95*minute, 125*minute, 155*minute, end)

	hangs := func(name string, flags ...string) map[string]float64 {
		dir := t.TempDir()
		runningJob(t, servers, dir, append(flags, name, "cat")...)
		return series(t, dir)
	}
	s.add("a", hangs("hangs", "--expect-every=15m"), 0, end)
	s.add("a", hangs("killed", "--expect-every=15m"), 0, end)
	do(t, servers, "DEL", "killed") // as if it had expired
	s.add("b", ran("b", "killed", 0, "true"), 40*minute, end)
	s.add("a", hangs("works for long", "--expect-every=24h"), 0, end)
	// After an outage the first run works, on b, when c finds its lock taken.
	s.add("a", ran("a", "goes on", 0, "true"), 0, end)
	s.add("b", hangs("goes on", "--expect-every=15m"), 45*minute, 55*minute)
	s.add("c", ran("c", "goes on", 75, "true"), 50*minute, end)
	do(t, servers, "DEL", "goes on")
	s.add("b", ran("b", "goes on", 0, "true"), 55*minute, 70*minute, 85*minute, 100*minute, 115*minute, 130*minute, 145*minute, 160*minute, end)

	failing, taken := func(name string) string { return warning("RedlockJobFails", name) }, warning("RedlockJobTaken", "taken")
	late := func(name string) string { return critical("RedlockJobNotSucceeded", name) }
	hung := func(name string) string { return `job="node-a", instance="a", ` + warning("RedlockJobHangs", name) }
	always := failing("always fails")
	s.firing(0, always, failing("fails"))
	s.firing(15*minute, always, failing("fails"))
	s.firing(20*minute, always, failing("fails in turn"), hung("hangs"), hung("killed"))
	s.firing(35*minute, always, failing("fails in turn"), hung("hangs"), hung("killed"))
	s.firing(40*minute, always, failing("fails in turn"), hung("hangs"), taken,
		late("always fails"), late("never comes"), late("fails in turn"), late("taken"), late("hangs"), late("goes on"))
	s.firing(50*minute, always, failing("fails in turn"), hung("hangs"), taken,
		late("always fails"), late("never comes"), late("fails in turn"), late("taken"), late("hangs"), late("goes on"))
	s.firing(175*minute, always, failing("fails in turn"), hung("hangs"), taken,
		late("always fails"), late("never comes"), late("fails"), late("fails in turn"), late("taken"), late("hangs"), late("killed"))
	s.test()
}

// Each expression about jobs comes to more than 0.
func TestDashboard_ShowsTheJobs(t *testing.T) {
	s := newScrapes(t, 5*time.Minute)
	servers := three(t)
	dir := t.TempDir()
	ran := func(code int, args ...string) {
		require.Equal(t, code, runTool(t, servers, append([]string{"-n", "--expect-every=15m", "--metrics-dir=" + dir, "job"}, args...)...).code())
	}
	ran(0, "true")
	ran(1, "false")
	ran(exitNotFound, "/missing/program")
	do(t, servers, "SET", "job", "another", "PX", eternity.Milliseconds())
	ran(75, "true")
	do(t, servers, "DEL", "job")
	file := metricsFile(t, dir)
	p := runTool(t, servers, "--expect-every=15m", "--metrics-dir="+dir, "job", "cat")
	p.event("started")
	require.Eventually(t, func() bool { return samplesOf(t, file)[`redlock_job_running{name="job"}`] == 1 }, runPatience, 10*time.Millisecond)
	s.add("a", samplesOf(t, file), 0, time.Hour)

	s.shown(8, "redlock_job_")
	s.test()
}

// shown expects that each expression of the dashboard that has one of these prefixes comes to more than 0.
func (s *scrapes) shown(expressions int, prefixes ...string) {
	s.t.Helper()
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	text, err := os.ReadFile("../../promredlock/dashboard.json")
	require.NoError(s.t, err)
	require.NoError(s.t, json.Unmarshal(text, &dashboard))
	found := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.Contains(target.Expr, prefix) }) {
				found++
				s.expected = append(s.expected, map[string]any{
					"expr": "count(count((" + target.Expr + ") > 0) > 0)", "eval_time": "30m", "exp_samples": []map[string]any{{"labels": "{}", "value": 1}},
				})
			}
		}
	}
	require.Equal(s.t, expressions, found)
}
