//go:build unix && !linux

package testredis

import "syscall"

// endWithParent keeps an interrupt from the terminal away from the child. Only Linux ends a child
// with its parent.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Freeze suspends the process (SIGSTOP), soon after it has returned.
func (c *Child) Freeze() error { return c.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on (SIGCONT).
func (c *Child) Thaw() error { return c.cmd.Process.Signal(syscall.SIGCONT) }
