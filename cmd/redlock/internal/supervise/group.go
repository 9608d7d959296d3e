//go:build darwin || freebsd || linux

package supervise

import (
	"errors"

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

// ended reports whether all processes of the group are known to have ended.
func (g *group) ended() bool {
	n, ok := running(g.id)
	return ok && n == 0
}

// reap calls changed for each child of this process that has ended, stopped or continued.
func reap(changed func(pid int, status unix.WaitStatus)) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WUNTRACED|unix.WCONTINUED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
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

// endOf is the event for how the command has ended.
func endOf(status unix.WaitStatus) event {
	if status.Signaled() {
		return event{Event: "ended", Signal: unix.SignalName(status.Signal())}
	}
	code := status.ExitStatus()
	return event{Event: "ended", Code: &code}
}
