//go:build unix && !linux

package testredis

import (
	"os"
	"syscall"
)

// endWithParent keeps an interrupt from the terminal away from the child. Only Linux ends a child
// with its parent.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func thaw(p *os.Process) error   { return p.Signal(syscall.SIGCONT) }
