//go:build darwin || freebsd || linux

package supervise

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// group is a process group; the zero group is none. Once it was seen empty its number may be another's, so no signal is sent any more.
type group struct {
	id     int
	leader bool // the leader has not been reaped, so its number is its own
	killed bool // KILL was sent
	gone   bool
}

// signal sends a signal to all processes of the group.
func (g *group) signal(sig unix.Signal) {
	if !g.gone && g.id > 1 { // 0 and 1 stand for other processes
		g.killed = g.killed || sig == unix.SIGKILL
		_ = unix.Kill(-g.id, sig) // fails if the group is empty, or belongs to another user
	}
}

// signalLeader sends a signal to the command itself.
func (g *group) signalLeader(sig unix.Signal) {
	if g.leader && g.id > 1 {
		_ = unix.Kill(g.id, sig)
	}
}

// term asks all processes of the group to end. One that is stopped is continued, so that it can.
func (g *group) term() {
	g.signal(unix.SIGTERM)
	g.signal(unix.SIGCONT)
}

// empty reports whether no process of the group is left. A process that has ended counts until it is reaped; after KILL it does
// not, as its parent may have left the group and never reap it. Before KILL others could come while the group is looked through.
func (g *group) empty() bool {
	g.gone = g.gone || g.id <= 1 || errors.Is(unix.Kill(-g.id, 0), unix.ESRCH) || g.killed && g.ended()
	return g.gone
}

// has reports whether a process is of the group.
func (g *group) has(p process) bool { return p.group == g.id && !g.gone && g.id > 1 }

// ended reports whether all processes of the group are known to have ended.
func (g *group) ended() bool {
	n, ok := running(g.id)
	return ok && n == 0
}

// reap calls changed for each child of this process that has ended, stopped or continued, and reports whether it has no
// child left.
func reap(changed func(pid int, status unix.WaitStatus)) (childless bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WUNTRACED|unix.WCONTINUED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return errors.Is(err, unix.ECHILD)
		}
		changed(pid, status)
	}
}

// waitFor returns how a child of this process has ended, when it has.
func waitFor(pid int) (status unix.WaitStatus) {
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			return status
		}
	}
}

// codeOf returns the exit code for how a process has ended, as a shell has it.
func codeOf(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// sayEnded says how the command has ended.
func (h *holder) sayEnded(status unix.WaitStatus) {
	if status.Signaled() {
		name := unix.SignalName(status.Signal())
		h.Events.say(event{Event: "ended", Signal: name}, fmt.Sprintf("the command was ended by %s", name))
		return
	}
	code := status.ExitStatus()
	h.Events.say(event{Event: "ended", Code: &code}, fmt.Sprintf("the command ended with exit code %d", code))
}

// sayLeft says what the command has left behind, unless its whole group is ended already: the lock is lost, the front is gone, or
// the signal that has ended the command was one for all of them.
func (h *holder) sayLeft(status unix.WaitStatus) {
	if h.course.lost != "" || h.link.isGone() || status.Signaled() && h.passed[status.Signal()] || h.group.empty() {
		return
	}
	n, ok := running(h.group.id)
	if n == 0 && ok {
		return
	}
	what := "processes"
	switch {
	case n == 1:
		what = "a process"
	case n > 1:
		what = fmt.Sprintf("%d processes", n)
	}
	h.Events.warn(event{Event: "left", PID: h.group.id, Processes: n}, fmt.Sprintf("the command has left %s of its group %d, "+
		"which are ended now: let it wait for what it starts", what, h.group.id))
}

// terminal is the controlling terminal. A nil one is none.
//
// At any time one process group is in its foreground: it may read, and it gets the signals of Ctrl-C and Ctrl-Z. Changing that
// from the background needs SIGTTOU to be ignored.
type terminal struct {
	fd    int
	modes *unix.Termios // at the beginning; nil if they cannot be read
}

// openTerminal returns nil if the process has no controlling terminal.
func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	modes, _ := unix.IoctlGetTermios(fd, getModes)
	return &terminal{fd, modes}
}

// foreground returns the process group in the foreground; 0 means none.
func (t *terminal) foreground() int {
	if t == nil {
		return 0
	}
	return foregroundOf(t.fd)
}

// pass makes another process group the foreground one, if from is.
func (t *terminal) pass(from, to int) {
	if t != nil && t.foreground() == from {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, to) // fails if the group is gone
	}
}

// restore gives the terminal the modes that it had at the beginning, if a process group is in its foreground: one that was killed
// could not. A shell does that for what it runs itself.
func (t *terminal) restore(group int) {
	if t != nil && t.modes != nil && t.foreground() == group {
		_ = unix.IoctlSetTermios(t.fd, setModes, t.modes)
	}
}

// foregroundOf returns the process group in the foreground of the terminal behind a file; 0 if it is no controlling terminal.
func foregroundOf(fd int) int {
	id, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return id
}
