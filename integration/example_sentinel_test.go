package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// The passwords of the example.
	redisPassword, sentinelPassword = "of-the-servers", "of-the-sentinels"
	// composeBound is for one command of Docker Compose, which starts up to twelve containers.
	composeBound = 3 * time.Minute
)

// composed is examples/sentinel under Docker Compose.
type composed struct {
	t       *testing.T
	command []string // of Docker Compose, with flags
	subnet  string   // what the addresses of its network begin with
}

// compose starts the example. Its network has another subnet than in the file: that of the file may be in use here.
func compose(t *testing.T) *composed {
	t.Helper()
	if leftOut != "" {
		t.Skip("left out: " + leftOut)
	}
	c := &composed{t: t, command: []string{"docker", "compose"}, subnet: fmt.Sprintf("10.%d.%d.", rand.IntN(100)+100, rand.IntN(256))}
	if exec.Command("docker", "compose", "version").Run() != nil {
		c.command = []string{"docker-compose"}
		if _, err := exec.LookPath("docker-compose"); err != nil {
			require.NotEqual(t, inCI, os.Getenv("CI"), "Docker Compose is not installed")
			t.Skip("left out: Docker Compose is not installed (make setup)")
		}
	}
	dir, project := t.TempDir(), fmt.Sprint("quorumlock-", os.Getpid())
	text, err := os.ReadFile("../examples/sentinel/compose.yaml")
	require.NoError(t, err)
	labelled := fmt.Sprintf("labels: {%s: %q}\n", label, owner) // what is left behind is found by it
	changed := strings.NewReplacer("10.76.0.", c.subnet, "  restart: ", "  "+labelled+"  restart: ", "    ipam:", "    "+labelled+"    ipam:")
	file := filepath.Join(dir, "compose.yaml")
	require.NoError(t, os.WriteFile(file, []byte(changed.Replace(string(text))), 0o600))
	c.command = append(c.command, "--project-name", project, "--file", file)
	t.Setenv("REDIS_IMAGE", os.Getenv(imageVariable))
	t.Setenv("REDIS_PASSWORD", redisPassword)
	t.Setenv("SENTINEL_PASSWORD", sentinelPassword)
	t.Setenv("REDLOCK_IMAGE", image(t, dir, project))
	t.Cleanup(func() {
		if t.Failed() {
			_, out, problems := c.run("logs", "--no-color", "--tail", "20")
			t.Log(out, problems)
		}
		c.ok("down", "--volumes", "--timeout", "0")
	})
	c.ok("up", "--detach")
	labels, err := exec.Command("docker", "ps", "--quiet", "--filter", "label="+label+"="+owner,
		"--filter", "label=com.docker.compose.project="+project).Output()
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(labels)), 12)
	return c
}

