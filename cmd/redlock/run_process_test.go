//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// runPatience is how long a test waits for what is to happen.
const runPatience = 30 * time.Second

// The programs that tests start are to get the signals that these tests may have been started without, as by nohup or in the
// background.
func init() {
	if os.Getenv(mainEnv) != "" {
		return // this is such a program
	}
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// toolEnv is the environment for the tool as a process of its own, on servers.
func toolEnv(servers []*testredis.Process, more ...string) []string {
	env := append(os.Environ(), mainEnv+"=1", "REDLOCK_NODES="+strings.Join(testredis.URLs(servers), ","),
		"GORACE=atexit_sleep_ms=0") // with the race detector each process would sleep for a second at its end
	return append(env, more...)
}

// process is the tool, running as a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}

	mu     sync.Mutex
	lines  map[string][]string // by stream
	closed map[string]bool
	news   chan struct{}
}

// toolCommand is the tool with a command line.
func toolCommand(servers []*testredis.Process, args ...string) *exec.Cmd {
	cmd := toolProgram(args...)
	cmd.Env = toolEnv(servers)
	return cmd
}

// start starts a command, and kills it at the end of the test.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{
		t: t, cmd: cmd, ended: make(chan struct{}), lines: map[string][]string{}, closed: map[string]bool{}, news: make(chan struct{}),
	}
	var err error
	p.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var reading sync.WaitGroup
	reading.Go(func() { p.read("out", out) })
	reading.Go(func() { p.read("err", errs) })
	go func() {
		reading.Wait()
		_ = cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		<-p.ended
		if t.Failed() {
			t.Logf("stdout: %q\nstderr: %q", p.lines["out"], p.lines["err"])
		}
	})
	return p
}

// three starts three servers, for a test that runs beside others.
func three(t *testing.T) []*testredis.Process {
	t.Helper()
	t.Parallel()
	return testredis.Real(t, 3)
}

// holding starts redlock run with a command that goes on until its input ends, and returns when that has started.
func holding(t *testing.T, servers []*testredis.Process) *process {
	t.Helper()
	p := runTool(t, servers, "job", "cat")
	p.event("started")
	return p
}

// runTool starts redlock run with JSON events.
func runTool(t *testing.T, servers []*testredis.Process, args ...string) *process {
	t.Helper()
	return start(t, toolCommand(servers, append([]string{"run", "--json"}, args...)...))
}

func (p *process) read(stream string, from io.Reader) {
	for lines := bufio.NewScanner(from); ; {
		more := lines.Scan()
		p.mu.Lock()
		if more {
			p.lines[stream] = append(p.lines[stream], lines.Text())
		} else {
			p.closed[stream] = true
		}
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
		if !more {
			return
		}
	}
}

// line waits for a line of a stream that fits.
func (p *process) line(stream, what string, fits func(string) bool) string {
	p.t.Helper()
	for late := time.After(runPatience); ; {
		p.mu.Lock()
		lines, closed, news := p.lines[stream], p.closed[stream], p.news
		p.mu.Unlock()
		for _, line := range lines {
			if fits(line) {
				return line
			}
		}
		if closed {
			require.Fail(p.t, "never printed", "%s: %q", what, lines)
		}
		select {
		case <-news:
		case <-late:
			require.Fail(p.t, "not printed in time", "%s: %q", what, lines)
		}
	}
}

// says waits for a line on stdout.
func (p *process) says(text string) {
	p.t.Helper()
	p.line("out", text, func(line string) bool { return line == text })
}

// complains waits for a line on stderr that contains a text, and returns it.
func (p *process) complains(text string) string {
	p.t.Helper()
	return p.line("err", text, func(line string) bool { return strings.Contains(line, text) })
}

// toolEvent is one line of --json.
type toolEvent struct {
	Event, Time, Name, Token, Holder, Signal, Error, Command, Lock string
	Fence                                                          uint64
	PID, Processes                                                 int
	Code                                                           *int
	Validity                                                       *int64 `json:"validity_ms"`
}

// event waits for an event.
func (p *process) event(name string) (e toolEvent) {
	p.t.Helper()
	p.line("err", name, func(line string) bool {
		e = toolEvent{}
		return json.Unmarshal([]byte(line), &e) == nil && e.Event == name
	})
	return e
}

// happened reports whether an event has been printed.
func (p *process) happened(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(strings.Join(p.lines["err"], "\n"), fmt.Sprintf(`{"event":%q`, name))
}

// code waits for the end and returns the exit code.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(runPatience):
		require.Fail(p.t, "still running")
	}
	return p.cmd.ProcessState.ExitCode()
}

// enter writes a line to stdin.
func (p *process) enter(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, line+"\n")
	require.NoError(p.t, err)
}

// endsWith closes stdin, and requires an exit code.
func (p *process) endsWith(code int) {
	p.t.Helper()
	require.NoError(p.t, p.stdin.Close())
	assert.Equal(p.t, code, p.code())
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// holder returns the process ID of the holder.
func (p *process) holder() int {
	p.t.Helper()
	for _, s := range processes() {
		if s.parent == p.cmd.Process.Pid {
			return s.pid
		}
	}
	require.Fail(p.t, "no holder")
	return 0
}

// stat is what /proc has about a process.
type stat struct {
	pid, parent, group int
	state              string
}

// statOf returns what /proc has about a process, which may have ended.
func statOf(pid int) (s stat, lives bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, false
	}
	of := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	s.pid, s.state = pid, string(of[0])
	s.parent, _ = strconv.Atoi(string(of[1]))
	s.group, _ = strconv.Atoi(string(of[2]))
	return s, true
}

// processes returns all processes of the machine.
func processes() (all []stat) {
	files, _ := os.ReadDir("/proc")
	for _, file := range files {
		pid, err := strconv.Atoi(file.Name())
		if err != nil {
			continue // it is no process
		}
		if s, lives := statOf(pid); lives {
			all = append(all, s)
		}
	}
	return all
}

// living returns the processes of a group that have not ended.
func living(group int) (pids []int) {
	for _, s := range processes() {
		if s.group == group && s.state != "Z" && s.state != "X" {
			pids = append(pids, s.pid)
		}
	}
	return pids
}

// stateOf returns the letter for what a process does; "" if there is none.
func stateOf(pid int) string {
	s, _ := statOf(pid)
	return s.state
}

func requireDead(t *testing.T, group int) {
	t.Helper()
	require.Empty(t, living(group), "the command has outlived the lock")
}

// freeze stops a process and returns when it stands still.
func freeze(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	require.Eventually(t, func() bool { return stateOf(pid) == "T" }, runPatience, time.Millisecond)
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) })
}

// keys returns on how many servers a key exists.
func keys(t *testing.T, servers []*testredis.Process, key string) (n int) {
	t.Helper()
	for _, s := range servers {
		reply, err := s.Do("EXISTS", key)
		require.NoError(t, err)
		n += int(reply.(int64))
	}
	return n
}

func requireFree(t *testing.T, servers []*testredis.Process, key string) {
	t.Helper()
	assert.Eventually(t, func() bool { return keys(t, servers, key) == 0 }, runPatience, 5*time.Millisecond, "the lock was not released")
}
