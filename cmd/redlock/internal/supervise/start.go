//go:build darwin || freebsd || linux

package supervise

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
)

// The exit codes of a shell for a program that cannot be run.
const (
	CodeCannotRun = 126
	CodeNotFound  = 127
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
	if !h.clock.Now().Before(h.course.limit()) {
		return h.giveUp(&Report{Code: CodeLost, Text: "the lock was acquired too late: too little of its validity was left to start the command"})
	}
	// Part of a pipeline, it would take the terminal away from the others. It gets the terminal when it asks for it, see stopped.
	inForeground := h.tty != nil && foregroundOf(0) == h.frontGroup && foregroundOf(1) == h.frontGroup
	pid, err := fork(h.Path, h.Args, h.environment())
	if err != nil {
		code := CodeCannotRun
		if errors.Is(err, unix.ENOENT) {
			code = CodeNotFound
		}
		return h.giveUp(&Report{Code: code, Text: h.Args[0] + ": " + display.Error(err)})
	}
	h.group = group{id: pid, leader: true}
	h.link.board.setGroup(pid)
	if inForeground {
		h.wantTTY = true
		h.tty.pass(h.frontGroup, pid)
	}
	h.Events.say(event{Event: "started", PID: pid})
	return nil
}

// environment is that of the command: the holder's without secrets and what an outer redlock has said about its lock.
func (h *holder) environment() []string {
	about := []string{
		"REDLOCK_NAME=" + h.Name,
		"REDLOCK_TOKEN=" + h.lock.Token(),
		"REDLOCK_FENCE=" + strconv.FormatUint(h.lock.Fence(), 10),
		"REDLOCK_DEADLINE=" + strconv.FormatInt(time.Now().Add(h.lock.Remaining()).Unix(), 10),
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

// fork starts a program in a process group of its own, with the files and the signals that this process was started with.
func fork(path string, args, env []string) (pid int, err error) {
	signal.Notify(nowhere, unix.SIGTTOU) // what is caught is reset in the child, what is ignored is not
	defer signal.Ignore(unix.SIGTTOU)
	attr := &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: ownGroup(true)}
	pid, err = syscall.ForkExec(path, args, attr)
	if errors.Is(err, unix.ENOEXEC) { // a script without #! is the shell's, as execvp(3) has it
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", path}, args[1:]...), attr)
	}
	return pid, err
}
