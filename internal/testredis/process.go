package testredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// serverEnv chooses another server program than the redis-server on the PATH: Redis 6.2 or newer,
// or Valkey.
const serverEnv = "QUORUMLOCK_REDIS_SERVER"

// startBound is how long a server may take to answer.
const startBound = 15 * time.Second

// ErrMissing says that redis-server is not installed.
var ErrMissing = errors.New("redis-server is not installed (Debian and Ubuntu: apt-get install redis-server)")

// noTLS matches what a server prints that was built without TLS and is to have it: Redis 6.2 does not
// know the option.
var noTLS = regexp.MustCompile(`>>> 'tls-port|Failed finding TLS support`)

// Program returns the path of the server program, or [ErrMissing] if there is none.
func Program() (string, error) {
	chosen := os.Getenv(serverEnv)
	path, err := exec.LookPath(cmp.Or(chosen, "redis-server"))
	switch {
	case err == nil:
		return filepath.Abs(path) // each server runs in a directory of its own
	case chosen != "":
		return "", fmt.Errorf("%s: %w", serverEnv, err)
	}
	return "", ErrMissing
}

// Process is a redis-server process, without persistence. All methods may be called from any
// goroutine.
type Process struct {
	endpoint
	program, dir string
	args         []string
	report       func(error)

	mu     sync.Mutex // held while the process comes up or goes down
	child  *Child     // the process as it was last started
	frozen bool       // while it runs
}

// Launch starts n servers at once, and returns when all of them answer. If one does not, or ctx
// ends before, nothing is left of any. Otherwise each is ended by its Close, or on Linux with this
// program. Report is called with what Start, Freeze and Thaw fail with later.
//
// The args go to every server after its own: for example "--requirepass", "secret" (Do logs in
// with it), or "--unixsocket", "redis.sock" (each server runs in its own Dir). The port of Addr
// has to stay open without TLS, unless there is "--tls-cluster": then it speaks TLS. A first arg without dashes names the configuration file in Dir, which
// is empty at first. The server may write it, and reads it when it is started again.
func Launch(ctx context.Context, n int, report func(error), args ...string) ([]*Process, error) {
	path, err := Program()
	if err != nil {
		return nil, err
	}
	password := ""
	if i := slices.Index(args, "--requirepass"); i >= 0 {
		password = args[i+1]
	}
	processes := make([]*Process, n)
	failures := make([]error, n)
	var starting sync.WaitGroup
	for i := range processes {
		p := &Process{program: path, args: args, report: report}
		p.password, p.bus, p.tls = password, slices.Contains(args, "--cluster-enabled"), slices.Contains(args, "--tls-cluster")
		processes[i] = p
		starting.Go(func() {
			p.dir, failures[i] = os.MkdirTemp("", "redis") // short, as it is part of a socket's path
			if failures[i] == nil {
				failures[i] = p.find(func() error { return p.start(ctx) })
			}
		})
	}
	starting.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, errors.Join(err, Close(processes))
	}
	return processes, nil
}

// Dir returns the directory that the server runs in, until Close.
func (p *Process) Dir() string { return p.dir }

// PID returns the process ID, a new one after every start, or 0 while the server is stopped.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.child.running() {
		return 0
	}
	return p.child.PID()
}

// Log returns what the server has printed since Launch, all of its processes together.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *Process) logFile() string { return filepath.Join(p.dir, "redis.log") }

// Stop kills the process, frozen or not, and returns when it is gone.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child != nil {
		p.child.Kill()
	}
}

// Close stops the server and removes its directory.
func (p *Process) Close() error {
	p.Stop()
	p.release()
	return os.RemoveAll(p.dir)
}

// Freeze suspends the process (SIGSTOP) and returns when it stands still: connections stay open
// and can still be made, but nothing is answered. It does nothing if the server is frozen already.
func (p *Process) Freeze() {
	p.change(func() error {
		err := p.child.Freeze()
		p.frozen = err == nil
		return err
	})
}

// Thaw lets a frozen process go on (SIGCONT). Commands that reached it meanwhile are carried out.
func (p *Process) Thaw() {
	p.change(func() error {
		p.frozen = false
		return p.child.Thaw()
	})
}

// live reports whether the server is neither stopped nor frozen.
func (p *Process) live() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.child.running() && !p.frozen
}

// live returns the processes that are neither stopped nor frozen.
func live(processes []*Process) []*Process {
	return slices.DeleteFunc(slices.Clone(processes), func(p *Process) bool { return !p.live() })
}

// Start runs the server again, empty and on the same address, and returns when it answers. It
// does nothing if the server is running.
func (p *Process) Start() {
	p.change(func() error {
		if p.child.running() {
			return nil
		}
		return p.start(context.Background())
	})
}

// change calls f while the process neither comes up nor goes down, and reports its error.
func (p *Process) change(f func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := f(); err != nil {
		p.report(fmt.Errorf("redis-server %s: %w", p.Addr(), err))
	}
}

// start starts the process and returns when it answers. After an error none is running.
func (p *Process) start(ctx context.Context) error {
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own handle
	own := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(p.port), "--save", "", "--appendonly", "no"}
	if p.tls {
		own = append(own, "--port", "0", "--tls-port", strconv.Itoa(p.port))
	}
	args := p.args
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		config, err := os.OpenFile(filepath.Join(p.dir, args[0]), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_ = config.Close()
		own, args = append(args[:1:1], own...), args[1:]
	}
	cmd := exec.Command(p.program, append(own, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	p.frozen = false
	if p.child, err = StartChild(cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for ctx.Err() != nil || !p.answers() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-p.child.Done():
			return fmt.Errorf("redis-server ended at once:\n%s", p.Log())
		case <-ctx.Done():
			p.child.Kill()
			return fmt.Errorf("redis-server does not answer: %w\n%s", ctx.Err(), p.Log())
		}
	}
	return nil
}

// answers reports whether this process, and not another one on the same port, answers.
func (p *Process) answers() bool {
	command := "INFO"
	if i := slices.Index(p.args, "INFO"); i > 0 && p.args[i-1] == "--rename-command" {
		command = p.args[i+1]
	}
	info, err := redis.String(p.Do(command, "server"))
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", p.child.PID()))
}
