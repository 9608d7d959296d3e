package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	startBound   = 30 * time.Second // for a server to answer
	commandBound = 10 * time.Second // above the length of any fault: a server that is paused answers when that is over
)

// errRunning says that something is possible with a stopped server only.
var errRunning = errors.New("the server runs")

// ServerConfig says how a server is run.
type ServerConfig struct {
	// Durable servers write every command to disk before they answer: appendonly yes, appendfsync always. Others lose everything
	// when they end.
	Durable bool
	// Args go to the server after its own.
	Args []string
	// Program is what is run, instead of that of [testredis.Program].
	Program string
}

// Server is a redis-server. All methods may be called from any goroutine. What changes its process waits for what does so already.
type Server struct {
	config    ServerConfig
	ip        string
	dir, shim string
	clock     *clock

	mu    sync.Mutex
	child *testredis.Child // the process as it was last started
}

// newServer prepares a server that Start starts.
func newServer(config ServerConfig, ip, dir, shim string) (*Server, error) {
	s := &Server{config: config, ip: ip, dir: dir, shim: shim}
	var err error
	if s.config.Program == "" {
		if s.config.Program, err = testredis.Program(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return nil, err
	}
	s.clock, err = newClock(filepath.Join(dir, "clock"))
	return s, err
}

// Addr returns the server's own address, which clients do not use. It stays the same when the server starts again.
func (s *Server) Addr() string { return net.JoinHostPort(s.ip, strconv.Itoa(port)) }

// Log returns what the server has printed, all of its processes together.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }
func (s *Server) data() string    { return filepath.Join(s.dir, "data") }
func (s *Server) dump() string    { return filepath.Join(s.data(), "dump.rdb") }

// running says whether the process is there, frozen or not.
func (s *Server) running() bool {
	if s.child == nil {
		return false
	}
	select {
	case <-s.child.Done():
		return false
	default:
		return true
	}
}

// Start runs the server, and returns when it has loaded its data. It does nothing if the server runs.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running() {
		return nil
	}
	if err := s.start(); err != nil {
		return fmt.Errorf("start the server %s: %w\n%s", s.Addr(), err, s.Log())
	}
	if !s.config.Durable {
		_ = os.Remove(s.dump()) // what Restore has put there is loaded once
	}
	return nil
}

func (s *Server) start() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own handle
	args := []string{"--bind", s.ip, "--port", strconv.Itoa(port), "--protected-mode", "no", "--save", ""}
	if s.config.Durable {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	} else {
		args = append(args, "--appendonly", "no")
	}
	cmd := exec.Command(s.config.Program, append(args, s.config.Args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.data(), log, log
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+s.shim, "QUORUMLOCK_CHAOS_CLOCK="+s.clock.file)
	if s.child, err = testredis.StartChild(cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	for !s.ready() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-s.child.Done():
			return errors.New("it ended at once")
		case <-ctx.Done():
			s.child.Kill()
			return fmt.Errorf("it does not answer: %w", ctx.Err())
		}
	}
	return nil
}

// ready says whether this process, and not an old one, answers and has loaded its data.
func (s *Server) ready() bool {
	info, err := redis.String(s.Do("INFO"))
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.child.PID())) &&
		strings.Contains(info, "\nloading:0\r\n") // not async_loading
}

// Stop kills the process (SIGKILL), frozen or not, and returns when it is gone.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil {
		s.child.Kill()
	}
}

// Shutdown ends the server by its command SHUTDOWN, and returns when it is gone. It does nothing if the server is stopped.
func (s *Server) Shutdown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running() {
		return nil
	}
	_, failed := s.Do("SHUTDOWN") // the answer is the end of the connection
	select {
	case <-s.child.Done():
		return nil
	case <-time.After(commandBound):
		return fmt.Errorf("the server %s does not shut down: %w", s.Addr(), failed)
	}
}

// Freeze suspends the process (SIGSTOP), and returns when it stands still. Connections stay, and can still be made, but nothing
// is answered.
func (s *Server) Freeze() error { return s.whileRunning("freeze", (*testredis.Child).Freeze) }

// Thaw lets a frozen process go on. It carries out what has reached it meanwhile.
func (s *Server) Thaw() error { return s.whileRunning("thaw", (*testredis.Child).Thaw) }

func (s *Server) whileRunning(what string, f func(*testredis.Child) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil {
		return fmt.Errorf("%s the server %s: %w", what, s.Addr(), os.ErrProcessDone)
	}
	if err := f(s.child); err != nil {
		return fmt.Errorf("%s the server %s: %w", what, s.Addr(), err)
	}
	return nil
}

// Do runs a command on a connection of its own, not by way of a relay. It fails if there is no answer in ten seconds.
func (s *Server) Do(cmd string, args ...any) (any, error) {
	c, err := s.dial(commandBound)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(cmd, args...)
}

// Conn returns a connection to the server, not by way of a relay, which waits for an answer without end.
func (s *Server) Conn() (redis.Conn, error) { return s.dial(0) }

func (s *Server) dial(bound time.Duration) (redis.Conn, error) {
	return redis.Dial("tcp", s.Addr(), redis.DialConnectTimeout(commandBound), redis.DialReadTimeout(bound),
		redis.DialWriteTimeout(bound))
}

func (s *Server) close() error {
	s.Stop()
	return s.clock.close()
}
