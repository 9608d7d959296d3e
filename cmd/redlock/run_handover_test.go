//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock"
)

// handover is the tool between its two processes: the first has the lock, and the second begins. Both read a
// certificate, which the second waits for.
type handover struct {
	*process
	t       *testing.T
	servers []*testredis.Process
	pem     []byte
	file    *os.File
}

// startHandover starts redlock run. The node that has a certificate does not answer.
func startHandover(t *testing.T, servers []*testredis.Process, args ...string) *handover {
	t.Helper()
	pem, err := os.ReadFile(testredis.NewCertificate(t, eternity, "127.0.0.1").File)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "certificate")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	cmd := toolCommand(servers, append([]string{"run", "--json", "--tls-ca=" + path}, args...)...)
	cmd.Env = append(cmd.Env, "REDLOCK_NODES="+strings.Join(testredis.URLs(servers), ",")+",rediss://127.0.0.1:1")
	h := &handover{start(t, cmd), t, servers, pem, nil}
	h.open(path)
	h.finish()
	h.event("acquired")
	h.open(path)
	return h
}

// open returns when a process waits for the certificate.
func (h *handover) open(path string) {
	h.t.Helper()
	var err error
	h.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(h.t, err)
}

// finish lets that process go on.
func (h *handover) finish() {
	h.t.Helper()
	_, err := h.file.Write(h.pem)
	require.NoError(h.t, err)
	require.NoError(h.t, h.file.Close())
}

// endsWithout requires that the tool ends with a code and a text, and that the command has not run.
func (h *handover) endsWithout(code int, text string) {
	h.t.Helper()
	assert.Equal(h.t, code, h.code())
	assert.Contains(h.t, h.event("exit").Error, text)
	assert.Empty(h.t, h.lines["out"])
	assert.False(h.t, h.happened("started"))
}

// children returns the processes that a process has started.
func children(pid int) (pids []int) {
	for _, s := range processes() {
		if s.parent == pid {
			pids = append(pids, s.pid)
		}
	}
	return pids
}

func TestRun_IsOneProcessWhileItWaits(t *testing.T) {
	servers := three(t)
	first := holding(t, servers)
	p := runTool(t, servers, "job", "cat")
	p.event("blocked")
	assert.Empty(t, children(p.cmd.Process.Pid))
	first.endsWith(0)
	p.event("started")
	assert.Len(t, children(p.cmd.Process.Pid), 1)
	p.endsWith(0)
}

func TestRun_TheLockThatIsHandedOverIsTheOneThatWasTaken(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags  []string
		shares bool // with another
	}{
		"fencing":   {[]string{"--fencing"}, false},
		"exclusive": {nil, false},
		"a reader":  {[]string{"--shared"}, true},
		"a slot":    {[]string{"--slots=3"}, true},
		"several":   {[]string{"--also=other"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testredis.Real(t, 3)
			first := runTool(t, servers, append(test.flags, "job", "cat")...)
			first.event("started")
			if !test.shares {
				first.endsWith(0)
			}
			h := startHandover(t, servers, append(test.flags, "--max-hold=1h", "--", "job", "sh", "-c",
				`echo "$REDLOCK_TOKEN $REDLOCK_FENCE"; cat`)...)
			before := holdersOf(t, servers)
			h.finish()
			acquired := h.event("acquired")
			h.says(acquired.Token + " " + strconv.FormatUint(acquired.Fence, 10))
			assert.Equal(t, name == "fencing", acquired.Fence > 0)
			h.event("renewed")
			assert.ElementsMatch(t, before, holdersOf(t, servers))
			h.endsWith(0)
			if test.shares {
				first.endsWith(0)
			}
			requireFree(t, servers, "job")
			requireFree(t, servers, "other")
		})
	}
}

// Processes that wait for the lock send messages to the owner of its token.
func TestRun_ListensAsTheOwnerOfTheLock(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "--ttl=1h", "job", "cat")
	owner := token.Owner(p.event("acquired").Token)
	p.event("started")
	for _, s := range servers {
		eventually(t, func() bool { return testredis.Subscribers(t, s, form.OwnerChannel(owner)) == 1 }, "no process listens")
	}
	p.endsWith(0)
}

// holdersOf returns the holders of the locks, without times.
func holdersOf(t *testing.T, servers []*testredis.Process) (all []redlock.Holder) {
	t.Helper()
	locker, err := redlock.Open(testredis.URLs(servers))
	require.NoError(t, err)
	defer locker.Close()
	for _, name := range []string{"job", "other"} {
		state, err := locker.Inspect(t.Context(), name)
		require.NoError(t, err)
		for _, holder := range state.Holders {
			holder.TTL = 0
			all = append(all, holder)
		}
	}
	return all
}

func TestRun_ASignalInTheHandOverReleasesTheLock(t *testing.T) {
	servers := three(t)
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		h := startHandover(t, servers, "job", "echo", "ran")
		h.signal(unix.SIGUSR1) // there is nobody whom it could concern
		h.signal(sig)
		h.endsWithout(128+int(sig), "")
		requireFree(t, servers, "job")
		require.NoError(t, h.file.Close())
	}
}

// A job that is stopped keeps its lock.
func TestRun_StoppedInTheHandOverStopsTheCommand(t *testing.T) {
	servers := three(t)
	h := startHandover(t, servers, "job", "cat")
	h.signal(unix.SIGTSTP)
	h.finish()
	group := h.event("started").PID
	eventually(t, func() bool { return stateOf(group) == "T" }, "the command is not stopped")
	h.signal(unix.SIGCONT)
	h.endsWith(0)
}

