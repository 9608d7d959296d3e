//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const lostTTL = 6 * time.Second

// lostFlags make a lock that is lost soon.
var lostFlags = []string{"--ttl=" + lostTTL.String(), "--timeout=500ms"}

// beating is a script whose processes leave signs of life: the time of the last change of a file, each.
const beating = `
beat() { while :; do : >"$1"; sleep 0.05; done; }
beat "$DIR/leader.child" &
(beat "$DIR/grandchild" & wait) &
echo ready
beat "$DIR/leader"`

// beats is a command whose processes leave signs of life.
type beats struct {
	t     *testing.T
	dir   string
	group int
}

// startBeats starts a tool that runs the script, after a first part.
func startBeats(t *testing.T, servers []*testredis.Process, first string, flags ...string) (*process, *beats) {
	t.Helper()
	b := &beats{t: t, dir: t.TempDir()}
	args := append([]string{"run", "--json"}, lostFlags...)
	cmd := toolCommand(servers, append(append(args, flags...), "job", "--", "sh", "-c", first+beating)...)
	cmd.Env = append(cmd.Env, "DIR="+b.dir)
	p := start(t, cmd)
	p.says("ready")
	b.group = p.event("started").PID
	b.more()
	return p, b
}

// last returns when the last sign of life was given.
func (b *beats) last() (last time.Time) {
	files, _ := filepath.Glob(b.dir + "/*")
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// more waits until all three processes have given a sign of life from now on.
func (b *beats) more() {
	b.t.Helper()
	now := time.Now()
	eventually(b.t, func() bool {
		for _, name := range []string{"leader", "leader.child", "grandchild"} {
			if info, err := os.Stat(filepath.Join(b.dir, name)); err != nil || !info.ModTime().After(now) {
				return false
			}
		}
		return true
	}, "the command does not run")
}

// cut freezes all servers some time after a renewal, and returns a time at which the lock is over.
func cut(p *process, servers []*testredis.Process) (over time.Time) {
	p.t.Helper()
	renewals(p, 1)
	each(servers, (*testredis.Process).Freeze)
	return time.Now().Add(lostTTL)
}

// contend takes the lock for another program as soon as it can, and reports the processes of the group that live at that time.
func contend(t *testing.T, servers []*testredis.Process, group int) {
	t.Helper()
	locker, err := redlock.Open(testredis.URLs(servers), pool.WithTimeout(time.Second))
	require.NoError(t, err)
	defer locker.Close()
	ctx, cancel := context.WithTimeout(t.Context(), runPatience)
	defer cancel()
	lock, err := locker.Lock(ctx, "job")
	require.NoError(t, err)
	requireDead(t, group)
	require.NoError(t, lock.Unlock(ctx))
}

func TestRun_EndsTheCommandBeforeTheLockIsOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first string
		flags []string
		asked bool
		by    string
	}{
		"TERM":             {"", nil, true, "SIGTERM"},
		"TERM ignored":     {`trap "" TERM;`, nil, true, ""},
		"TERM is left out": {"", []string{"--kill-after=0"}, false, ""},
		"kill":             {"", []string{"--on-lost=kill"}, false, ""},
		"stopped":          {"", nil, true, "SIGTERM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := testredis.Real(t, 3)
			p, b := startBeats(t, servers, test.first, test.flags...)
			if name == "stopped" {
				require.NoError(t, unix.Kill(-b.group, unix.SIGSTOP))
			}
			over := cut(p, servers)
			assert.Equal(t, exitLost, p.code())
			requireDead(t, b.group)
			assert.Less(t, b.last(), over)
			assert.Equal(t, test.asked, p.happened("term"))
			if test.by != "" { // otherwise by the front, perhaps
				assert.Equal(t, test.by, p.event("ended").Signal)
			}
			if why := p.exits().Error; !strings.Contains(why, "did not renew it in time") { // it was the holder
				assert.Contains(t, why, "could not be renewed")
				assert.Contains(t, p.event("lost").Error, "could not be renewed")
			}
			each(servers, (*testredis.Process).Thaw)
			contend(t, servers, b.group)
		})
	}
}

