//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// wrappers are ways in which a command starts a job %[1]s outside of its own process group, or of its session, or as another user. %[2]s is its
// folder.
var wrappers = map[string]string{
	"su":                  `su nobody -s /bin/sh -c "%[1]s; true"`,
	"su, on a terminal":   `su --pty root -c "%[1]s; true"`,
	"runuser":             `runuser nobody -s /bin/sh -c "%[1]s; true"`,
	"sudo":                `sudo -n %[1]s`,
	"sudo, on a terminal": `script -qec "sudo -n %[1]s" /dev/null`, // with use_pty, as Debian's configuration has it
	"script":              `script -qec "%[1]s; true" /dev/null`,
	"nohup":               `nohup %[1]s`,
	"setsid":              `setsid --wait %[1]s`,
	"a daemon":            `setsid sh -c "%[1]s >/dev/null 2>&1 &"; while [ ! -e %[2]s/ready ]; do sleep 0.01; done`,
}

// asRoot runs the test as root, in a process of its own if it has to, and reports whether this process is the one.
func asRoot(t *testing.T, programs ...string) bool {
	t.Helper()
	leaveOut := t.Skip
	if os.Getenv("CI") == "true" {
		leaveOut = t.Fatal
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			leaveOut("make setup brings it: ", err)
		}
	}
	if os.Geteuid() == 0 {
		return true
	}
	if out, err := exec.Command("sudo", "-n", "true").CombinedOutput(); err != nil {
		leaveOut("sudo asks for a password: ", string(out))
	}
	out, err := exec.Command("sudo", "-n", "env", "PATH="+os.Getenv("PATH"), "CI="+os.Getenv("CI"),
		os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// wrapped is a job that goes on until it is told to end, or killed.
type wrapped struct {
	*process
	dir string
}

// startWrapped starts a tool whose command starts the job, and returns when that runs.
func startWrapped(t *testing.T, servers []*testredis.Process, name, wrapper string, flags ...string) *wrapped {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{filepath.Dir(dir), dir} { // for the job as another user
		require.NoError(t, os.Chmod(path, 0o777))
	}
	write := func(file, text string) string {
		path := filepath.Join(dir, file)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
		return path
	}
	worker := write("worker", fmt.Sprintf(`trap "" HUP INT TERM QUIT; : >%[1]s/ready; while [ ! -e %[1]s/stop ]; do sleep 0.02; done`, dir))
	job := write("job", fmt.Sprintf("#!/bin/sh\nsh %s & wait\n", worker))
	args := append([]string{"--kill-after=300ms"}, flags...)
	w := &wrapped{runTool(t, servers, append(args, name, "-c", fmt.Sprintf(wrapper+"%.0[2]s", job, dir))...), dir}
	t.Cleanup(func() {
		for _, pid := range w.workers() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil }, "the job does not run")
	w.event("started")
	return w
}

// workers returns the processes of the job.
func (w *wrapped) workers() (pids []int) {
	for _, s := range processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.pid)) // "" for a process that has ended
		if string(line) == "sh\x00"+w.dir+"/worker\x00" {
			pids = append(pids, s.pid)
		}
	}
	return pids
}

// finish tells the job to end.
func (w *wrapped) finish() {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "stop"), nil, 0o600))
}

func (w *wrapped) requireOver() {
	w.t.Helper()
	require.Empty(w.t, w.workers(), "the job has outlived the lock")
}

func TestRun_AJobThatHasLeftTheGroupIsUnderTheLock(t *testing.T) {
	if !asRoot(t, "sudo", "su", "runuser", "script", "setsid") {
		return
	}
	servers := testredis.Real(t, 3)
	for what, do := range map[string]func(w *wrapped, name string){
		"TERM": func(w *wrapped, name string) {
			w.signal(unix.SIGTERM)
			w.event("released")
			w.requireOver()
			w.code()
		},
		"front is killed": func(w *wrapped, name string) {
			w.signal(unix.SIGKILL)
			requireFree(w.t, servers, name)
			w.requireOver()
		},
		"holder is killed": func(w *wrapped, _ string) {
			require.NoError(w.t, unix.Kill(w.holder(), unix.SIGKILL))
			assert.Equal(w.t, exitInternal, w.code())
			w.requireOver()
		},
		"holder is frozen": func(w *wrapped, _ string) {
			freeze(w.t, w.holder())
			assert.Equal(w.t, exitLost, w.code())
			w.requireOver()
		},
		"lock is lost": func(w *wrapped, name string) {
			do(w.t, servers, "DEL", name)
			assert.Equal(w.t, exitLost, w.code())
			w.requireOver()
		},
		"command is killed": func(w *wrapped, name string) {
			_ = unix.Kill(-w.event("started").PID, unix.SIGKILL) // fails if a daemon was all that it started
			w.event("ended")
			if len(w.workers()) > 0 { // the job has left the group, or is about to end
				w.finish()
			}
			w.event("released")
			w.requireOver()
		},
	} {
		for wrapper, script := range wrappers {
			t.Run(what+"/"+wrapper, func(t *testing.T) {
				t.Parallel()
				name := strings.ReplaceAll(what+" "+wrapper, " ", "-")
				flags := []string(nil)
				if what == "holder is frozen" {
					flags = []string{"--ttl=3s"}
				}
				do(startWrapped(t, servers, name, script, flags...), name)
			})
		}
	}
}

