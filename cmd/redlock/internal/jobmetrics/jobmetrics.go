// Package jobmetrics writes metrics about the jobs of redlock run, for the textfile collector of node_exporter.
//
// Each job has a file of its own. It is also the only memory: counters go on from what the file has.
package jobmetrics

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/promfile"
)

// File is the file of a job, for one redlock run.
type File struct {
	Dir, Name string        // of the job: the name of the lock
	Every     time.Duration // how often the job should succeed; 0 means that nobody said it

	start   time.Time    // of the command
	started chan outcome // of Start; nil without it
}

// outcome is that of a write.
type outcome struct {
	written bool
	err     error // also if the file was written, but the counters begin again
}

// Attempt is how one redlock run went.
type Attempt struct {
	Ended   time.Time
	Waited  time.Duration // for the lock
	Started bool          // the command was started
	Ran     time.Duration // from then to Ended
	Taken   bool          // another holds the lock
	Lost    bool          // the lock was lost
	Code    int           // of redlock
}

const (
	prefix   = "redlock_job_"
	maxFile  = 64 << 10 // bytes that are read of a file, and written
	maxValue = 1 << 53  // beyond it a counter cannot count on
)

// metrics are those of a job, in the order of the file.
var metrics = []struct{ name, kind, help string }{
	{"last_success_timestamp_seconds", "gauge", "When the command last ended with exit code 0 under the lock."},
	{"last_failure_timestamp_seconds", "gauge", "When a run last ended with another exit code than 0."},
	{"previous_failure_timestamp_seconds", "gauge", "When a run ended so the time before."},
	{"last_start_timestamp_seconds", "gauge", "When the command was last started."},
	{"running", "gauge", "1 until the end of the run that started last is written, 0 afterwards."},
	{"expected_interval_seconds", "gauge", "How often the job should succeed: --expect-every."},
	{"last_end_timestamp_seconds", "gauge", "When a run last ended and the lock was released."},
	{"last_duration_seconds", "gauge", "How long that run took."},
	{"last_exit_code", "gauge", "The exit code of redlock after that run."},
	{"last_wait_seconds", "gauge", "How long redlock last waited for the lock, whether it got it or not."},
	{"last_taken_timestamp_seconds", "gauge", "When the command was last not started because another held the lock."},
	{"last_loss_timestamp_seconds", "gauge", "When a run last ended whose lock was lost."},
	{"created_timestamp_seconds", "gauge", "Since when the counters count."},
	{"starts_total", "counter", "Times that the command was started. A run that has not ended is not among runs_total."},
	{"runs_total", "counter", "Runs: the command was started, and has ended."},
	{"failures_total", "counter", "Runs that ended with another exit code than 0."},
	{"losses_total", "counter", "Locks that were lost."},
	{"taken_total", "counter", "Times that the command was not started because another held the lock."},
	{"errors_total", "counter", "Times that the command was not started for another reason."},
}

// values are those of a job. A gauge that is missing has never been set.
type values map[string]float64

// prepare sets what each file has. Files of older versions have not counted starts.
func (v values) prepare(now time.Time, every time.Duration) {
	if _, counted := v["starts_total"]; !counted {
		v["starts_total"] = v["runs_total"]
	}
	for _, m := range metrics {
		if m.kind == "counter" {
			v[m.name] += 0
		}
	}
	v["running"] += 0
	if v["created_timestamp_seconds"] == 0 {
		v["created_timestamp_seconds"] = promfile.Seconds(now)
	}
	delete(v, "expected_interval_seconds")
	if every > 0 {
		v["expected_interval_seconds"] = every.Seconds()
	}
}

// start adds that the command was started. If redlock is killed, this stays until the next start.
func (v values) start(at time.Time) {
	v["starts_total"]++
	v["last_start_timestamp_seconds"] = promfile.Seconds(at)
	v["running"] = 1
}

// add adds how an attempt ended, whose command was started at that time.
func (v values) add(a Attempt, start time.Time) {
	v["last_wait_seconds"] = max(0, a.Waited.Seconds())
	if a.Lost {
		v["losses_total"]++
		v["last_loss_timestamp_seconds"] = promfile.Seconds(a.Ended)
	}
	switch {
	case !a.Started && a.Taken:
		v["taken_total"]++
		v["last_taken_timestamp_seconds"] = promfile.Seconds(a.Ended)
		return
	case !a.Started:
		v["errors_total"]++
		return
	}
	v["runs_total"]++
	if v["last_start_timestamp_seconds"] == promfile.Seconds(start) { // otherwise another run started since
		v["running"] = 0
	}
	v["last_end_timestamp_seconds"] = promfile.Seconds(a.Ended)
	v["last_duration_seconds"] = max(0, a.Ran.Seconds())
	v["last_exit_code"] = float64(a.Code)
	if a.Code == 0 {
		v["last_success_timestamp_seconds"] = promfile.Seconds(a.Ended)
		return
	}
	v["failures_total"]++
	if last, failed := v["last_failure_timestamp_seconds"]; failed {
		v["previous_failure_timestamp_seconds"] = last
	}
	v["last_failure_timestamp_seconds"] = promfile.Seconds(a.Ended)
}

// text returns the file with the values.
func (v values) text(name string) ([]byte, error) {
	var b bytes.Buffer
	for _, m := range metrics {
		if value, set := v[m.name]; set {
			promfile.Head(&b, prefix+m.name, m.kind, m.help)
			promfile.Sample(&b, prefix+m.name, labels(name), value)
		}
	}
	if b.Len() > maxFile {
		return nil, errors.New("the name of the lock is too long")
	}
	return b.Bytes(), nil
}

// parse returns the values of a file that text has made for the same name. Metrics that it does not know are left out: a newer
// version of the tool may have written them.
func parse(file []byte, name string) (values, error) {
	v := values{}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		metric, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), labels(name)+" ")
		value, err := strconv.ParseFloat(number, 64)
		if !strings.HasPrefix(metric, prefix) || err != nil || !(value >= 0 && value < maxValue) { // a NaN is neither
			return nil, fmt.Errorf("%.80q is not of this job", line)
		}
		for _, m := range metrics {
			if metric == prefix+m.name {
				v[m.name] = value
			}
		}
	}
	if _, complete := v["errors_total"]; !complete { // the last one
		return nil, errors.New("its end is missing")
	}
	return v, nil
}

// labels are the labels of a job, as the exposition format has them: name, as in promredlock. Prometheus has a label job of its own.
func labels(name string) string {
	return promfile.Labels("name", name)
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// fileName returns the name of a job's file: enough of the job's name to recognise it, and a hash that tells it from all others.
func fileName(name string) string {
	hash := sha256.Sum256([]byte(name))
	return fmt.Sprintf("redlock_%.40s_%x.prom", unsafe.ReplaceAllString(name, "_"), hash[:8])
}
