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

// freeze returns when the process has stopped: the signal alone is only a request. WNOWAIT leaves it to be found
// stopped again, by a second freeze.
func freeze(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("waitid", err)
		}
	}
}

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
