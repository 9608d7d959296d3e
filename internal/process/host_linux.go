package process

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanFreeze says whether this system can stop a process in its tracks.
const CanFreeze = true

// endWithParent makes the kernel kill the child when the thread that started it ends,
// so that a program that dies leaves no child behind. An interrupt from the terminal is
// for the program alone: what it does with its children is its own affair.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// freeze returns when the process has stopped: the signal alone is only a request.
func freeze(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED, nil)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("waitid", err)
		}
	}
}

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
