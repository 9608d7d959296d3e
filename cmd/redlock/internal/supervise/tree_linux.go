package supervise

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is one that /proc has shown.
type process struct {
	pid, parent, group int
	started            string // since the boot, in ticks; nobody else has both this and the number
	name               string // of its program, 15 bytes at most
	ended              bool   // and was not reaped
}

// read returns a process by its number.
func read(pid string) (p process, err error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return p, err
	}
	return parse(string(text))
}

// parse parses a line of /proc/*/stat. A process of more than one thread has not ended, also if its first thread has.
func parse(text string) (p process, err error) {
	const state, parent, group, threads, started = 0, 1, 2, 17, 19 // behind the name, which may hold anything
	open, closing := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[closing+1:])
	if open < 1 || closing < open || len(fields) <= started {
		return p, errors.New("no line of /proc/*/stat")
	}
	var failed [3]error
	p.pid, failed[0] = strconv.Atoi(text[:open-1])
	p.parent, failed[1] = strconv.Atoi(fields[parent])
	p.group, failed[2] = strconv.Atoi(fields[group])
	p.name, p.started = text[open+1:closing], fields[started]
	p.ended = (fields[state] == "Z" || fields[state] == "X") && (fields[threads] == "0" || fields[threads] == "1")
	return p, errors.Join(failed[:]...)
}

// processes returns all processes. ok is false if there may be more: there is no /proc, or it hides those of other users.
func processes() (all []process, ok bool) {
	if _, err := os.ReadFile("/proc/1/stat"); err != nil {
		return nil, false
	}
	entries, err := os.ReadDir("/proc")
	ok = err == nil
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue // no process
		}
		p, err := read(entry.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH): // it was reaped
		case err != nil:
			ok = false
		default:
			all = append(all, p)
		}
	}
	return all, ok
}

// running counts the processes of a group that have not ended, whether or not they are reaped. ok is false if there may be more.
func running(group int) (n int, ok bool) {
	all, ok := processes()
	for _, p := range all {
		if p.group == group && !p.ended {
			n++
		}
	}
	return n, ok
}

// below returns the processes that descend from another and have not ended, parents first. Those in except are left out, and what
// descends from them. ok is false if there may be more.
func below(root int, except []process) (found []process, ok bool) {
	all, ok := processes()
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			if p.isOf(except) {
				continue
			}
			if !p.ended {
				found = append(found, p)
			}
			next = append(next, p.pid)
		}
		delete(children, next[0])
	}
	return found, ok
}

// isOf reports whether it is one of them.
func (p process) isOf(list []process) bool {
	for _, other := range list {
		if p.pid == other.pid && p.started == other.started {
			return true
		}
	}
	return false
}

// signal sends a signal to the process, and not to another that has its number by now: the number stands for the process that is
// looked at while the descriptor is open.
func (p process) signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0) // Linux 5.3; before, there is a moment between the look and the signal
	if err == nil {
		defer unix.Close(fd)
	}
	if now, failed := read(strconv.Itoa(p.pid)); failed != nil || now.started != p.started {
		return
	}
	if err != nil || unix.PidfdSendSignal(fd, sig, nil, 0) != nil {
		_ = unix.Kill(p.pid, sig) // fails if it belongs to another user
	}
}