// image makes the image of the tool, until the end of the test.
func image(t *testing.T, dir, name string) string {
	t.Helper()
	architecture, err := exec.Command("go", "env", "GOARCH").Output()
	require.NoError(t, err)
	arch := strings.TrimSpace(string(architecture))
	build := exec.Command("go", "build", "-C", "..", "-o", filepath.Join(dir, "image", arch, "redlock"), "./cmd/redlock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	name += ":redlock"
	out, err = exec.Command("docker", "build", "--quiet", "--build-arg", "TARGETARCH="+arch, "--label", label+"="+owner,
		"--tag", name, "--file", "../packaging/Dockerfile", filepath.Join(dir, "image")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() {
		out, err := exec.Command("docker", "rmi", "--force", name).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	})
	return name
}

// run runs a command of Docker Compose.
func (c *composed) run(args ...string) (code int, out, problems string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), composeBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.command[0], slices.Concat(c.command[1:], args)...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	require.NoError(c.t, ctx.Err(), "%q", args)
	require.NotNil(c.t, cmd.ProcessState, "%v", err)
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// ok runs a command that must succeed, and returns its output.
func (c *composed) ok(args ...string) string {
	c.t.Helper()
	code, out, problems := c.run(args...)
	require.Zero(c.t, code, "%q: %s%s", args, out, problems)
	return out
}

// redlock runs the tool in a container.
func (c *composed) redlock(args ...string) (code int, out, problems string) {
	c.t.Helper()
	return c.run(append([]string{"run", "--rm", "-T", "--label", label + "=" + owner, "redlock"}, args...)...)
}

// take takes a lock.
func (c *composed) take(name string) {
	c.t.Helper()
	code, out, problems := c.redlock("try", name, "--ttl=10s", "--restart-guard=10s", "--wait=30s")
	require.Zero(c.t, code, out+problems)
}

// examined is what the doctor says.
type examined struct {
	Servers []struct {
		Node      string
		Reachable bool
		Version   string
		RunID     string `json:"run_id"`
	}
	Findings []struct{ Check, Severity, Node, What string }
}

// doctor has the groups examined.
func (c *composed) doctor(flags ...string) (found examined) {
	c.t.Helper()
	_, out, problems := c.redlock(append([]string{"doctor", "--json", "--restart-guard=10s", "--max-ttl=10s"}, flags...)...)
	require.NoError(c.t, json.Unmarshal([]byte(out), &found), out+problems)
	return found
}

// faults returns the checks that have found a fault.
func (e examined) faults() (checks []string) {
	for _, f := range e.Findings {
		if f.Severity == "fault" {
			checks = append(checks, f.Check)
		}
	}
	return checks
}

// do runs one command on a server or a Sentinel of the example, the last part of whose IP address is given.
func (c *composed) do(last int, cmd string, args ...any) (any, error) {
	port, password := "6379", redisPassword
	if last > 40 {
		port, password = "26379", sentinelPassword
	}
	conn, err := redis.Dial("tcp", net.JoinHostPort(fmt.Sprint(c.subnet, last), port), redis.DialPassword(password),
		redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(5*time.Second), redis.DialWriteTimeout(5*time.Second))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Do(cmd, args...)
}

// info returns a section of INFO of a server.
func (c *composed) info(last int, section string) string {
	text, _ := redis.String(c.do(last, "INFO", section))
	return text
}

// knownReplicas returns how many replicas of the first group a Sentinel knows.
func (c *composed) knownReplicas(last int) int {
	replicas, _ := redis.Values(c.do(last, "SENTINEL", "REPLICAS", "locks-a"))
	return len(replicas)
}

func TestExampleSentinel_LocksAreTakenWhileAGroupFailsOver(t *testing.T) {
	c := compose(t)
	groups := []string{"locks-a", "locks-b", "locks-c"}
	require.Eventually(t, func() bool {
		for primary := 11; primary <= 31; primary += 10 {
			if !strings.Contains(c.info(primary, "replication"), "min_slaves_good_slaves:2") {
				return false
			}
		}
		return true
	}, settleBound, settleLook, "the replicas have attached")
	before := c.doctor("--prepare")
	require.Empty(t, before.faults(), "%+v", before)
	require.Len(t, before.Servers, len(groups))
	for i, server := range before.Servers {
		require.Equal(t, groups[i]+"@"+c.subnet+"41:26379", server.Node)
		require.Contains(t, c.info(11+10*i, "server"), "run_id:"+server.RunID+"\r\n")
	}
	c.take("before")
	require.Eventually(t, func() bool {
		return c.knownReplicas(41) == 2 && c.knownReplicas(42) == 2 && c.knownReplicas(43) == 2
	}, settleBound, settleLook, "the Sentinels know the replicas")

	c.ok("kill", "a1")
	c.take("meanwhile")
	var next string // the IP address of the primary that all Sentinels name
	require.Eventually(t, func() bool {
		named := map[string]bool{}
		for sentinel := 41; sentinel <= 43; sentinel++ {
			address, _ := redis.Strings(c.do(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "locks-a"))
			next = strings.Join(address[:min(1, len(address))], "")
			named[next] = true
		}
		return len(named) == 1 && (next == c.subnet+"12" || next == c.subnet+"13")
	}, settleBound, settleLook, "the group has another primary")
	after := c.doctor()
	last, _ := strconv.Atoi(strings.TrimPrefix(next, c.subnet))
	require.True(t, after.Servers[0].Reachable, "%+v", after)
	require.Contains(t, c.info(last, "server"), "run_id:"+after.Servers[0].RunID+"\r\n", "%+v", after)
	require.Subset(t, []string{"lock"}, after.faults(), "%+v", after) // the group has a replica too few
}
