//go:build unix && !linux

package process

import (
	"os"
	"syscall"
)

// CanFreeze says whether this system can stop a process in its tracks.
const CanFreeze = true

// endWithParent only sees to it that an interrupt from the terminal is for this program alone: no other system than Linux ends
// a child with its parent.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func thaw(p *os.Process) error   { return p.Signal(syscall.SIGCONT) }
