//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/promtest"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// metricsFile returns the path of the only file of metrics in a folder, in which beside it only its lock is.
func metricsFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.True(t, strings.HasSuffix(files[0], ".prom"), files[0])
	require.Equal(t, lockOf(files[0]), files[1])
	return files[0]
}

// lockOf returns the path of the file that a run locks to write metrics.
func lockOf(file string) string { return fmt.Sprintf("%s.%d.lock", file, os.Geteuid()) }

// lockFile locks a file until the test ends.
func lockFile(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
}

// series returns the samples of a folder, by their names and labels.
func series(t *testing.T, dir string) map[string]float64 {
	t.Helper()
	return samplesOf(t, metricsFile(t, dir))
}

// samplesOf returns the samples of a file.
func samplesOf(t *testing.T, file string) map[string]float64 {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	return promtest.Samples(t, string(content))
}

// jobSeries returns the samples of the lock "job", by their names without what is the same in all.
func jobSeries(t *testing.T, dir string) map[string]float64 {
	t.Helper()
	short := map[string]float64{}
	for sample, value := range series(t, dir) {
		name, found := strings.CutSuffix(strings.TrimPrefix(sample, "redlock_job_"), `{name="job"}`)
		require.True(t, found, sample)
		short[name] = value
	}
	return short
}

// loseLock deletes a lock on all servers.
func loseLock(t *testing.T, servers []*testredis.Process, name string) {
	t.Helper()
	for _, s := range servers {
		_, err := s.Do("DEL", name)
		require.NoError(t, err)
	}
}

func TestRun_WritesMetricsThatNodeExporterReads(t *testing.T) {
	servers := three(t)
	dir := t.TempDir()
	began := float64(time.Now().UnixMilli()) / 1000
	with := func(code int, args ...string) map[string]float64 {
		require.Equal(t, code, runTool(t, servers, append([]string{"--metrics-dir=" + dir}, args...)...).code())
		return jobSeries(t, dir)
	}
	is := with(0, "job", "true")
	for _, gauge := range []string{"last_success_timestamp_seconds", "last_start_timestamp_seconds", "last_end_timestamp_seconds", "created_timestamp_seconds"} {
		require.GreaterOrEqual(t, is[gauge], began-0.002, gauge) // the start is by another clock
		require.LessOrEqual(t, is[gauge], float64(time.Now().UnixMilli())/1000, gauge)
	}
	require.InDelta(t, is["last_end_timestamp_seconds"]-is["last_start_timestamp_seconds"], is["last_duration_seconds"], 0.002)
	require.Positive(t, is["last_wait_seconds"])
	require.NotContains(t, is, "last_loss_timestamp_seconds")
	require.NotContains(t, is, "last_failure_timestamp_seconds")
	require.NotContains(t, is, "expected_interval_seconds")
	require.Zero(t, is["running"])
	success := is["last_success_timestamp_seconds"]

	is = with(7, "job", "sh", "-c", "exit 7")
	require.EqualValues(t, 7, is["last_exit_code"])
	require.Equal(t, success, is["last_success_timestamp_seconds"])
	require.Greater(t, is["last_end_timestamp_seconds"], success)

	do(t, servers, "SET", "job", "another", "PX", eternity.Milliseconds())
	is = with(0, "-n", "-E", "0", "--expect-every=15m", "job", "true")
	require.EqualValues(t, 900, is["expected_interval_seconds"])
	require.GreaterOrEqual(t, is["last_taken_timestamp_seconds"], is["last_end_timestamp_seconds"])
	require.EqualValues(t, 7, is["last_exit_code"], "of a run")
	do(t, servers, "DEL", "job")
	with(exitNotFound, "job", "/missing/program")

	p := runTool(t, servers, "--metrics-dir="+dir, "job", "cat")
	p.event("started")
	loseLock(t, servers, "job")
	require.Equal(t, exitLost, p.code())
	is = jobSeries(t, dir)
	require.EqualValues(t, exitLost, is["last_exit_code"])
	require.Equal(t, is["last_end_timestamp_seconds"], is["last_loss_timestamp_seconds"])
	require.Equal(t, is["last_end_timestamp_seconds"], is["last_failure_timestamp_seconds"])
	require.Less(t, is["previous_failure_timestamp_seconds"], is["last_failure_timestamp_seconds"])
	require.Zero(t, is["running"])
	require.NotContains(t, is, "expected_interval_seconds", "not without the flag")
	counters := maps.Clone(is)
	maps.DeleteFunc(counters, func(name string, _ float64) bool { return !strings.HasSuffix(name, "_total") })
	require.Equal(t, map[string]float64{"starts_total": 3, "runs_total": 3, "failures_total": 2, "losses_total": 1, "taken_total": 1, "errors_total": 1}, counters)

	info, err := os.Stat(metricsFile(t, dir))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode(), "node_exporter is another user")
	info, err = os.Stat(lockOf(metricsFile(t, dir)))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode(), "who can open it can lock it")
}

