//go:build darwin || freebsd || linux

package supervise

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// sweeps is how often signalBelow looks for more at most: a process may start another while it looks.
const sweeps = 10

// signalBelow sends signals to the descendants of a process, except those of a group and those in except. It returns those that its
// last look has found. ok is false if there may be more.
func signalBelow(root int, g *group, except []process, signals ...unix.Signal) (found []process, ok bool) {
	var known []process
	for range sweeps {
		found, ok = below(root, except)
		found = slices.DeleteFunc(found, g.has)
		before := len(known)
		for _, p := range found {
			if p.isOf(known) {
				continue
			}
			known = append(known, p)
			for _, sig := range signals {
				p.signal(sig)
			}
		}
		if len(known) == before {
			break
		}
	}
	return found, ok
}

// outside reports whether signals are for what has left the group of the command too. On Linux all that descends from the command
// also descends from the holder: it adopts orphans, and has started nothing else.
func (h *holder) outside() bool { return h.course.all && h.Descendants != DescendantsIgnore }

// term asks what is left of the command to end.
func (h *holder) term() {
	h.group.term()
	if h.outside() {
		signalBelow(os.Getpid(), &h.group, nil, unix.SIGTERM, unix.SIGCONT)
	}
}

// kill ends what is left of the command.
func (h *holder) kill() {
	h.group.signal(unix.SIGKILL)
	if h.outside() {
		signalBelow(os.Getpid(), &h.group, nil, unix.SIGKILL)
		h.nextKill = h.clock.Now().Add(h.killPause)
		h.killPause = min(2*h.killPause, h.tick())
	}
}

// killAgain kills what was started while kill looked for it.
func (h *holder) killAgain(now time.Time) {
	if h.course.killed && reached(now, h.nextKill) {
		h.kill()
	}
}

// leaveGroup hands the terminal back when the group of the command has ended before what has left it.
func (h *holder) leaveGroup() {
	if h.link.board.group() != 0 {
		h.link.board.setOutside(true) // before the group is gone from the board, so that the front sees one of them always
		h.link.board.setGroup(0)
		h.tty.pass(h.group.id, h.frontGroup)
	}
}

// sayOutside says what has left the command's group and has not ended.
func (h *holder) sayOutside() {
	h.tellAt = time.Time{}
	found, ok := below(os.Getpid(), nil)
	found = slices.DeleteFunc(found, h.group.has)
	n, first, what := len(found), process{}, "processes, which have left its group, run" // if /proc hides them
	switch {
	case n == 0 && ok:
		return
	case n == 1:
		first = found[0]
		what = fmt.Sprintf("process %d (%q), which has left its group, runs", first.pid, first.name)
	case n > 1:
		first = found[0]
		what = fmt.Sprintf("%d processes, which have left its group, run: process %d (%q) and others", n, first.pid, first.name)
	}
	say, then := h.Events.warn, "the lock is kept until then; with --descendants=kill they are ended, with ignore they run on without the lock"
	if h.course.all {
		then = "they are ended now"
	}
	if h.course.all && h.Descendants == DescendantsWait { // somebody has asked for it
		say = h.Events.say
	}
	say(event{Event: "outside", PID: first.pid, Processes: n, Command: first.name}, "the command has ended, but "+what+": "+then)
}
