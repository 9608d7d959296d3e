// Package cron_test runs the lines of the example as cron and systemd would.
package cron_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// machine is a folder with what the files of the example need, in the place of / and of a machine's PATH.
type machine struct {
	dir     string
	runs    string // the file to which the job appends a line
	servers []*testredis.Process
}

// folder is that of the metrics in the files of the example.
const folder = "/var/lib/prometheus/node-exporter"

func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{dir: t.TempDir()}
	m.runs = filepath.Join(m.dir, "runs")
	build := exec.Command("go", "build", "-o", m.dir, "../../cmd/redlock")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	m.write(t, "backup", "#!/bin/sh\necho ran >>"+m.runs+"\n", 0o700)

	const password = "a-password"
	m.servers = testredis.Real(t, 5)
	m.permit(t, password)
	var config map[string]any
	require.NoError(t, json.Unmarshal([]byte(read(t, "redlock.json")), &config))
	require.Len(t, config["nodes"], len(m.servers))
	config["nodes"] = testredis.URLs(m.servers)
	config["timeout"] = "5s" // no machine is too busy for this test
	config["password-file"] = m.write(t, "password", password+"\n", 0o600)
	text, err := json.Marshal(config)
	require.NoError(t, err)
	m.write(t, "redlock.json", string(text), 0o600)
	return m
}

