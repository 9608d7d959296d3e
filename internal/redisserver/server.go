// Package redisserver runs redis-server processes on free ports of 127.0.0.1, without persistence.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/process"
)

// ErrMissing says that redis-server is not installed.
var ErrMissing = errors.New("redis-server is not installed (Debian and Ubuntu: apt-get install redis-server)")

// errPortTaken says that another process listens on the server's port.
var errPortTaken = errors.New("address already in use")

// doTimeout bounds each step of Do: dialling, sending and waiting for the reply.
const doTimeout = 5 * time.Second

// Server is a redis-server process of its own. All methods may be called from any goroutine.
type Server struct {
	binary string
	args   []string
	dir    string
	port   int

	mu  sync.Mutex       // held while the process comes up or goes down
	run *process.Process // the process as it was last started
}

// Installed returns nil where redis-server can be found, and [ErrMissing] elsewhere.
func Installed() error {
	_, err := find()
	return err
}

func find() (string, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return "", ErrMissing
	}
	return binary, nil
}

// Launch starts n servers at once, on free ports of 127.0.0.1, and returns when all of them answer. If one does not,
// or ctx ends before, nothing is left of any. Otherwise each is ended by its Close, or on Linux with this program.
//
// The args go to every server after its own: for example "--requirepass", "secret" (Do logs in with it), or
// "--unixsocket", "redis.sock" (each server runs in its own Dir). The port given by Addr has to stay open without TLS.
func Launch(ctx context.Context, n int, args ...string) ([]*Server, error) {
	binary, err := find()
	if err != nil {
		return nil, err
	}
	servers := make([]*Server, n)
	failures := make([]error, n)
	var starting sync.WaitGroup
	for i := range servers {
		starting.Go(func() {
			// The path of a Unix socket must stay short.
			dir, err := os.MkdirTemp("", "redis")
			if err != nil {
				failures[i] = err
				return
			}
			servers[i] = &Server{binary: binary, args: args, dir: dir}
			failures[i] = servers[i].startAnywhere(ctx)
		})
	}
	starting.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, errors.Join(err, Close(servers))
	}
	return servers, nil
}

// Close ends servers for good; a nil one is left out.
func Close(servers []*Server) error {
	var failed []error
	for _, s := range servers {
		if s != nil {
			failed = append(failed, s.Close())
		}
	}
	return errors.Join(failed...)
}

// Addr returns 127.0.0.1:port. It stays the same when the server is stopped and started again.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns redis://127.0.0.1:port, without a password.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Dir returns the directory that the server runs in, until Close.
func (s *Server) Dir() string { return s.dir }

// PID returns the process ID, a new one after every start, or 0 while the server is stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.runningLocked() {
		return 0
	}
	return s.run.PID()
}

// Log returns what the server has printed in all of its lives.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Do runs one command on a connection of its own, logged in with the password of --requirepass if there is one.
// It fails after a few seconds if the server does not answer.
func (s *Server) Do(cmd string, args ...any) (any, error) {
	return Do(s.Addr(), s.password(), cmd, args...)
}

// Do runs one command on a server, as [Server.Do] does. An empty password means no AUTH.
func Do(addr, password, cmd string, args ...any) (any, error) {
	return do(addr, password, doTimeout, cmd, args...)
}

func do(addr, password string, timeout time.Duration, cmd string, args ...any) (any, error) {
	c, err := redis.Dial("tcp", addr,
		redis.DialPassword(password),
		redis.DialConnectTimeout(timeout),
		redis.DialReadTimeout(timeout),
		redis.DialWriteTimeout(timeout))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(cmd, args...)
}

// Stop kills the process, frozen or not, and returns when it is gone. It does nothing when none is running.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		s.run.Kill()
	}
}

// Start runs the server again, empty and on the same address, and returns when it answers. It does nothing when the
// server is running.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runningLocked() {
		return nil
	}
	return s.startLocked(context.Background())
}

// Freeze stops the process in its tracks (SIGSTOP) and returns when it stands still: connections stay open and can
// still be made, but nothing is answered. It does nothing when the server is frozen already. Where the system has no such
// signal, the error is [errors.ErrUnsupported].
func (s *Server) Freeze() error { return s.setFrozen(true) }

// Thaw lets a frozen process go on (SIGCONT). Commands that reached it meanwhile are carried out.
func (s *Server) Thaw() error { return s.setFrozen(false) }

func (s *Server) setFrozen(frozen bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.runningLocked() {
		return fmt.Errorf("redis-server %s is not running: it cannot be frozen or thawed", s.Addr())
	}
	change := s.run.Thaw
	if frozen {
		change = s.run.Freeze
	}
	if err := change(); err != nil {
		return fmt.Errorf("redis-server %s: %w", s.Addr(), err)
	}
	return nil
}

// Close stops the server and removes its directory.
func (s *Server) Close() error {
	s.Stop()
	return os.RemoveAll(s.dir)
}

// password returns what the server was told to ask for.
func (s *Server) password() string {
	for i, arg := range s.args {
		if arg == "--requirepass" && i+1 < len(s.args) {
			return s.args[i+1]
		}
	}
	return ""
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }
