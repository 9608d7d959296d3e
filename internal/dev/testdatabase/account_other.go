//go:build !linux

package testdatabase

import "syscall"

// Elsewhere a server is whoever runs the tests, and may outlive them if they are killed.

func ownAccount() *syscall.SysProcAttr { return nil }

func otherAccount(_, _ uint32) *syscall.SysProcAttr { return nil }