func (m machine) write(t *testing.T, name, text string, mode os.FileMode) (path string) {
	t.Helper()
	path = filepath.Join(m.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

// permit makes the user of the example, with the rights that docs/operations.md has for its key prefix.
func (m machine) permit(t *testing.T, password string) {
	t.Helper()
	rules := strings.NewReplacer(">secret", ">"+password, "~lock:", "~cron:", "{lock:", "{cron:")
	lines := testredis.LockerRules(t, "../..")
	require.NotEmpty(t, lines)
	for _, line := range lines {
		for _, rule := range line {
			m.grant(t, rules.Replace(rule))
		}
	}
}

// grant adds a rule to the user of the example.
func (m machine) grant(t *testing.T, rule string) {
	t.Helper()
	for _, s := range m.servers {
		_, err := s.Do("ACL", "SETUSER", "locker", rule)
		require.NoError(t, err, rule)
	}
}

// inUse has the servers in use as nodes for longer than the restart guard of the example.
func (m machine) inUse(t *testing.T) {
	t.Helper()
	for _, s := range m.servers {
		testredis.InUse(t, s, s.Addr(), time.Hour)
	}
}

// metricsOf returns the folder of the metrics of one of several machines.
func (m machine) metricsOf(i int) string { return filepath.Join(m.dir, "metrics", strconv.Itoa(i)) }

// samples returns the values of a metric of the job on several machines.
func (m machine) samples(t *testing.T, machines int, metric string) (values []string) {
	t.Helper()
	for i := range machines {
		files, err := filepath.Glob(filepath.Join(m.metricsOf(i), "redlock_backup_*.prom"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		sample := regexp.MustCompile(`(?m)^` + metric + `\{name="backup"\} (.*)$`).FindStringSubmatch(read(t, files[0]))
		require.NotNil(t, sample, metric)
		values = append(values, sample[1])
	}
	slices.Sort(values)
	return values
}

// here changes the paths of a line to those of the machine.
func (m machine) here(line string) string {
	return strings.NewReplacer("/etc/redlock.json", filepath.Join(m.dir, "redlock.json"), "/usr/local/bin", m.dir).Replace(line)
}

// together runs a command on several machines at the same time and returns their exit codes and what they print.
func (m machine) together(t *testing.T, machines int, path string, args ...string) (codes []int, output string) {
	t.Helper()
	codes = make([]int, machines)
	outputs := make([]string, machines)
	for i := range machines {
		require.NoError(t, os.MkdirAll(m.metricsOf(i), 0o700))
	}
	var running sync.WaitGroup
	for i := range machines {
		running.Go(func() {
			var local []string
			for _, arg := range args {
				local = append(local, strings.ReplaceAll(arg, folder, m.metricsOf(i)))
			}
			cmd := exec.Command(local[0], local[1:]...)
			cmd.Env = []string{"PATH=" + path}
			out, err := cmd.CombinedOutput()
			codes[i], outputs[i] = cmd.ProcessState.ExitCode(), string(out)
			if err != nil && codes[i] <= 0 {
				t.Error(err)
			}
		})
	}
	running.Wait()
	return codes, strings.Join(outputs, "")
}

func TestCrontab_OneMachineOfFiveRunsTheJob(t *testing.T) {
	m := newMachine(t)
	m.inUse(t)
	var path, line string
	for l := range strings.Lines(m.here(read(t, "redlock.crontab"))) {
		if value, isPath := strings.CutPrefix(l, "PATH="); isPath {
			path = strings.TrimSpace(value)
		}
		if strings.HasPrefix(l, "*") {
			fields := strings.Fields(l)
			require.Equal(t, []string{"*/15", "*", "*", "*", "*", "root"}, fields[:6])
			line = strings.Join(fields[6:], " ")
		}
	}
	for range 2 { // the second time all machines are late
		codes, output := m.together(t, 5, path, "/bin/sh", "-c", line)
		require.Equal(t, []int{0, 0, 0, 0, 0}, codes, output)
		require.Empty(t, output, "cron would mail it")
		require.Equal(t, "ran\n", read(t, m.runs))
	}
	require.Equal(t, []string{"0", "0", "0", "0", "1"}, m.samples(t, 5, "redlock_job_runs_total"))
	require.Equal(t, []string{"1", "2", "2", "2", "2"}, m.samples(t, 5, "redlock_job_taken_total"))
	require.Equal(t, slices.Repeat([]string{"900"}, 5), m.samples(t, 5, "redlock_job_expected_interval_seconds"), "a quarter of an hour")
}

// The default servers of Redis forget locks at a restart.
func TestReadme_HasADoctorWithoutFaults(t *testing.T) {
	m := newMachine(t)
	lines := regexp.MustCompile("(?s)`(redlock doctor --config [^`]*)`").FindAllStringSubmatch(m.here(read(t, "README.md")), -1)
	require.Len(t, lines, 3)
	require.Contains(t, lines[2][1], "--metrics-dir DIR")
	doctor := func(line string) (code int, output string) {
		codes, output := m.together(t, 1, m.dir, "/bin/sh", "-c", line)
		require.Contains(t, []int{0, 1}, codes[0], output) // 1: warnings
		require.NotContains(t, output, "FAULT")
		return codes[0], output
	}
	code, output := doctor(lines[0][1])
	require.Equal(t, 1, code)
	require.Contains(t, output, "the server has been in use as this node for")
	m.inUse(t)
	_, output = doctor(lines[1][1])
	require.NotContains(t, output, "quarantine")
	_, _ = doctor(strings.Replace(lines[2][1], "DIR", folder, 1))
}

func TestReadme_HasTheRightsToSeeLocks(t *testing.T) {
	m := newMachine(t)
	rights := regexp.MustCompile("`locker` \\[needs\\]\\(.*\\) `([^`]+)`").FindStringSubmatch(read(t, "README.md"))
	require.NotNil(t, rights)
	list := []string{filepath.Join(m.dir, "redlock"), "list", "--config", filepath.Join(m.dir, "redlock.json")}
	codes, output := m.together(t, 1, m.dir, list...)
	require.Equal(t, []int{69}, codes, output)
	require.Contains(t, output, "NOPERM")
	for _, right := range strings.Fields(rights[1]) {
		m.grant(t, right)
	}
	codes, output = m.together(t, 1, m.dir, list...)
	require.Equal(t, []int{0}, codes, output)
	require.NotContains(t, output, "NOPERM")
}

func TestPrometheus_TakesTheConfigurationWithItsAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (make setup)")
	}
	m := machine{dir: t.TempDir()}
	config := m.write(t, "prometheus.yml", read(t, "prometheus.yml"), 0o600)
	for _, file := range []string{"alerts-nodes.yml", "alerts-jobs.yml"} {
		m.write(t, file, read(t, "../../promredlock/"+file), 0o600)
	}
	out, err := exec.Command(promtool, "check", "config", config).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "2 rule files found")
	require.Contains(t, read(t, "prometheus.yml"), `"127.0.0.1:8379"`, "the default of --listen")
}

// inhibition is a rule of Alertmanager: alerts of the source inhibit those of the target that have the same labels.
type inhibition struct {
	Source []string `yaml:"source_matchers"`
	Target []string `yaml:"target_matchers"`
	Equal  []string
}

// matched returns the alerts of these rules that a matcher of their names names, and the text of each.
func matched(t *testing.T, matchers []string, rules string) map[string]string {
	t.Helper()
	require.Len(t, matchers, 1)
	pattern := regexp.MustCompile(`^alertname =~? "(.*)"$`).FindStringSubmatch(matchers[0])
	require.NotNil(t, pattern, matchers[0])
	found := map[string]string{}
	for _, rule := range strings.Split(rules, "- alert: ")[1:] {
		name, text, _ := strings.Cut(rule, "\n")
		if regexp.MustCompile("^(" + pattern[1] + ")$").MatchString(name) {
			found[name] = text
		}
	}
	return found
}

// The danger: a rule about an alert that has another name by now, or has lost a label, and does nothing.
func TestAlertmanager_InhibitsAlertsThatExistByLabelsThatTheyHave(t *testing.T) {
	var config struct {
		Route struct {
			GroupBy []string `yaml:"group_by"`
		}
		Inhibitions []inhibition `yaml:"inhibit_rules"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "alertmanager.yml")), &config))
	require.Equal(t, []string{"alertname"}, config.Route.GroupBy, "a critical alert waits for no other")
	require.Len(t, config.Inhibitions, 4)
	rules := ""
	for _, file := range []string{"alerts.yml", "alerts-nodes.yml", "alerts-jobs.yml"} {
		rules += read(t, "../../promredlock/"+file)
	}
	// How many alerts each matcher names.
	sources, targets := []int{2, 1, 2, 1}, []int{4, 5, 2, 3}
	for i, rule := range config.Inhibitions {
		source, target := matched(t, rule.Source, rules), matched(t, rule.Target, rules)
		require.Equal(t, []int{sources[i], targets[i]}, []int{len(source), len(target)}, "%v", rule)
		for name, text := range source {
			require.Contains(t, text, "severity: critical\n", name)
			require.NotContains(t, target, name)
			target[name] = text
		}
		for name, text := range target {
			for _, label := range rule.Equal {
				has := regexp.MustCompile(`(by|on) \(([a-z]+, )*` + label + `[,)]|- ` + label + `:redlock_`) // of a recorded series
				require.True(t, has.MatchString(text), "%s has no label %s", name, label)
			}
		}
	}
}

func TestAlertmanager_TakesTheConfiguration(t *testing.T) {
	amtool, err := exec.LookPath("amtool")
	if err != nil {
		t.Skip("amtool is not installed (make setup)")
	}
	out, err := exec.Command(amtool, "check-config", "alertmanager.yml").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "4 inhibit rules")
}

func TestService_OneMachineOfFiveRunsTheJob(t *testing.T) {
	m := newMachine(t)
	m.inUse(t)
	_, line, found := strings.Cut(m.here(read(t, "backup.service")), "\nExecStart=")
	require.True(t, found)
	line, _, _ = strings.Cut(line, "\n")
	for range 2 {
		codes, output := m.together(t, 5, "/usr/bin:/bin", strings.Fields(line)...)
		for _, code := range codes {
			require.Contains(t, []int{0, 75}, code, output) // SuccessExitStatus of the unit
		}
		require.Equal(t, "ran\n", read(t, m.runs))
	}
	require.Equal(t, []string{"0", "0", "0", "0", "1"}, m.samples(t, 5, "redlock_job_runs_total"))
	require.Equal(t, slices.Repeat([]string{"900"}, 5), m.samples(t, 5, "redlock_job_expected_interval_seconds"), "a quarter of an hour")
	require.Contains(t, read(t, "backup.service"), "SuccessExitStatus=75\n")
}
