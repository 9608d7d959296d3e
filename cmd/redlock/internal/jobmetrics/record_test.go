//go:build darwin || freebsd || linux

package jobmetrics_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/jobmetrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var run = jobmetrics.Attempt{Ended: time.Unix(1_800_000_000, 0), Started: true, Ran: time.Minute, Waited: time.Second}

// own returns the path of a file of this user beside that of a job.
func own(path, kind string) string { return fmt.Sprintf("%s.%d.%s", path, os.Geteuid(), kind) }

// record adds an attempt of a process of its own.
func record(dir, name string, a jobmetrics.Attempt) error {
	return (&jobmetrics.File{Dir: dir, Name: name}).Record(a)
}

// content returns the file of a job.
func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestRecord_GoesOnFromTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, jobmetrics.FileName("job"))
	defer unix.Umask(unix.Umask(0o077))
	require.NoError(t, record(dir, "job", run))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode(), "node_exporter is another user")
	failed := run
	failed.Code, failed.Ended = 3, run.Ended.Add(time.Hour)
	require.NoError(t, record(dir, "job", failed))
	text := content(t, path)
	for _, line := range []string{
		"# TYPE redlock_job_runs_total counter",
		`redlock_job_runs_total{name="job"} 2`,
		`redlock_job_failures_total{name="job"} 1`,
		`redlock_job_taken_total{name="job"} 0`,
		`redlock_job_last_exit_code{name="job"} 3`,
		`redlock_job_last_success_timestamp_seconds{name="job"} 1800000000`,
		`redlock_job_last_start_timestamp_seconds{name="job"} 1800003540`,
		`redlock_job_last_end_timestamp_seconds{name="job"} 1800003600`,
		`redlock_job_created_timestamp_seconds{name="job"} 1800000000`,
		`redlock_job_last_duration_seconds{name="job"} 60`,
		`redlock_job_last_wait_seconds{name="job"} 1`,
	} {
		require.Contains(t, text, "\n"+line+"\n")
	}
	newer := text + `redlock_job_invented_total{name="job"} 5` + "\n"
	require.NoError(t, os.WriteFile(path, []byte(newer), 0o600))
	require.NoError(t, record(dir, "job", run), "a newer version has written it")
	require.Contains(t, content(t, path), `redlock_job_runs_total{name="job"} 3`)
}

func TestRecord_BeginsAnewAfterAFileThatItCannotRead(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("outside"), 0o600))
	whole := t.TempDir()
	require.NoError(t, record(whole, "job", run))
	good := content(t, filepath.Join(whole, jobmetrics.FileName("job")))
	put := func(text string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for name, plant := range map[string]func(path string) error{
		"empty":             put(""),
		"torn":              put(good[:len(good)/2]),
		"of another job":    put(strings.ReplaceAll(good, `"job"`, `"other"`)),
		"not a number":      put(strings.Replace(good, "} 1\n", "} NaN\n", 1)),
		"too large":         put(strings.Replace(good, "} 1\n", "} 1e300\n", 1)),
		"negative":          put(strings.Replace(good, "} 1\n", "} -1\n", 1)),
		"binary":            put("\x00\xff\xfe"),
		"without end":       func(path string) error { return os.Truncate(path, 1<<40) },
		"much more of it":   put(strings.Repeat(good, 2000)),
		"a pipe":            func(path string) error { _ = os.Remove(path); return unix.Mkfifo(path, 0o600) },
		"a link elsewhere":  func(path string) error { _ = os.Remove(path); return os.Symlink(outside, path) },
		"a device":          func(path string) error { _ = os.Remove(path); return os.Symlink("/dev/zero", path) },
		"nobody may use it": func(path string) error { _ = os.Remove(path); return os.Symlink("/missing/file", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, jobmetrics.FileName("job"))
			require.NoError(t, os.WriteFile(path, []byte(good), 0o600))
			require.NoError(t, os.Symlink(outside, own(path, "tmp")), "in the place of the temporary one")
			require.NoError(t, plant(path))
			require.ErrorContains(t, record(dir, "job", run), "the counters begin anew")
			require.Equal(t, good, content(t, path))
			info, err := os.Lstat(path)
			require.NoError(t, err)
			require.True(t, info.Mode().IsRegular())
			require.Equal(t, "outside", content(t, outside))
			require.NoError(t, record(dir, "job", run))
			require.NoFileExists(t, own(path, "tmp"))
		})
	}
}

func TestFile_WritesTheStartBeforeTheEndAndOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, jobmetrics.FileName("job"))
	for range 20 {
		f := jobmetrics.File{Dir: dir, Name: "job", Every: 15 * time.Minute}
		f.Start(run.Ended.Add(-2 * time.Minute))
		require.NoError(t, f.Record(run))
	}
	text := content(t, path)
	for _, line := range []string{
		`redlock_job_starts_total{name="job"} 20`,
		`redlock_job_runs_total{name="job"} 20`,
		`redlock_job_running{name="job"} 0`,
		`redlock_job_last_start_timestamp_seconds{name="job"} 1799999880`,
		`redlock_job_expected_interval_seconds{name="job"} 900`,
	} {
		require.Contains(t, text, "\n"+line+"\n")
	}
}

func TestRecord_TakesTheStartsOfAFileWithoutThemFromItsRuns(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, jobmetrics.FileName("job"))
	require.NoError(t, record(dir, "job", run))
	older := strings.Replace(content(t, path), `redlock_job_starts_total{name="job"} 1`+"\n", "", 1)
	require.NoError(t, os.WriteFile(path, []byte(older), 0o600))
	require.NoError(t, record(dir, "job", run))
	require.Contains(t, content(t, path), `redlock_job_starts_total{name="job"} 2`)
}

func TestFile_TellsOfOneFaultOnce(t *testing.T) {
	f := jobmetrics.File{Dir: filepath.Join(t.TempDir(), "missing"), Name: "job"}
	f.Start(run.Ended)
	err := f.Record(run)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n")
}

func TestRecord_LeavesTheFileIfItCannotBeReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, jobmetrics.FileName("job"))
	require.NoError(t, record(dir, "job", run))
	before := content(t, path)
	require.NoError(t, os.MkdirAll(filepath.Join(own(path, "tmp"), "not empty"), 0o700))
	require.Error(t, record(dir, "job", run))
	require.Equal(t, before, content(t, path))
	require.ErrorContains(t, record(dir, strings.Repeat("x", 1<<20), run), "too long")
}

func TestRecord_LocksNoFileElsewhere(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.Symlink(outside, own(filepath.Join(dir, jobmetrics.FileName("job")), "lock")))
	require.Error(t, record(dir, "job", run))
	require.NoFileExists(t, outside)
}

func TestFileName_IsOfItsJobAlone(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"", ".", "..", "../x", "/x", "a b", "a_b", "A_b", "a\nb", "\xff", strings.Repeat("x", 5000), strings.Repeat("x", 5001), "-rf"} {
		file := jobmetrics.FileName(name)
		require.Regexp(t, `^redlock_[A-Za-z0-9._-]*_[0-9a-f]{16}\.prom$`, file)
		require.LessOrEqual(t, len(file), 100)
		require.Empty(t, seen[strings.ToLower(file)], "also where a and A are one")
		seen[strings.ToLower(file)] = name + "."
	}
}
