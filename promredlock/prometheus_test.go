package promredlock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	patience = 4 * time.Minute // for what a loaded machine may be late with
	glance   = 100 * time.Millisecond

	nodeTimeout = time.Second // 20 times the default, as the machine may be busy

	scrapes = time.Second // the interval of scrapes and of the evaluation of rules
)

// needPrometheus skips the test without the programs, or fails it in CI.
func needPrometheus(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing := program + " is not installed (make setup)"
			if os.Getenv("CI") == "true" {
				t.Fatal("CI=true, but this would leave out a test: " + missing)
			}
			t.Skip(missing)
		}
	}
}

// waitUntil waits until something holds.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	begin, ticker, deadline := time.Now(), time.NewTicker(glance), time.After(patience)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
	t.Logf("after %v: %s", time.Since(begin).Round(glance), what)
}

// promServer is a Prometheus server.
type promServer struct {
	t      *testing.T
	url    string
	log    *bytes.Buffer
	client *http.Client
}

// startPrometheus starts a server that collects the path of each job at addr, and evaluates rules.
func startPrometheus(t *testing.T, addr string, jobs []string, rules string) *promServer {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yml"), []byte(rules), 0o600))
	config := fmt.Sprintf("global: {scrape_interval: %[1]v, scrape_timeout: %[1]v, evaluation_interval: %[1]v}\nrule_files: [rules.yml]\nscrape_configs:\n", scrapes)
	for _, job := range jobs {
		config += fmt.Sprintf("- {job_name: %[1]s, metrics_path: /%[1]s, static_configs: [{targets: [%[2]q], labels: {instance: app}}]}\n", job, addr)
	}
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))

	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p := &promServer{t: t, client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
	for range 5 { // another program may have taken the port meanwhile
		if p.start(dir, file) {
			return p
		}
	}
	t.Fatalf("prometheus does not start:\n%s", p.log)
	return nil
}

func (p *promServer) start(dir, config string) bool {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	addr := listener.Addr().String()
	require.NoError(p.t, listener.Close())
	p.url, p.log = "http://"+addr, &bytes.Buffer{}
	cmd := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr, "--log.level=warn")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, p.log, p.log
	child, err := testredis.StartChild(cmd)
	require.NoError(p.t, err)
	ended := func() bool {
		select {
		case <-child.Done():
			return true
		default:
			return false
		}
	}
	waitUntil(p.t, "prometheus is ready", func() bool {
		response, err := p.client.Get(p.url + "/-/ready")
		if err != nil {
			return ended()
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK || ended()
	})
	if ended() {
		return false
	}
	p.t.Cleanup(child.Kill)
	return true
}

// series is what a query returns: labels, and values with their times.
type series struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
	Values [][2]any          `json:"values"`
}

// numbers returns the values that are numbers.
func (s series) numbers() []float64 {
	var all []float64
	for _, pair := range append(s.Values, s.Value) {
		text, _ := pair[1].(string)
		if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			all = append(all, f)
		}
	}
	return all
}

// api calls the HTTP API. Prometheus refuses an expression that it does not understand.
func (p *promServer) api(path string, parameters url.Values) ([]series, error) {
	response, err := p.client.PostForm(p.url+"/api/v1/"+path, parameters)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []series }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("%s: %s", parameters.Get("query"), answer.Error)
	}
	return answer.Data.Result, nil
}

// at evaluates an expression at a time.
func (p *promServer) at(t *testing.T, at time.Time, expr string) []series {
	t.Helper()
	result, err := p.api("query", url.Values{"query": {expr}, "time": {unix(at)}})
	require.NoError(t, err)
	return result
}

// during evaluates an expression at every scrape of a time.
func (p *promServer) during(t *testing.T, begin, end time.Time, expr string) []series {
	t.Helper()
	result, err := p.api("query_range", url.Values{
		"query": {expr}, "start": {unix(begin)}, "end": {unix(end)}, "step": {strconv.FormatFloat(scrapes.Seconds(), 'f', -1, 64)},
	})
	require.NoError(t, err)
	return result
}

func unix(at time.Time) string { return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64) }

// clear reports whether no alert of a job fires, or is about to. A scrape that fails ends alerts, too, so the latest have to have
// succeeded.
func (p *promServer) clear(t *testing.T, job string) bool {
	t.Helper()
	now := time.Now()
	collected := p.at(t, now, fmt.Sprintf(`min_over_time(up{job=%q}[3s]) == 1`, job))
	return len(collected) == 1 && len(p.at(t, now, fmt.Sprintf(`ALERTS{job=%q}`, job))) == 0
}

// run runs a program, and returns what it prints.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", program, strings.Join(args, " "), out)
	return string(out)
}
