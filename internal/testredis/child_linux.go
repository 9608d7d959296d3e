package testredis

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithParent makes the kernel kill the child when the thread that started it ends. The process
// group of its own keeps an interrupt from the terminal away from the child.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// Freeze suspends the process (SIGSTOP) and returns when it stands still: the signal alone is only a
// request. It does nothing if the process is frozen already: WNOWAIT leaves it to be found stopped again.
func (c *Child) Freeze() error {
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		err := unix.Waitid(unix.P_PID, c.PID(), nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("waitid", err)
		}
	}
}

// Thaw lets a frozen process go on (SIGCONT).
func (c *Child) Thaw() error { return c.cmd.Process.Signal(syscall.SIGCONT) }
