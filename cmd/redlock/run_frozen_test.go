//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// A front that stands still in the hand-over keeps a handle of the lock, which it goes on with later. The danger: a
// command runs without the lock, or twice, or the handle ends the lock of another.

// frozenFlags make a lock whose end a test waits for. The nodes are frozen for less than the timeout.
var frozenFlags = []string{"--ttl=12s", "--timeout=3s"}

// rival is another program that has the lock.
type rival struct {
	t       *testing.T
	servers []*testredis.Process
	lock    *redlock.Lock
}

// newRival takes the lock as soon as that of a frozen front has ended.
func newRival(t *testing.T, servers []*testredis.Process) *rival {
	t.Helper()
	locker, err := redlock.Open(testredis.URLs(servers))
	require.NoError(t, err)
	t.Cleanup(func() { _ = locker.Close() })
	lock, err := locker.Lock(t.Context(), "job", redlock.TTL(eternity))
	require.NoError(t, err)
	return &rival{t, servers, lock}
}

// requireHolds requires that a majority has its lock. A node that had the other for longer has nothing.
func (r *rival) requireHolds() {
	r.t.Helper()
	require.NoError(r.t, r.lock.Err())
	token, held := string(r.lock.Token()), 0
	for _, value := range values(r.t, r.servers, "job") {
		if value == token {
			held++
		}
	}
	require.GreaterOrEqual(r.t, held, 2)
}

// The nodes have granted the lock, and the front has not read that yet.
func TestRun_FrozenWhileTheNodesGrantTheLockRunsTheCommandOnlyUnderAnother(t *testing.T) {
	servers := three(t)
	do(t, servers, "CLIENT", "PAUSE", eternity.Milliseconds(), "WRITE")
	p := runTool(t, servers, append(frozenFlags, "job", "echo", "ran")...)
	for _, s := range servers {
		eventually(t, func() bool {
			info, err := s.Do("INFO", "clients")
			return err == nil && strings.Contains(string(info.([]byte)), "blocked_clients:1\r\n")
		}, "the node is not asked")
	}
	freeze(t, p.cmd.Process.Pid)
	do(t, servers, "CLIENT", "UNPAUSE")
	eventually(t, func() bool { return keys(t, servers, "job") == 3 }, "the nodes do not grant the lock")
	other := newRival(t, servers)
	p.signal(unix.SIGCONT)
	p.event("blocked")
	assert.False(t, p.happened("acquired"))
	other.requireHolds()
	require.NoError(t, other.lock.Unlock(t.Context()))
	assert.Zero(t, p.code())
	assert.Equal(t, []string{"ran"}, p.lines["out"])
	requireFree(t, servers, "job")
}

// The front has the lock, and the holder is ready for it.
func TestRun_FrozenBeforeItGivesTheLockTheFrontDoesNotRunTheCommand(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"it finds out":         {"--ttl=2s", "--timeout=500ms"},
		"the holder finds out": {"--ttl=2s", "--timeout=500ms", "--max-hold=2s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHandover(t, testredis.Real(t, 3), append(flags, "job", "echo", "ran")...)
			freeze(t, h.cmd.Process.Pid)
			h.finish()
			other := newRival(t, h.servers)
			h.signal(unix.SIGCONT)
			h.endsWithout(exitLost, "acquired too late")
			other.requireHolds()
		})
	}
}

// startScript starts redlock run with a script, and returns in the hand-over.
func startScript(t *testing.T, script string, flags ...string) *handover {
	t.Helper()
	args := append(append(flags, frozenFlags...), "job", "--", "sh", "-c", script)
	return startHandover(t, testredis.Real(t, 3), args...)
}

// freezeWithHandle freezes the front when it has given the lock to the holder, which has not attached to it yet.
func (h *handover) freezeWithHandle() (holder int) {
	h.t.Helper()
	each(h.servers, (*testredis.Process).Freeze)
	h.finish()
	holder = h.holder()
	eventually(h.t, func() bool { return sockets(holder) > 1 }, "it does not connect")
	freeze(h.t, h.cmd.Process.Pid)
	return holder
}

func TestRun_FrozenWithItsHandleTheFrontLeavesTheLockToTheHolder(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"exclusive": nil,
		"fencing":   {"--fencing"},
		"a reader":  {"--shared"},
		"a slot":    {"--slots=3"},
		"several":   {"--also=other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startScript(t, "echo ran; cat; exit 4", flags...)
			h.freezeWithHandle()
			each(h.servers, (*testredis.Process).Thaw)
			h.says("ran")
			renewals(h.process, 4) // after the first at once, each third of the TTL
			h.signal(unix.SIGCONT)
			renewals(h.process, 1)
			h.endsWith(4)
			assert.Equal(t, []string{"ran"}, h.lines["out"])
			assert.False(t, h.happened("lost"))
			requireFree(t, h.servers, "job")
			requireFree(t, h.servers, "other")
		})
	}
}

// The holder has ended, and the front stands still: nobody extends the lock, and nobody runs under it.
func TestRun_FrozenWithItsHandleTheFrontDoesNotRunTheCommandInPlaceOfAHolder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		out  []string
		code int
	}{
		"that has not attached": {nil, exitInternal},
		"that runs the command": {[]string{"ran"}, exitLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startScript(t, "echo ran; exec cat")
			holder, group := h.freezeWithHandle(), 0
			if test.out != nil {
				each(h.servers, (*testredis.Process).Thaw)
				h.says("ran")
				group = h.event("started").PID
			}
			require.NoError(t, unix.Kill(holder, unix.SIGKILL))
			each(h.servers, (*testredis.Process).Thaw)
			other := newRival(t, h.servers)
			if test.out != nil {
				requireDead(t, group)
			}
			h.signal(unix.SIGCONT)
			assert.Equal(t, test.code, h.code())
			assert.Equal(t, test.out, h.lines["out"])
			other.requireHolds()
		})
	}
}