// The tool is locked out alone, so that others get the lock as soon as its keys have expired.
func TestRun_OthersGetTheLockWhenTheCommandHasEnded(t *testing.T) {
	servers := testredis.Real(t, 3)
	do(t, servers, "ACL", "SETUSER", "tool", "on", ">geheim", "~*", "&*", "+@all")
	t.Setenv("REDLOCK_USERNAME", "tool")
	t.Setenv("REDLOCK_PASSWORD", "geheim")
	p, b := startBeats(t, servers, "")
	renewals(p, 1)
	do(t, servers, "ACL", "DELUSER", "tool") // ends its connections
	contend(t, servers, b.group)
	assert.Equal(t, exitLost, p.code())
}

func TestRun_EndsTheCommandAtOnceIfTheKeysAreGone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first, flag string
		signal      string
	}{
		"term":              {"", "--on-lost=term", "SIGTERM"},
		"term, kill-after":  {`trap "" TERM;`, "--kill-after=200ms", "SIGKILL"},
		"kill":              {`trap "" TERM;`, "--on-lost=kill", "SIGKILL"},
		"term without term": {"", "--kill-after=0", "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			servers := testredis.Real(t, 3)
			p, b := startBeats(t, servers, test.first, test.flag, "--ttl=1h")
			each(servers[:2], func(s *testredis.Process) { // which announce changes from now on
				require.Eventually(t, func() bool {
					stats, err := s.Do("INFO", "stats")
					return err == nil && strings.Contains(string(stats.([]byte)), "tracking_total_keys:1\r\n")
				}, runPatience, 10*time.Millisecond)
			})
			do(t, servers[:2], "DEL", "job")
			assert.Equal(t, exitLost, p.code()) // long before the lock's TTL
			requireDead(t, b.group)
			assert.Equal(t, test.signal, p.event("ended").Signal)
			assert.Contains(t, p.event("exit").Error, "the nodes do not hold it any more")
		})
	}
}

// survey.Overlap says so to those who free the lock.
func TestRun_LearnsThatItsLockWasFreedByForce(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, "--ttl=1h", "job", "cat")
	p.event("renewed") // the servers announce changes from now on
	code, _, record := call(t.Context(), "unlock", "job", "--force", "--yes", "--nodes="+strings.Join(testredis.URLs(servers), ","), "--timeout=10s")
	require.Zero(t, code, record)
	require.Contains(t, record, "forced unlock")
	assert.Equal(t, exitLost, p.code()) // long before the lock's TTL
	assert.Contains(t, p.event("lost").Error, "it was deleted")
	assert.Equal(t, "SIGTERM", p.event("ended").Signal)
}

func TestRun_WarnsAndLetsTheCommandGoOn(t *testing.T) {
	servers := three(t)
	p := start(t, toolCommand(servers, "run", "--ttl=1h", "--on-lost=warn", "job", "--", "sh", "-c", "echo ready; cat; echo went on; exit 4"))
	p.says("ready")
	eventually(t, func() bool { // the first renewal has happened, and tracks the keys
		info, err := servers[0].Do("INFO", "clients")
		return err == nil && !strings.Contains(string(info.([]byte)), "tracking_clients:0")
	}, "not tracked")
	do(t, servers, "SET", "job", "another", "PX", "600000")
	p.complains(`the lock "job" is lost: the nodes do not hold it any more`)
	p.endsWith(exitLost)
	p.says("went on")
	assert.Equal(t, 3, keys(t, servers, "job"), "the other's lock was deleted")
}