func TestRun_FrontKilledInTheHandOverLeavesALockThatEnds(t *testing.T) {
	servers := three(t)
	h := startHandover(t, servers, "--ttl=1s", "--timeout=250ms", "job", "echo", "ran")
	holder := h.holder()
	h.signal(unix.SIGKILL)
	h.finish()
	eventually(t, func() bool { s := stateOf(holder); return s == "" || s == "Z" }, "the holder is left")
	h.code()
	assert.Empty(t, h.lines["out"])
	requireFree(t, servers, "job")
}

func TestRun_HolderKilledInTheHandOverReleasesTheLock(t *testing.T) {
	servers := three(t)
	h := startHandover(t, servers, "job", "echo", "ran")
	require.NoError(t, unix.Kill(h.holder(), unix.SIGKILL))
	h.endsWithout(exitInternal, "was killed before it started the command")
	requireFree(t, servers, "job")
}

// The holder has asked the nodes, which answer later.
func TestRun_KilledWhileTheNodesAreAskedDoesNotRunTheCommand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kill func(h *handover)
		code int
	}{
		"front":  {func(h *handover) { h.signal(unix.SIGKILL) }, -1},
		"holder": {func(h *handover) { require.NoError(h.t, unix.Kill(h.holder(), unix.SIGKILL)) }, exitInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testredis.Real(t, 3)
			h := startHandover(t, servers, "--ttl=10m", "--timeout=5s", "job", "echo", "ran")
			each(servers, (*testredis.Process).Freeze)
			h.finish()
			holder := h.holder()
			eventually(t, func() bool { return sockets(holder) > 1 }, "it does not connect")
			test.kill(h)
			if name == "front" {
				h.cmd.Process.Wait() //nolint:errcheck // start waits too
			}
			each(servers, (*testredis.Process).Thaw)
			assert.Equal(t, test.code, h.code())
			assert.Empty(t, h.lines["out"])
			assert.False(t, h.happened("started"))
			requireFree(t, servers, "job")
		})
	}
}

// sockets returns how many sockets a process has.
func sockets(pid int) (n int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if target, _ := os.Readlink(file); strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

func TestRun_WithoutTheLockAfterTheHandOverTheCommandDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then func(h *handover)
		code int
		text string
	}{
		"deleted": {func(h *handover) { do(h.t, h.servers, "DEL", "job") }, exitLost, "the nodes do not hold it any more"},
		"one of two deleted": {
			func(h *handover) { do(h.t, h.servers, "DEL", "other") }, exitLost, "the nodes do not hold it any more",
		},
		"taken by another": {
			func(h *handover) { do(h.t, h.servers, "SET", "job", "another") }, exitLost, "the nodes do not hold it any more",
		},
		"nodes down": {
			func(h *handover) { h.servers[0].Stop(); h.servers[1].Stop() }, exitUnavailable, "connection refused",
		},
		"frozen for longer than the TTL": {func(h *handover) {
			freeze(h.t, h.cmd.Process.Pid)
			requireFree(h.t, h.servers, "job")
			require.NoError(h.t, unix.Kill(h.cmd.Process.Pid, unix.SIGCONT))
		}, exitLost, "acquired too late"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHandover(t, testredis.Real(t, 3), "--ttl=5s", "--also=other", "job", "echo", "ran")
			test.then(h)
			h.finish()
			h.endsWithout(test.code, test.text)
			if test.code == exitLost {
				requireFree(t, h.servers, "other")
			} else {
				requireFree(t, h.servers[2:], "job")
			}
		})
	}
}

func TestRun_ExtendsTheLockIfTheHandOverTakesLong(t *testing.T) {
	servers := three(t)
	h := startHandover(t, servers, "--ttl=6s", "--fencing", "job", "--", "sh", "-c", "echo $REDLOCK_DEADLINE")
	eventually(t, func() bool {
		left, err := servers[0].Do("PTTL", "job")
		require.NoError(t, err)
		return left.(int64) < 3900
	}, "the lock does not age")
	before := time.Now().Unix()
	h.finish()
	assert.Zero(t, h.code())
	deadline, err := strconv.ParseInt(h.lines["out"][0], 10, 64)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, deadline, before+5)
}

// While it waits, its file may change.
func TestRun_StartsItselfWhateverHasBecomeOfItsFile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(t *testing.T, path string)
		code   int
		says   string
	}{
		"nothing": {func(*testing.T, string) {}, 0, "exit"},
		"another version is there": {func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path+".new", []byte("#!/bin/sh\necho another"), 0o755))
			require.NoError(t, os.Rename(path+".new", path))
		}, 0, "exit"},
		"it was removed": {func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }, 0, "exit"},
		"it cannot be started": {
			func(t *testing.T, path string) { require.NoError(t, os.Chmod(path, 0o600)) },
			exitInternal, "a second process could not be started",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testredis.Real(t, 3)
			program, err := os.ReadFile(os.Args[0])
			require.NoError(t, err)
			path := filepath.Join(t.TempDir(), "redlock")
			require.NoError(t, os.WriteFile(path, program, 0o755))
			first := holding(t, servers)
			cmd := toolCommand(servers, "run", "--json", "job", "echo", "ran")
			cmd.Path = path
			p := start(t, cmd)
			p.event("waiting")
			test.change(t, path)
			first.endsWith(0)
			assert.Equal(t, test.code, p.code())
			p.complains(test.says)
			assert.Equal(t, test.code == 0, len(p.lines["out"]) == 1 && p.lines["out"][0] == "ran", p.lines["out"])
			requireFree(t, servers, "job")
		})
	}
}
