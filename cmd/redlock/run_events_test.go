//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// exits requires that stderr is nothing but events, the last of which is the exit, and returns that.
func (p *process) exits() (last toolEvent) {
	p.t.Helper()
	p.code()
	p.mu.Lock()
	defer p.mu.Unlock()
	exits := 0
	for _, line := range p.lines["err"] {
		last = toolEvent{}
		require.NoError(p.t, json.Unmarshal([]byte(line), &last), line)
		require.Equal(p.t, "job", last.Name, line)
		_, err := time.Parse("2006-01-02T15:04:05.000Z", last.Time)
		require.NoError(p.t, err, line)
		if last.Event == "exit" {
			exits++
		}
	}
	require.Equal(p.t, "exit", last.Event, "last")
	require.Equal(p.t, 1, exits)
	return last
}

func TestRun_SaysAsJSONHowItEnds(t *testing.T) {
	servers := three(t)
	unusable := filepath.Join(t.TempDir(), "unusable")
	require.NoError(t, os.WriteFile(unusable, []byte("#!/missing/interpreter\n"), 0o755))
	for name, test := range map[string]struct {
		args []string
		do   func(*process)
		code int
		text string
	}{
		"the command ends":      {[]string{"job", "--", "sh", "-c", "exit 7"}, nil, 7, ""},
		"no such program":       {[]string{"job", "--", "/missing/program"}, nil, exitNotFound, "no such file"},
		"no such interpreter":   {[]string{"job", "--", unusable}, nil, exitNotFound, "no such file"},
		"flags that do not fit": {[]string{"--ttl=1ms", "job", "true"}, nil, exitUsage, "--ttl must be between"},
		"no password":           {[]string{"--password-file=/missing", "job", "true"}, nil, exitUsage, "--password-file: open /missing"},
		"taken":                 {[]string{"-n", "job", "true"}, nil, exitTaken, `the lock "job" is held by another; see: redlock inspect --nodes redis://`},
		"taken, quietly":        {[]string{"-n", "-E", "3", "job", "true"}, nil, 3, ""},
		"the holder is killed": {[]string{"job", "cat"}, func(p *process) {
			p.event("started")
			require.NoError(t, unix.Kill(p.holder(), unix.SIGKILL))
		}, exitInternal, "the process that held the lock was killed"},
		"a signal": {[]string{"job", "cat"}, func(p *process) {
			p.event("started")
			p.signal(unix.SIGTERM)
		}, 143, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.code == exitTaken || test.code == 3 {
				do(t, servers, "SET", "job", "another", "PX", eternity.Milliseconds())
			}
			defer do(t, servers, "DEL", "job")
			p := runTool(t, servers, test.args...)
			if test.do != nil {
				test.do(p)
			}
			last := p.exits()
			require.Equal(t, test.code, p.code())
			require.Equal(t, test.code, *last.Code)
			require.Contains(t, last.Error, test.text)
			require.Equal(t, test.text == "", last.Error == "")
		})
	}
}

// If the process that was started is killed, the other one says it.
func TestRun_SaysAsJSONHowItEndsIfItsFrontIsKilled(t *testing.T) {
	t.Parallel()
	p := runTool(t, testredis.Real(t, 3), "job", "cat")
	p.event("started")
	p.signal(unix.SIGKILL)
	require.Equal(t, 128+int(unix.SIGKILL), *p.exits().Code) // the command's
}

func TestRun_SaysAsJSONHowLongTheHolderHasTheLockUnlessThatIsForEver(t *testing.T) {
	servers := three(t)
	do(t, servers, "SET", "job", "another")
	require.Nil(t, runTool(t, servers, "job", "true").event("blocked").Validity)
	do(t, servers, "PEXPIRE", "job", eternity.Milliseconds())
	require.InDelta(t, eternity.Milliseconds(), *runTool(t, servers, "job", "true").event("blocked").Validity, float64(runPatience.Milliseconds()))
}