// runningJob starts a job that hangs, and returns when its start is written.
func runningJob(t *testing.T, servers []*testredis.Process, dir string, args ...string) *process {
	t.Helper()
	p := runTool(t, servers, append([]string{"--metrics-dir=" + dir}, args...)...)
	p.event("started")
	require.Eventually(t, func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "*.prom"))
		require.NoError(t, err)
		return len(files) == 1 // a file without an end has a start
	}, runPatience, 10*time.Millisecond)
	return p
}

func TestRun_WritesMetricsWhileTheCommandRuns(t *testing.T) {
	servers := three(t)
	dir := t.TempDir()
	began := float64(time.Now().UnixMilli()) / 1000
	p := runningJob(t, servers, dir, "--expect-every=1h", "job", "cat")
	first := jobSeries(t, dir)
	require.GreaterOrEqual(t, first["last_start_timestamp_seconds"], began-0.002)
	require.LessOrEqual(t, first["last_start_timestamp_seconds"], float64(time.Now().UnixMilli())/1000)
	require.EqualValues(t, 3600, first["expected_interval_seconds"])
	require.Equal(t, []float64{1, 0}, []float64{first["starts_total"], first["runs_total"]})
	require.NotContains(t, first, "last_end_timestamp_seconds")

	require.Equal(t, 75, runTool(t, servers, "--metrics-dir="+dir, "-n", "job", "true").code())
	require.EqualValues(t, 1, jobSeries(t, dir)["running"], "another attempt changes nothing about it")
	p.endsWith(0)
	is := jobSeries(t, dir)
	require.Equal(t, []float64{1, 1, 0}, []float64{is["starts_total"], is["runs_total"], is["running"]})
	require.Equal(t, first["last_start_timestamp_seconds"], is["last_start_timestamp_seconds"])
}

// Nobody writes the end of a run whose redlock was killed. The next run does not count it as one that has ended.
func TestRun_LeavesAKilledRunAsRunningUntilTheNextOneStarts(t *testing.T) {
	servers := three(t)
	dir := t.TempDir()
	p := runningJob(t, servers, dir, "--ttl=2s", "job", "cat")
	require.NoError(t, p.cmd.Process.Kill())
	p.event("exit") // of the holder, which has ended the command
	is := jobSeries(t, dir)
	require.Equal(t, []float64{1, 0, 1}, []float64{is["starts_total"], is["runs_total"], is["running"]})
	start := is["last_start_timestamp_seconds"]
	require.Zero(t, runTool(t, servers, "--metrics-dir="+dir, "job", "true").code())
	is = jobSeries(t, dir)
	require.Equal(t, []float64{2, 1, 0}, []float64{is["starts_total"], is["runs_total"], is["running"]})
	require.Greater(t, is["last_start_timestamp_seconds"], start)
}

func TestRun_TellsOfTheRunThatStartedLastIfSeveralShareTheLock(t *testing.T) {
	servers := three(t)
	dir := t.TempDir()
	first := runningJob(t, servers, dir, "--shared", "job", "cat")
	const started = `redlock_job_last_start_timestamp_seconds{name="job"}`
	file := metricsFile(t, dir)
	begun := samplesOf(t, file)[started]
	second := runTool(t, servers, "--metrics-dir="+dir, "--shared", "job", "cat")
	require.Eventually(t, func() bool { return samplesOf(t, file)[started] > begun }, runPatience, 10*time.Millisecond)
	first.endsWith(0)
	require.EqualValues(t, 1, jobSeries(t, dir)["running"])
	second.endsWith(0)
	is := jobSeries(t, dir)
	require.Equal(t, []float64{2, 2, 0}, []float64{is["starts_total"], is["runs_total"], is["running"]})
}

