package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// sharedClock counts suspend.
const sharedClock = unix.CLOCK_BOOTTIME

// adoptOrphans makes this process the parent of descendants that lose theirs, so that it can reap them.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// ownGroup has a process started in a process group of its own. If withParent is set the kernel kills it when the thread that
// starts it ends.
func ownGroup(withParent bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if withParent {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// newMemory returns a file for shared memory.
func newMemory() (fd int, err error) { return unix.MemfdCreate("redlock", unix.MFD_CLOEXEC) }

// stopSelf stops this process. The signal goes to the thread that sends it, so that the process has been stopped and continued
// when stopSelf returns, unless the kernel dropped the signal because the process group is orphaned.
func stopSelf(sig unix.Signal) { _ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig) }
