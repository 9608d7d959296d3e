//go:build darwin || freebsd || linux

package supervise

import "golang.org/x/sys/unix"

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
