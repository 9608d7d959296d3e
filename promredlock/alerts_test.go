package promredlock_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/defaults"
)

// quickly is by how much the test runs faster than the rules are meant for: two seconds stand for a minute, and the interval of
// scrapes for 30 s.
const quickly = 30

var (
	ranges   = regexp.MustCompile(`\[([^\]]*)\]`)
	waits    = regexp.MustCompile(`(?m)^( *for: )(.*)$`)
	duration = regexp.MustCompile(`^(\d+)([smhd])$`)
	names    = regexp.MustCompile(`(?m)^ *- alert: (.*)$`)
)

// readAlerts returns the rules, and the names of the alerts.
func readAlerts(t *testing.T) (rules string, alerts []string) {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	for _, match := range names.FindAllSubmatch(text, -1) {
		alerts = append(alerts, string(match[1]))
	}
	return string(text), alerts
}

// scaled divides each window and each waiting time of rules by quickly. The file must not have durations of another form, which
// would stay as they are.
func scaled(t *testing.T, rules string) string {
	t.Helper()
	divide := func(text string) string { return fmt.Sprintf("%dms", (parse(t, text) / quickly).Milliseconds()) }
	rules = withoutComments(rules)
	require.NotContains(t, rules, "offset")
	require.NotContains(t, rules, "interval")
	rules = ranges.ReplaceAllStringFunc(rules, func(window string) string { return "[" + divide(strings.Trim(window, "[]")) + "]" })
	return waits.ReplaceAllStringFunc(rules, func(line string) string {
		key, text, _ := strings.Cut(line, ": ")
		return key + ": " + divide(text)
	})
}

func parse(t *testing.T, text string) time.Duration {
	t.Helper()
	match := duration.FindStringSubmatch(text)
	require.NotNil(t, match, "a duration with one unit: %q", text)
	n, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return time.Duration(n) * map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[match[2]]
}

func withoutComments(rules string) string {
	var code []string
	for line := range strings.Lines(rules) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			code = append(code, line)
		}
	}
	return strings.Join(code, "")
}

// patientNodes makes the threshold of RedlockNodeSlow higher, for a machine that is busy. testdata/thresholds.yml has that of the file.
func patientNodes(t *testing.T, rules string) string {
	t.Helper()
	threshold := regexp.MustCompile(`(redlock_node_duration_seconds_bucket\{.*) 0\.1\n`)
	require.Len(t, threshold.FindAllString(rules, -1), 2)
	return threshold.ReplaceAllString(rules, "$1 0.25\n")
}

func TestAlerts_AreRulesThatPromtoolAccepts(t *testing.T) {
	t.Parallel()
	needPrometheus(t, "promtool")
	run(t, "promtool", "check", "rules", "alerts.yml", "alerts-jobs.yml", "alerts-nodes.yml")
	rules, _ := readAlerts(t)
	quick := filepath.Join(t.TempDir(), "quick.yml")
	require.NoError(t, os.WriteFile(quick, []byte(scaled(t, rules)), 0o600))
	run(t, "promtool", "check", "rules", quick)
}

// The files there say so: whoever changes a rule types this line.
func TestAlerts_PassTheTestsThatLieBesideThem(t *testing.T) {
	t.Parallel()
	needPrometheus(t, "promtool")
	out := run(t, "sh", "-c", "cd testdata && promtool test rules *.yml")
	require.Equal(t, 5, strings.Count(out, "SUCCESS"), out)
}

func TestAlerts_EachIsTestedAtItsThresholdAndIfItIsAboutAStateAfterARecovery(t *testing.T) {
	t.Parallel()
	thresholds, err := os.ReadFile("testdata/thresholds.yml")
	require.NoError(t, err)
	recovery, err := os.ReadFile("testdata/recovery.yml")
	require.NoError(t, err)
	rules, _ := readAlerts(t)
	for alert, rule := range each(rules) {
		require.Contains(t, string(thresholds), fmt.Sprintf("ALERTS{alertname=%q", alert))
		if waits.MatchString(rule) {
			require.Contains(t, string(recovery), fmt.Sprintf("{alertname=%q}', value", alert))
		}
	}
}

