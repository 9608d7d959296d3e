package testredis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// serverEnv chooses another server program than the redis-server on the PATH: Redis 6.2 or newer,
// or Valkey.
const serverEnv = "QUORUMLOCK_REDIS_SERVER"

const (
	startBound    = 15 * time.Second       // for a server to answer
	startInterval = 2 * time.Millisecond   // between two attempts to ask it
	startAttempts = 10                     // on other ports
	askTimeout    = 200 * time.Millisecond // for each: another process, or nothing, may listen there
)

// ErrMissing says that redis-server is not installed.
var ErrMissing = errors.New("redis-server is not installed (Debian and Ubuntu: apt-get install redis-server)")

// Installed returns nil if there is a server program, and [ErrMissing] if there is none.
func Installed() error {
	_, err := program()
	return err
}

func program() (string, error) {
	if chosen := os.Getenv(serverEnv); chosen != "" {
		path, err := exec.LookPath(chosen)
		if err != nil {
			return "", fmt.Errorf("%s: %w", serverEnv, err)
		}
		return filepath.Abs(path) // each server runs in a directory of its own
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", ErrMissing
	}
	return path, nil
}

// NeedTLS skips a test that needs TLS if the server program was built without it.
func NeedTLS(tb testing.TB) {
	tb.Helper()
	Real(tb, 0) // if there is no program at all
	path, err := program()
	check(tb, err)
	// The program ends before it listens: without TLS, or since it has no certificate. Redis 7 knows the option without TLS too.
	out, _ := exec.Command(path, "--port", "0", "--tls-port", "1").CombinedOutput()
	if !strings.Contains(string(out), "tls-cert-file") {
		tb.Skip(path + " was built without TLS: tests with TLS are left out")
	}
}

// Instance is a redis-server process, without persistence. All methods may be called from any
// goroutine.
type Instance struct {
	endpoint
	program, dir string
	args         []string

	mu    sync.Mutex // held while the process comes up or goes down
	child *Child     // the process as it was last started
}

// Launch starts n servers at once, and returns when all of them answer. If one does not, or ctx
// ends before, nothing is left of any. Otherwise each is ended by its Close, or on Linux with this
// program.
//
// The args go to every server after its own: for example "--requirepass", "secret" (Do logs in
// with it), or "--unixsocket", "redis.sock" (each server runs in its own Dir). The port of Addr
// has to stay open without TLS.
func Launch(ctx context.Context, n int, args ...string) ([]*Instance, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	password := ""
	if i := slices.Index(args, "--requirepass") + 1; i > 0 && i < len(args) {
		password = args[i]
	}
	instances := make([]*Instance, n)
	failures := make([]error, n)
	var starting sync.WaitGroup
	for i := range instances {
		s := &Instance{program: path, args: args}
		instances[i] = s
		starting.Go(func() {
			s.dir, failures[i] = os.MkdirTemp("", "redis") // short, as it is part of a socket's path
			if failures[i] == nil {
				failures[i] = s.startAnywhere(ctx, password)
			}
		})
	}
	starting.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, errors.Join(err, Close(instances))
	}
	return instances, nil
}

// Close closes instances.
func Close(instances []*Instance) (err error) {
	for _, s := range instances {
		err = errors.Join(err, s.Close())
	}
	return err
}

// Dir returns the directory that the server runs in, until Close.
func (s *Instance) Dir() string { return s.dir }

// PID returns the process ID, a new one after every start, or 0 while the server is stopped.
func (s *Instance) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.child.running() {
		return 0
	}
	return s.child.PID()
}

// Log returns what the server has printed since Launch, all of its processes together.
func (s *Instance) Log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *Instance) logFile() string { return filepath.Join(s.dir, "redis.log") }

// Stop kills the process, frozen or not, and returns when it is gone. It does nothing if none is
// running.
func (s *Instance) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil {
		s.child.Kill()
	}
}

// Close stops the server and removes its directory.
func (s *Instance) Close() error {
	s.Stop()
	return os.RemoveAll(s.dir)
}

// Freeze suspends the process (SIGSTOP) and returns when it stands still: connections stay open
// and can still be made, but nothing is answered. It does nothing if the server is frozen already.
func (s *Instance) Freeze() error { return s.signal((*Child).Freeze) }

// Thaw lets a frozen process go on (SIGCONT). Commands that reached it meanwhile are carried out.
func (s *Instance) Thaw() error { return s.signal((*Child).Thaw) }

func (s *Instance) signal(send func(*Child) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.New("not running")
	if s.child.running() {
		err = send(s.child)
	}
	if err != nil {
		return fmt.Errorf("redis-server %s: %w", s.Addr(), err)
	}
	return nil
}

// Start runs the server again, empty and on the same address, and returns when it answers. It
// does nothing if the server is running.
func (s *Instance) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child.running() {
		return nil
	}
	return s.start(context.Background())
}

// startAnywhere starts the server for the first time, on a free port. Another process may take the
// port before the server does, or have one that the server derives from it, as for the cluster bus.
func (s *Instance) startAnywhere(ctx context.Context, password string) (err error) {
	for range startAttempts {
		if s.endpoint, err = freeEndpoint(); err != nil {
			return err
		}
		s.password = password
		if err = s.start(ctx); err == nil || !strings.Contains(err.Error(), "ddress already in use") {
			return err
		}
	}
	return err
}

// start starts the process and returns when it answers. After an error none is running.
func (s *Instance) start(ctx context.Context) error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own handle
	own := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--save", "", "--appendonly", "no"}
	cmd := exec.Command(s.program, append(own, s.args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	if s.child, err = StartChild(cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	next := time.NewTicker(startInterval)
	defer next.Stop()
	for ctx.Err() != nil || !s.answers() {
		select {
		case <-next.C:
		case <-s.child.Done():
			return fmt.Errorf("redis-server %s ended at once:\n%s", s.Addr(), s.Log())
		case <-ctx.Done():
			s.child.Kill()
			return fmt.Errorf("redis-server %s does not answer: %w\n%s", s.Addr(), ctx.Err(), s.Log())
		}
	}
	return nil
}

// answers reports whether this process, and not another one on the same port, answers.
func (s *Instance) answers() bool {
	info, err := redis.String(s.do(askTimeout, "INFO", "server"))
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.child.PID()))
}