func TestRun_WaitsForWhatHasLeftTheGroupAndSaysSo(t *testing.T) {
	servers := three(t)
	w := startWrapped(t, servers, "job", wrappers["a daemon"], "--ttl=2s")
	assert.Zero(t, *w.event("ended").Code)
	left := w.event("outside")
	assert.Equal(t, "job", left.Command)
	assert.GreaterOrEqual(t, left.Processes, 2)
	assert.Contains(t, w.below(w.holder()), left.PID)
	renewals(w.process, 3)
	assert.Equal(t, exitTaken, runTool(t, servers, "-n", "job", "true").code())
	w.finish()
	assert.Zero(t, w.code())
	w.event("released")

	p := start(t, toolCommand(servers, "run", "job", "-c", "(setsid sleep 2 >/dev/null 2>&1 &) ; sleep 0.2"))
	line := p.complains("the command has ended, but process ")
	assert.Regexp(t, `^redlock: the command has ended, but process \d+ \("sleep"\), which has left its group, runs: the lock is kept until then; with `, line)
	assert.Zero(t, p.code())

	p = runTool(t, servers, "job", "-c", "(setsid sleep 0.6 >/dev/null 2>&1 &) ; sleep 0.2")
	assert.Zero(t, p.code())
	assert.False(t, p.happened("outside"), "it needed a moment")
}

// below returns the descendants of a process.
func (w *wrapped) below(root int) (pids []int) {
	for _, s := range processes() {
		if s.parent == root {
			pids = append(append(pids, s.pid), w.below(s.pid)...)
		}
	}
	return pids
}

func TestRun_SignalsEndTheWaitForWhatHasLeftTheGroup(t *testing.T) {
	servers := three(t)
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		w := startWrapped(t, servers, "job", wrappers["a daemon"])
		w.event("outside")
		w.signal(unix.SIGUSR1) // which ends nothing
		w.event("signal")
		require.NotEmpty(t, w.workers())
		w.signal(sig)
		w.event("released")
		w.requireOver()
		assert.Zero(t, w.code(), "the command's")
	}
}

func TestRun_EndsOrIgnoresWhatHasLeftTheGroupIfItIsTold(t *testing.T) {
	servers := three(t)
	w := startWrapped(t, servers, "job", wrappers["a daemon"], "--descendants=kill")
	assert.Zero(t, w.code())
	w.requireOver()
	assert.NotZero(t, w.event("outside").Processes)
	w.event("kill")

	w = startWrapped(t, servers, "job", wrappers["a daemon"], "--descendants=ignore")
	assert.Zero(t, w.code())
	assert.NotEmpty(t, w.workers())
	assert.False(t, w.happened("outside"))
	requireFree(t, servers, "job")
}

// A shell that becomes the tool may have started processes before, which are not the command's.
func TestRun_ChildrenThatTheFrontHadBeforeAreNotTheCommands(t *testing.T) {
	servers := three(t)
	for what, kill := range map[string]func(p *process) int{
		"holder": func(p *process) int {
			for _, s := range processes() {
				if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.pid)); s.parent == p.cmd.Process.Pid && strings.Contains(string(line), "REDLOCK_HOLDER_FILES") {
					return s.pid
				}
			}
			return 0
		},
		"front": func(p *process) int { return p.cmd.Process.Pid },
	} {
		cmd := exec.Command("sh", "-c", `sleep 1000 >/dev/null 2>&1 & echo $!; exec "$@"`, "sh", os.Args[0], "run", "--json", "job", "--", "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & wait")
		cmd.Env = toolEnv(servers)
		p := start(t, cmd)
		var before int
		p.line("out", "number", func(line string) bool { _, err := fmt.Sscan(line, &before); return err == nil })
		t.Cleanup(func() { _ = unix.Kill(before, unix.SIGKILL) })
		p.event("started")
		pid := kill(p)
		require.NotZero(t, pid, what)
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		p.code()
		requireFreeOrLeft(t, what, servers)
		require.NotEmpty(t, stateOf(before), what)
	}
}

// requireFreeOrLeft requires that the lock is released, unless the holder was killed, and frees it then.
func requireFreeOrLeft(t *testing.T, killed string, servers []*testredis.Process) {
	t.Helper()
	if killed == "holder" {
		do(t, servers, "DEL", "job")
	}
	requireFree(t, servers, "job")
}

func TestRun_DoesNotPileUpOrphansThatHaveEnded(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "job", "-c", "for i in 1 2 3 4 5 6 7 8 9; do (sh -c 'exit 3' &); done; echo ready; cat; exit 6")
	p.says("ready")
	holder := p.holder()
	eventually(t, func() bool {
		n := 0
		for _, s := range processes() {
			if s.parent == holder {
				n++
			}
		}
		return n == 1
	}, "orphans are left")
	p.endsWith(6)
}
