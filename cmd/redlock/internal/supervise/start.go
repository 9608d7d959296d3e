//go:build darwin || freebsd || linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/redlock"
)

// disregarded are the signals that mean the front if they are sent to the holder. They are caught and not ignored, because the
// command would inherit that.
var disregarded = []os.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGTTIN,
}

// nowhere receives the signals that are disregarded.
var nowhere = make(chan os.Signal, 1)

func disregardSignals() {
	for _, sig := range disregarded {
		if !signal.Ignored(sig) { // as nohup has SIGHUP for itself and its command
			signal.Notify(nowhere, sig)
		}
	}
	signal.Notify(nowhere, unix.SIGPIPE) // a stderr that nobody reads any more would end the holder
	signal.Ignore(unix.SIGTTOU)          // for messages to a terminal with tostop, and for terminal.pass
}

// start starts the command. A report means that it does not run, and that the lock is released.
func (h *holder) start() *Report {
	// Part of a pipeline, it would take the terminal away from the others. It gets the terminal when it asks for it, see stopped.
	inForeground := h.tty != nil && foregroundOf(0) == h.frontGroup && foregroundOf(1) == h.frontGroup
	s, err := newStage(h.Path, h.Args, h.environment())
	if err != nil {
		return h.giveUp(h.cannotRun(err))
	}
	h.group = group{id: s.pid, leader: true}
	h.link.board.setGroup(s.pid)
	if inForeground {
		h.wantTTY = true
		h.tty.pass(h.frontGroup, s.pid)
	}
	failed := h.enter(s)
	_ = unix.Close(s.gate) // a stage that has not been let through ends
	if failed != nil {
		waitFor(s.pid)
		h.link.board.setGroup(0)
		h.tty.pass(s.pid, h.frontGroup)
		return h.giveUp(failed)
	}
	h.link.board.setStarted(h.clock.Now())
	h.Events.say(event{Event: "started", PID: s.pid}, fmt.Sprintf("started the command as process %d", s.pid))
	return nil
}

// enter has the stage become the command. From before its look at the clock on, the front would end it in time.
func (h *holder) enter(s *stage) *Report {
	if err := h.lock.Err(); err != nil {
		return h.lostEarly(err, errors.Is(err, redlock.ErrExpired))
	}
	entered := make(chan error, 1)
	go func() { entered <- s.enter() }()
	for { // it takes long if the program is far away, and the front has to learn of renewals
		select {
		case err := <-entered:
			if err != nil {
				return h.cannotRun(err)
			}
			return nil
		case <-time.After(h.tick()):
			h.look()
		}
	}
}

func (h *holder) cannotRun(err error) *Report {
	code := CodeCannotRun
	if errors.Is(err, unix.ENOENT) {
		code = CodeNotFound
	}
	return &Report{Code: code, Text: h.Args[0] + ": " + display.Error(err)}
}

// environment is that of the command: the holder's without secrets and what an outer redlock has said about its lock.
func (h *holder) environment() []string {
	about := []string{
		"REDLOCK_NAME=" + h.Names[0],
		"REDLOCK_TOKEN=" + string(h.each[0].Token()),
		"REDLOCK_FENCE=" + strconv.FormatUint(h.each[0].Fence(), 10),
		"REDLOCK_DEADLINE=" + strconv.FormatInt(time.Now().Add(h.validity()).Unix(), 10),
	}
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(h.Secrets, name) ||
			slices.ContainsFunc(about, func(own string) bool { return strings.HasPrefix(own, name+"=") })
	})
	return append(env, about...)
}

// giveUp releases the lock, under which nothing has run.
func (h *holder) giveUp(report *Report) *Report {
	_ = h.lock.Unlock(context.Background()) // it ends by itself if that fails
	return report
}