// The front ends the command in the place of a holder that is frozen, and of one that was killed.
func TestRun_CountsWhatItsHolderCannotTell(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stop   func(t *testing.T, holder int)
		code   int
		losses float64
	}{
		"frozen": {freeze, exitLost, 1},
		"killed": {func(t *testing.T, holder int) { require.NoError(t, unix.Kill(holder, unix.SIGKILL)) }, exitInternal, 0},
	} {
		t.Run(name, func(t *testing.T) {
			servers := three(t)
			dir := t.TempDir()
			p := runTool(t, servers, append(slices.Clone(lostFlags), "--metrics-dir="+dir, "job", "cat")...)
			p.event("started")
			test.stop(t, p.holder())
			require.Equal(t, test.code, p.code())
			is := jobSeries(t, dir)
			require.Equal(t, []float64{1, 1, test.losses, 0}, []float64{is["runs_total"], is["failures_total"], is["losses_total"], is["errors_total"]})
			require.EqualValues(t, test.code, is["last_exit_code"])
		})
	}
}

// A name may hold anything that the tool takes.
func TestRun_WritesMetricsOfAnyName(t *testing.T) {
	servers := three(t)
	for _, name := range []string{"../../etc/passwd", `"} 1 redlock_job_runs_total{name="x`, `\n\`, "ünï" + strings.Repeat("x", 500), "."} {
		dir := t.TempDir()
		for runs := 1.0; runs <= 2; runs++ {
			cmd := toolCommand(servers, "run", "--metrics-dir", dir, name, "true")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Empty(t, out)
			escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)
			require.Equal(t, runs, series(t, dir)[`redlock_job_runs_total{name="`+escaped+`"}`], name)
		}
		text, err := os.ReadFile(metricsFile(t, dir))
		require.NoError(t, err)
		promtest.Check(t, string(text))
	}
}

func TestRun_TellsOfMetricsThatItCannotWriteAndDoesWhatItWouldDo(t *testing.T) {
	servers := three(t)
	for name, dir := range map[string]string{"no folder": "/missing/folder", "no folder but a file": os.Args[0], "no file can be made": "/proc/self"} {
		t.Run(name, func(t *testing.T) {
			p := runTool(t, servers, "--metrics-dir="+dir, "job", "sh", "-c", "echo ran; exit 7")
			p.says("ran")
			require.Equal(t, 7, p.code())
			require.NotEmpty(t, p.event("metrics").Error)
			p.event("exit")
			out, err := toolCommand(servers, "run", "--metrics-dir="+dir, "job", "true").CombinedOutput()
			require.NoError(t, err)
			require.Contains(t, string(out), "redlock: metrics: ")
		})
	}
}

// All users may read the folder and the file, so any may lock them.
func TestRun_WaitsForNoOtherUserBeforeItWritesMetrics(t *testing.T) {
	servers := three(t)
	dir := t.TempDir()
	ran := func() *process { return runTool(t, servers, "--metrics-dir="+dir, "job", "sh", "-c", "exit 7") }
	require.Equal(t, 7, ran().code())
	lockFile(t, dir)
	lockFile(t, metricsFile(t, dir))
	p := ran()
	require.Equal(t, 7, p.code())
	require.False(t, p.happened("metrics"))
	require.EqualValues(t, 2, jobSeries(t, dir)["runs_total"])

	lockFile(t, lockOf(metricsFile(t, dir)))
	p = ran()
	require.Contains(t, p.event("metrics").Error, "within 5s")
	require.Equal(t, 7, p.code())
}

func TestRun_LosesNoUpdateOfThoseThatEndAtOnce(t *testing.T) {
	servers := three(t)
	dir := t.TempDir()
	do(t, servers, "SET", "job", "another", "PX", eternity.Milliseconds())
	var running sync.WaitGroup
	for range 12 {
		running.Go(func() {
			_ = toolCommand(servers, "run", "-n", "--metrics-dir="+dir, "job", "true").Run()
		})
	}
	running.Wait()
	require.EqualValues(t, 12, jobSeries(t, dir)["taken_total"])
}
