package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	startBound    = 15 * time.Second       // for a server to come up
	startInterval = 2 * time.Millisecond   // between two looks at whether it has
	startLook     = 200 * time.Millisecond // for each: what answers there may be another process, or nothing at all
)

// errPortTaken says that another process listens on the server's port.
var errPortTaken = errors.New("address already in use")

// Process is a redis-server process of its own, without persistence.
type Process struct {
	tb     testing.TB
	binary string
	args   []string
	dir    string
	port   int

	mu  sync.Mutex // held while the process comes up or goes down
	run *run       // the process as it was last started
}

// run is one life of the process.
type run struct {
	os     *os.Process
	done   chan struct{} // closed when it has ended and nothing of it is left
	frozen bool
}

// Real starts n redis-server processes at once, on free ports of 127.0.0.1, and returns when all of them answer.
//
// The args go to every server after its own: for example "--requirepass", "secret" (Do logs in with it),
// or "--unixsocket", "redis.sock" (each server runs in its own Dir). The port given by Addr has to stay open without TLS.
//
// Where redis-server is not installed the test is skipped, or fails if CI=true.
// The log of each server is added to that of a test that failed.
func Real(tb testing.TB, n int, args ...string) []*Process {
	tb.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		const missing = "redis-server is not installed (Debian and Ubuntu: apt-get install redis-server)"
		if os.Getenv("CI") == "true" {
			tb.Fatal(missing)
		}
		tb.Skip(missing + ": tests on real servers are left out")
	}

	processes := make([]*Process, n)
	failures := make([]error, n)
	var starting sync.WaitGroup
	for i := range processes {
		// Not tb.TempDir: the path of a Unix socket must stay short.
		dir, err := os.MkdirTemp("", "redis")
		if err != nil {
			tb.Fatal(err)
		}
		p := &Process{tb: tb, binary: binary, args: args, dir: dir}
		tb.Cleanup(p.cleanUp)
		processes[i] = p
		starting.Go(func() { failures[i] = p.startAnywhere() })
	}
	starting.Wait()
	if err := errors.Join(failures...); err != nil {
		tb.Fatal(err)
	}
	return processes
}

// Addr returns 127.0.0.1:port. It stays the same when the server is stopped and started again.
func (p *Process) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// URL returns redis://127.0.0.1:port, without a password.
func (p *Process) URL() string { return "redis://" + p.Addr() }

// Dir returns the directory that the server runs in. It is gone when the test ends.
func (p *Process) Dir() string { return p.dir }

// PID returns the process ID, a new one after every start, or 0 while the server is stopped.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		return 0
	}
	return p.run.os.Pid
}

// Do runs one command on a connection of its own, logged in with the password of --requirepass if there is one.
// It fails after a few seconds if the server does not answer.
func (p *Process) Do(cmd string, args ...any) (any, error) {
	return do(p.Addr(), p.password(), doTimeout, cmd, args...)
}

// Stop kills the process, frozen or not, and returns when it is gone. It does nothing when none is running.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		_ = p.run.os.Kill() // fails only if the process has ended
		<-p.run.done
	}
}

// Start runs the server again, empty and on the same address, and returns when it answers.
// It does nothing when the server is running. A server that does not come up fails the test.
func (p *Process) Start() {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runningLocked() {
		return
	}
	if err := p.startLocked(); err != nil {
		p.tb.Errorf("%v", err)
	}
}

// Freeze stops the process in its tracks (SIGSTOP) and returns when it stands still: connections stay open
// and can still be made, but nothing is answered. It does nothing when the server is frozen already.
func (p *Process) Freeze() { p.setFrozen(true) }

// Thaw lets a frozen process go on (SIGCONT). Commands that reached it meanwhile are carried out.
func (p *Process) Thaw() { p.setFrozen(false) }

func (p *Process) setFrozen(frozen bool) {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runningLocked() {
		p.tb.Errorf("redistest: redis-server %s is not running: it cannot be frozen or thawed", p.Addr())
		return
	}
	if p.run.frozen == frozen {
		return
	}
	change := thaw
	if frozen {
		change = freeze
	}
	if err := change(p.run.os); err != nil {
		p.tb.Errorf("redistest: redis-server %s: %v", p.Addr(), err)
		return
	}
	p.run.frozen = frozen
}

// startAnywhere starts the server for the first time, on whichever port is free.
func (p *Process) startAnywhere() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for attempt := 1; ; attempt++ {
		l, err := listen()
		if err != nil {
			return err
		}
		p.port = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		// Between here and the server's own bind another process may take the port.
		if err = p.startLocked(); !errors.Is(err, errPortTaken) || attempt == 10 {
			return err
		}
		_ = os.Remove(p.logFile())
	}
}

// startLocked starts the process and returns when it answers, or with none running.
func (p *Process) startLocked() error {
	if err := p.launchLocked(); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	bound := time.NewTimer(startBound)
	defer bound.Stop()
	look := time.NewTicker(startInterval)
	defer look.Stop()
	for !p.answersLocked() {
		select {
		case <-look.C:
		case <-p.run.done:
			if bytes.Contains(p.log(), []byte("Address already in use")) {
				return fmt.Errorf("redistest: redis-server %s: %w", p.Addr(), errPortTaken)
			}
			return fmt.Errorf("redistest: redis-server %s ended at once:\n%s", p.Addr(), p.log())
		case <-bound.C:
			_ = p.run.os.Kill()
			<-p.run.done
			return fmt.Errorf("redistest: redis-server %s did not answer for %v:\n%s", p.Addr(), startBound, p.log())
		}
	}
	return nil
}

// launchLocked starts the process and leaves a goroutine that waits for its end.
func (p *Process) launchLocked() error {
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	own := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(p.port), "--save", "", "--appendonly", "no"}
	cmd := exec.Command(p.binary, append(own, p.args...)...)
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = endWithParent()

	done := make(chan struct{})
	started := make(chan error)
	go func() {
		defer close(done)
		defer log.Close()
		// The kernel ties the child to the thread that started it, so that thread has to stay (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, as a rule
		}
	}()
	if err := <-started; err != nil {
		<-done
		return err
	}
	p.run = &run{os: cmd.Process, done: done}
	return nil
}

// answersLocked reports whether this process, and not another one on the same port, answers commands.
func (p *Process) answersLocked() bool {
	info, err := redis.String(do(p.Addr(), p.password(), startLook, "INFO", "server"))
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", p.run.os.Pid))
}

func (p *Process) runningLocked() bool {
	if p.run == nil {
		return false
	}
	select {
	case <-p.run.done:
		return false
	default:
		return true
	}
}

// cleanUp leaves nothing behind.
func (p *Process) cleanUp() {
	p.Stop()
	if p.tb.Failed() {
		p.tb.Logf("redis-server %s:\n%s", p.Addr(), p.log())
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.tb.Error(err)
	}
}

// password returns what the server was told to ask for.
func (p *Process) password() string {
	for i, arg := range p.args {
		if arg == "--requirepass" && i+1 < len(p.args) {
			return p.args[i+1]
		}
	}
	return ""
}

func (p *Process) logFile() string { return filepath.Join(p.dir, "redis.log") }

// log returns what the server has printed in all of its lives.
func (p *Process) log() []byte {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	return text
}