// The danger: an alert whose window outlives the outage that it is about fires for what is well again.
func TestAlerts_HaveNoWindowThatIsLongerThanTheyWait(t *testing.T) {
	t.Parallel()
	rules, alerts := readAlerts(t)
	found := each(withoutComments(rules))
	require.Len(t, found, len(alerts))
	for alert, rule := range found {
		wait := waits.FindStringSubmatch(rule)
		if wait == nil {
			require.NotContains(t, rule, "rate(", "%s: about an event, which is counted", alert)
			continue
		}
		require.NotContains(t, rule, "increase(", "%s: about a state", alert)
		for _, window := range ranges.FindAllStringSubmatch(rule, -1) {
			require.LessOrEqual(t, parse(t, window[1]), parse(t, wait[2]), alert)
		}
		if strings.Contains(rule, "rate(") {
			require.Contains(t, rule, "unless", "%s: ends as soon as all is well", alert)
		}
	}
}

// each returns the text of each rule by the name of its alert.
func each(rules string) map[string]string {
	found := map[string]string{}
	for _, rule := range strings.Split(rules, "- alert: ")[1:] {
		name, text, _ := strings.Cut(rule, "\n")
		found[name] = text
	}
	return found
}

func TestAlerts_LeadToADocumentThatExists(t *testing.T) {
	t.Parallel()
	rules, alerts := readAlerts(t)
	ofNodes := readToolAlerts(t, "alerts-nodes.yml")
	rules, alerts = rules+ofNodes, slices.AppendSeq(alerts, maps.Keys(each(ofNodes)))
	punctuation := regexp.MustCompile(`[^a-z0-9 -]`)
	anchors := map[string]bool{}
	for _, page := range []string{"operations.md", "failures.md", "doctor.md", "telemetry.md"} {
		document, err := os.ReadFile("../docs/" + page)
		require.NoError(t, err)
		for line := range strings.Lines(string(document)) {
			if heading := strings.TrimLeft(line, "#"); heading != line {
				heading = punctuation.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
				anchors[page+"#"+strings.ReplaceAll(heading, " ", "-")] = true
			}
		}
	}
	links := regexp.MustCompile(`(?m)^ *runbook_url: https://github.com/quorumlock/quorumlock/blob/main/docs/(.*)$`).FindAllStringSubmatch(rules, -1)
	require.Len(t, links, len(alerts), "each alert has one")
	for _, link := range links {
		require.True(t, anchors[link[1]], "there is no docs/%s", link[1])
	}
}

func TestAlerts_AreInTheDocumentation(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/telemetry.md")
	require.NoError(t, err)
	_, alerts := readAlerts(t)
	for _, file := range []string{"alerts-jobs.yml", "alerts-nodes.yml"} {
		alerts = slices.AppendSeq(alerts, maps.Keys(each(readToolAlerts(t, file))))
	}
	for _, alert := range alerts {
		require.Contains(t, string(document), "| `"+alert+"` |")
	}
}

// readToolAlerts returns the rules about metrics of the tool. Tests in cmd/redlock have them fire.
func readToolAlerts(t *testing.T, file string) string {
	t.Helper()
	rules, err := os.ReadFile(file)
	require.NoError(t, err)
	return withoutComments(string(rules))
}

func TestAlertsOfNodes_AreTestedAndHaveTheThresholdsOfTheDocumentation(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/telemetry.md")
	require.NoError(t, err)
	tests, err := os.ReadFile("testdata/nodes.yml")
	require.NoError(t, err)
	days, err := os.ReadFile("testdata/days.yml")
	require.NoError(t, err)
	said := map[string]string{
		"RedlockProbeNodeDown": "for 1 min", "RedlockProbeMajorityDown": "for 2 min", "RedlockLockWithoutTTL": "for 5 min",
		"RedlockProbeNodeQuarantined": "for 15 min", "RedlockDoctorFault": "a fault", "RedlockDoctorLate": "for 25 hours", "RedlockProbeMissing": "for 5 min",
	}
	alerts := each(readToolAlerts(t, "alerts-nodes.yml"))
	require.Len(t, alerts, len(said))
	for alert, rule := range alerts {
		require.Contains(t, string(tests)+string(days), fmt.Sprintf("ALERTS{alertname=%q, alertstate=\"firing\", ", alert))
		row := regexp.MustCompile("(?m)^\\| `" + alert + "` \\| ([^|]*) \\|").FindStringSubmatch(string(document))
		require.NotNil(t, row, alert)
		require.Contains(t, row[1], said[alert], alert)
		if wait := waits.FindStringSubmatch(rule); wait != nil && alert != "RedlockDoctorFault" {
			require.Contains(t, said[alert], strings.Replace(wait[2], "m", " min", 1), alert)
		}
	}
	require.Contains(t, alerts["RedlockDoctorLate"], fmt.Sprintf("> %.0f\n", (25*time.Hour).Seconds()))
}

