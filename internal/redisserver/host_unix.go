//go:build unix && !linux

package redisserver

import (
	"os"
	"syscall"
)

// endWithParent asks for nothing: only Linux ends a child with its parent.
func endWithParent() *syscall.SysProcAttr { return nil }

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func thaw(p *os.Process) error   { return p.Signal(syscall.SIGCONT) }
