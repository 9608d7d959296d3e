//go:build linux

package main

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// slowProgram is a program that nobody can start before it is released: who opens it has to wait.
type slowProgram struct {
	t      *testing.T
	file   *os.File
	opened chan os.Signal
}

func newSlowProgram(t *testing.T, path, script string) *slowProgram {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	file, err := os.Open(path)
	require.NoError(t, err)
	s := &slowProgram{t, file, make(chan os.Signal, 1)}
	signal.Notify(s.opened, unix.SIGIO)
	t.Cleanup(func() {
		signal.Stop(s.opened)
		_ = file.Close() // a second time, as a rule
	})
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("the file system has no leases: ", err)
	}
	return s
}

// waitOpened returns when somebody is about to start the program.
func (s *slowProgram) waitOpened() {
	s.t.Helper()
	select {
	case <-s.opened:
	case <-time.After(runPatience):
		require.Fail(s.t, "nobody starts the program")
	}
}

func (s *slowProgram) release() { require.NoError(s.t, s.file.Close()) }

// The holder is frozen when the command begins, so that it has nothing to say about it any more.
func TestRun_EndsTheCommandIfTheHolderIsFrozenWhileItStartsIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ttl  string
		then func(holder int, b *beats)
		want int
	}{
		"and stays so": {"--ttl=5s", func(int, *beats) {}, exitLost},
		"and killed": {"--ttl=1h", func(holder int, b *beats) {
			b.more()
			require.NoError(t, unix.Kill(holder, unix.SIGKILL))
		}, exitInternal},
	} {
		t.Run(name, func(t *testing.T) {
			servers := testredis.Real(t, 3)
			b := &beats{t: t, dir: t.TempDir()}
			program := newSlowProgram(t, filepath.Join(t.TempDir(), "program"), `trap "" TERM INT HUP;`+beating)
			cmd := toolCommand(servers, "run", test.ttl, "job", "--", program.file.Name())
			cmd.Env = append(cmd.Env, "DIR="+b.dir)
			p := start(t, cmd)
			program.waitOpened()
			holder := p.holder()
			for _, s := range processes() {
				if s.parent == holder {
					b.group = s.pid
				}
			}
			require.NotZero(t, b.group)
			t.Cleanup(func() { _ = unix.Kill(-b.group, unix.SIGKILL) })
			require.NoError(t, unix.Kill(holder, unix.SIGSTOP))
			t.Cleanup(func() { _ = unix.Kill(holder, unix.SIGKILL) })
			program.release()
			test.then(holder, b)
			assert.Equal(t, test.want, p.code())
			requireDead(t, b.group)
		})
	}
}

func TestRun_AProgramMayTakeLongerToStartThanTheTTL(t *testing.T) {
	servers := testredis.Real(t, 3)
	program := newSlowProgram(t, filepath.Join(t.TempDir(), "program"), "exit 7")
	p := runTool(t, servers, append(lostFlags, "job", "--", program.file.Name())...)
	program.waitOpened()
	renewals(p, 5) // after the first at once, each third of the TTL
	program.release()
	assert.Equal(t, 7, p.code())
}

// A stage is what becomes the command when the holder has published its group.
func TestRun_TheStageIsTheCommandOnlyIfTheHolderSaysSo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		said string
		out  string
		code int
	}{
		"go":             {"\x01", "ran with an argument", 7},
		"holder is gone": {"", "", 126},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			holder, gate := os.NewFile(uintptr(pair[0]), "holder"), os.NewFile(uintptr(pair[1]), "gate")
			defer gate.Close()
			cmd := exec.Command(os.Args[0])
			cmd.Args = []string{"sh", "-c", `printf "ran with %s" "$1"; env | grep REDLOCK_STAGE; test ! -e /proc/self/fd/3 || echo has its gate; exit 7`, "sh", "an argument"}
			cmd.Env = append(os.Environ(), mainEnv+"=1", "REDLOCK_STAGE=3,/bin/sh")
			cmd.ExtraFiles = []*os.File{gate}
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			_, err = io.WriteString(holder, test.said)
			require.NoError(t, err)
			require.NoError(t, holder.Close())
			text, err := io.ReadAll(out)
			require.NoError(t, err)
			_ = cmd.Wait()
			assert.Equal(t, test.out, string(text)) // and nothing about a variable or file of the tool's
			assert.Equal(t, test.code, cmd.ProcessState.ExitCode())
		})
	}
}