func TestRun_WarnsAlsoIfTheLockExpires(t *testing.T) {
	servers := three(t)
	p, b := startBeats(t, servers, "", "--on-lost=warn")
	cut(p, servers)
	p.event("lost")
	b.more()
	assert.False(t, p.happened("term"))
	p.signal(unix.SIGTERM)
	assert.Equal(t, exitLost, p.code())
}

func TestRun_MaxHoldEndsTheCommand(t *testing.T) {
	servers := three(t)
	began := time.Now()
	p, b := startBeats(t, servers, "", "--ttl=3s", "--max-hold=4s")
	assert.Equal(t, "--max-hold is over", p.event("lost").Error)
	assert.Equal(t, exitLost, p.code())
	assert.Less(t, b.last(), began.Add(4*time.Second+runPatience))
	assert.Greater(t, time.Since(began), 2*time.Second)
	requireDead(t, b.group)
	requireFree(t, servers, "job")
}

// Each process does its part alone: the other one is frozen, for longer than the TTL.
func TestRun_EndsTheCommandWhileItsFrontIsFrozen(t *testing.T) {
	servers := three(t)
	p, b := startBeats(t, servers, `trap "" TERM;`)
	holder := p.holder()
	freeze(t, p.cmd.Process.Pid)
	over := cut(p, servers)
	eventually(t, func() bool { return stateOf(holder) == "Z" }, "the holder goes on")
	requireDead(t, b.group)
	assert.Less(t, b.last(), over)
	p.signal(unix.SIGCONT)
	assert.Equal(t, exitLost, p.code())
	assert.Equal(t, exitLost, *p.exits().Code)
}

// Signals that pour fill the socket between the two, which the holder does not read.
func TestRun_EndsTheCommandWhileItsHolderIsFrozen(t *testing.T) {
	t.Parallel()
	for name, pour := range map[string]<-chan time.Time{"in silence": nil, "while signals pour": time.Tick(time.Millisecond)} {
		t.Run(name, func(t *testing.T) {
			servers := three(t)
			p, b := startBeats(t, servers, `trap "" TERM;`)
			renewals(p, 1)
			freeze(t, p.holder())
			over := time.Now().Add(lostTTL)
			for late, waiting := time.After(runPatience), true; waiting; {
				select {
				case <-pour:
					_ = p.cmd.Process.Signal(unix.SIGWINCH) // fails when it has ended
				case <-p.ended:
					waiting = false
				case <-late:
					waiting = false
				}
			}
			assert.Equal(t, exitLost, p.code())
			requireDead(t, b.group)
			assert.Less(t, b.last(), over)
			last := p.exits()
			assert.Equal(t, exitLost, *last.Code)
			assert.Contains(t, last.Error, "the process that held it did not renew it in time")
			contend(t, servers, b.group)
		})
	}
}

// A front that was frozen for long must not act on what it knew before.
func TestRun_GoesOnAfterTheFrontWasFrozenForLongerThanTheTTL(t *testing.T) {
	servers := three(t)
	p := runTool(t, servers, append(lostFlags, "job", "--", "sh", "-c", "echo ready; cat; exit 4")...)
	p.says("ready")
	freeze(t, p.cmd.Process.Pid)
	renewals(p, 5) // after the first at once, each third of the TTL
	p.signal(unix.SIGCONT)
	renewals(p, 2)
	p.endsWith(4)
}

func TestRun_EndsTheCommandIfTheServersForgetTheLock(t *testing.T) {
	servers := three(t)
	p, b := startBeats(t, servers, "", "--ttl=20s")
	renewals(p, 1)
	for _, s := range servers {
		s.Stop()
		s.Start()
	}
	assert.Equal(t, exitLost, p.code())
	requireDead(t, b.group)
}

// The two processes compare each other's readings.
func TestClock_IsTheSameInAllProcesses(t *testing.T) {
	var boot unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot))
	now := supervise.Clock{}.Now().UnixNano()
	assert.GreaterOrEqual(t, now, boot.Nano())
	assert.Less(t, now, boot.Nano()+runPatience.Nanoseconds())
}