func TestAlertsOfJobs_HaveTheThresholdsOfTheDocumentation(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/telemetry.md")
	require.NoError(t, err)
	_, page, found := strings.Cut(string(document), "\n## Jobs\n")
	require.True(t, found)
	page = strings.Join(strings.Fields(page), " ")
	rules := readToolAlerts(t, "alerts-jobs.yml")
	alerts := each(rules)
	require.Len(t, alerts, 5)
	for alert, rule := range alerts {
		require.Contains(t, rule, "runbook_url: https://github.com/quorumlock/quorumlock/blob/main/docs/telemetry.md#jobs\n", alert)
	}
	limit := func(text, pattern string) float64 {
		match := regexp.MustCompile(pattern).FindStringSubmatch(text)
		require.NotNil(t, match, "%s in %s", pattern, text)
		value, err := strconv.ParseFloat(match[1], 64)
		require.NoError(t, err)
		return value
	}
	require.Equal(t, 3600*limit(page, `else (\d+) hours`), limit(rules, `seconds:max \+ (\d+)\n`))
	for _, alert := range []string{"RedlockJobNotSucceeded", "RedlockJobTaken"} {
		require.Equal(t, 3600*limit(page, `twice, or the interval and (\d+) hour`), limit(alerts[alert], `clamp_max\(.*, (\d+)\)\n`), alert)
	}
	require.Equal(t, limit(page, "`RedlockJobFails` \\| more than (\\d+) run"), limit(alerts["RedlockJobFails"], `> (\d+)\n`))
	require.Contains(t, alerts["RedlockJobHangs"], "> on (name) group_left () name:redlock_job_expected_interval_seconds:max\n", "the interval itself")
	require.Equal(t, 3600.0, limit(alerts["RedlockJobLockLost"], `< (\d+)\n`))
	require.Contains(t, page, "a lock was lost while a job ran, in the last hour")
	require.Contains(t, page, "A machine that is down counts for two days more")
	require.Equal(t, 6, strings.Count(rules, "[2d]"))
}

// A threshold that the page states is that of the rule, and it follows from the defaults of the library.
func TestAlerts_HaveTheThresholdsOfTheDocumentationAndOfTheDefaults(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/telemetry.md")
	require.NoError(t, err)
	rules, _ := readAlerts(t)
	thresholds := map[string]float64{}
	for alert, rule := range each(withoutComments(rules)) {
		row := regexp.MustCompile("(?m)^\\| `" + alert + "` \\| ([^|]*) \\|").FindStringSubmatch(string(document))
		require.NotNil(t, row, alert)
		limits := regexp.MustCompile(`(?m) (>|<=) ([\d.]+)$`).FindAllStringSubmatch(rule, -1)
		for _, limit := range limits {
			if limit[2] == "0" || alert == "RedlockMajorityDown" {
				continue
			}
			value, err := strconv.ParseFloat(limit[2], 64)
			require.NoError(t, err)
			require.Equal(t, value, cmp.Or(thresholds[alert], value), "%s: one threshold", alert)
			thresholds[alert] = value
			said := fmt.Sprintf("more than (%g %%|%g ms|%g s|%g) ?", 100*value, 1000*value, value, value)
			require.Regexp(t, said, row[1], alert)
		}
	}
	require.InDelta(t, (defaults.NodeTimeout / 3).Seconds(), thresholds["RedlockNodeSlow"], 1e-9)
	require.InDelta(t, (defaults.TTL / 2).Seconds(), thresholds["RedlockLongWaits"], 1e-9)
	require.Contains(t, rules, fmt.Sprintf("unchanged, for %.0f s:", defaults.StuckKey.Seconds()))
	require.Len(t, thresholds, 8, thresholds)
}

func TestDocumentation_HasConfigurationsThatPromtoolAccepts(t *testing.T) {
	t.Parallel()
	needPrometheus(t, "promtool")
	document, err := os.ReadFile("../docs/telemetry.md")
	require.NoError(t, err)
	blocks := map[string]string{}
	for _, match := range regexp.MustCompile("(?ms)^```text\n(\\w+):(.*?)^```$").FindAllStringSubmatch(string(document), -1) {
		blocks[match[1]] = match[1] + ":" + match[2]
	}
	require.Len(t, blocks, 2)
	relabel := strings.TrimSuffix(strings.ReplaceAll(blocks["metric_relabel_configs"], "\n", "\n  "), "  ")
	config := blocks["rule_files"] + "scrape_configs:\n- job_name: app\n  " + relabel
	dir := t.TempDir()
	rules, alerts := readAlerts(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), []byte(rules), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	require.Contains(t, run(t, "promtool", "check", "config", filepath.Join(dir, "prometheus.yml")), strconv.Itoa(len(alerts))+" rules found")
}
