package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/process"
)

const (
	startBound    = 15 * time.Second       // for a server to come up
	startInterval = 2 * time.Millisecond   // between two looks at whether it has
	startLook     = 200 * time.Millisecond // for each: what answers there may be another process, or nothing at all
	startAttempts = 10                     // on ports that another process took
)

// startAnywhere starts the server for the first time, on whichever port is free.
func (s *Server) startAnywhere(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for attempt := 1; ; attempt++ {
		l, err := Listen()
		if err != nil {
			return err
		}
		s.port = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		// Between here and the server's own bind another process may take the port.
		if err = s.startLocked(ctx); !errors.Is(err, errPortTaken) || attempt == startAttempts {
			return err
		}
		_ = os.Remove(s.logFile())
	}
}

// startLocked starts the process and returns when it answers, or with none running.
func (s *Server) startLocked(ctx context.Context) error {
	if err := s.launchLocked(); err != nil {
		return err
	}
	bound := time.NewTimer(startBound)
	defer bound.Stop()
	look := time.NewTicker(startInterval)
	defer look.Stop()
	for ctx.Err() != nil || !s.answersLocked() {
		select {
		case <-look.C:
		case <-s.run.Done():
			if strings.Contains(s.Log(), "Address already in use") {
				return fmt.Errorf("redis-server %s: %w", s.Addr(), errPortTaken)
			}
			return fmt.Errorf("redis-server %s ended at once:\n%s", s.Addr(), s.Log())
		case <-ctx.Done():
			s.run.Kill()
			return fmt.Errorf("redis-server %s: %w", s.Addr(), ctx.Err())
		case <-bound.C:
			s.run.Kill()
			return fmt.Errorf("redis-server %s did not answer for %v:\n%s", s.Addr(), startBound, s.Log())
		}
	}
	return nil
}

// launchLocked starts the process.
func (s *Server) launchLocked() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own handle
	own := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--save", "", "--appendonly", "no"}
	cmd := exec.Command(s.binary, append(own, s.args...)...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log
	run, err := process.Start(cmd)
	if err != nil {
		return err
	}
	s.run = run
	return nil
}

// answersLocked reports whether this process, and not another one on the same port, answers commands.
func (s *Server) answersLocked() bool {
	info, err := redis.String(do(s.Addr(), s.password(), startLook, "INFO", "server"))
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.run.PID()))
}

func (s *Server) runningLocked() bool {
	if s.run == nil {
		return false
	}
	select {
	case <-s.run.Done():
		return false
	default:
		return true
	}
}
