//go:build darwin || freebsd

package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharedClock counts suspend on macOS.
const sharedClock = unix.CLOCK_MONOTONIC

// The requests about the modes of a terminal.
const (
	getModes = unix.TIOCGETA
	setModes = unix.TIOCSETAW
)

// adoptOrphans does nothing: only Linux can. Process 1 reaps them.
func adoptOrphans() {}

// ownGroup has a process started in a process group of its own. Only Linux ends a process with its parent.
func ownGroup(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// ownProgram returns the path of the program that this process runs.
func ownProgram() (string, error) { return os.Executable() }

// running counts the processes of a group that may not have ended, which no system but Linux tells here.
func running(int) (n int, ok bool) { return 0, false }

// process is one that has left the command's group, which no system but Linux tells here.
type process struct {
	pid, group int
	name       string
}

func (process) signal(unix.Signal)  {}
func (process) isOf([]process) bool { return false }

// below finds none.
func below(int, []process) (found []process, ok bool) { return nil, false }

// newMemory returns a file for shared memory.
func newMemory() (fd int, err error) {
	file, err := os.CreateTemp("", "redlock")
	if err != nil {
		return -1, err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return -1, err
	}
	return unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// stopGroup stops this process and the others of its group, such as the script that has started it, if the parent is of the same
// session, as a shell is that would continue them. await returns after the stop.
func stopGroup(await func()) {
	own, _ := unix.Getsid(0)
	if parents, err := unix.Getsid(unix.Getppid()); err == nil && parents == own {
		_ = unix.Kill(0, unix.SIGSTOP)
	}
	await()
}
