package supervise

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedClock counts suspend.
const sharedClock = unix.CLOCK_BOOTTIME

// The requests about the modes of a terminal.
const (
	getModes = unix.TCGETS
	setModes = unix.TCSETSW
)

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

// ownProgram returns the path of the program that this process runs, also if another one is installed under its name by now.
func ownProgram() (string, error) { return "/proc/self/exe", nil }

// newMemory returns a file for shared memory.
func newMemory() (fd int, err error) { return unix.MemfdCreate("redlock", unix.MFD_CLOEXEC) }

// stopGroup stops this process and the others of its group, such as the script that has started it, as a Ctrl-Z does: one in the
// command's group has not reached them. It is one signal for all, so that a SIGCONT for all comes before it or behind it. The
// kernel drops the signal if nobody would continue the group: it is orphaned. await returns after the stop.
//
// Go's runtime never gives up a handler of SIGTSTP that it has installed, so this goes past it.
func stopGroup(await func()) {
	var byDefault, handler [16]uint64 // longer than any struct sigaction; zeros are the default action
	set := func(action, old *[16]uint64) bool {
		const setSize = 8
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP),
			uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(old)), setSize, 0, 0)
		return errno == 0
	}
	if set(&byDefault, &handler) {
		_ = unix.Kill(0, unix.SIGTSTP)
		await()
		set(&handler, nil)
	}
}
