package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	startBound    = 15 * time.Second       // for a server to come up
	startInterval = 2 * time.Millisecond   // between two looks at whether it has
	startLook     = 200 * time.Millisecond // for each: what answers there may be another process, or nothing at all
	startAttempts = 10                     // on ports that another process took
)

// run is one life of the process.
type run struct {
	os     *os.Process
	done   chan struct{} // closed when it has ended and nothing of it is left
	frozen bool
}

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
		case <-s.run.done:
			if strings.Contains(s.Log(), "Address already in use") {
				return fmt.Errorf("redis-server %s: %w", s.Addr(), errPortTaken)
			}
			return fmt.Errorf("redis-server %s ended at once:\n%s", s.Addr(), s.Log())
		case <-ctx.Done():
			s.endLocked()
			return fmt.Errorf("redis-server %s: %w", s.Addr(), ctx.Err())
		case <-bound.C:
			s.endLocked()
			return fmt.Errorf("redis-server %s did not answer for %v:\n%s", s.Addr(), startBound, s.Log())
		}
	}
	return nil
}

func (s *Server) endLocked() {
	_ = s.run.os.Kill() // fails only if the process has ended
	<-s.run.done
}

// launchLocked starts the process and leaves a goroutine that waits for its end.
func (s *Server) launchLocked() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	own := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--save", "", "--appendonly", "no"}
	cmd := exec.Command(s.binary, append(own, s.args...)...)
	cmd.Dir = s.dir
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
	s.run = &run{os: cmd.Process, done: done}
	return nil
}

// answersLocked reports whether this process, and not another one on the same port, answers commands.
func (s *Server) answersLocked() bool {
	info, err := redis.String(do(s.Addr(), s.password(), startLook, "INFO", "server"))
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.run.os.Pid))
}

func (s *Server) runningLocked() bool {
	if s.run == nil {
		return false
	}
	select {
	case <-s.run.done:
		return false
	default:
		return true
	}
}
