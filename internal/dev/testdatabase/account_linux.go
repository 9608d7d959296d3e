package testdatabase

import "syscall"

// ownAccount and otherAccount say whom a process belongs to. The kernel ends it with the tests: with SIGQUIT, since
// PostgreSQL takes its children along then.

func ownAccount() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT} }

func otherAccount(uid, gid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
}
