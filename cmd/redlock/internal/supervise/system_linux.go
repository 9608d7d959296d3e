package supervise

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
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

// running counts the processes of a group that may not have ended, whether or not they are reaped. ok is false if it cannot know all
// of them.
func running(group int) (n int, ok bool) {
	if _, err := os.ReadFile("/proc/1/stat"); err != nil {
		return 0, false // there is no /proc, or it hides the processes of other users
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return 0, false
	}
	for _, p := range processes {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue // no process
		}
		text, err := os.ReadFile("/proc/" + p.Name() + "/stat")
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH): // it was reaped
		case err != nil:
			return 0, false
		case mayRun(string(text), group):
			n++
		}
	}
	return n, true
}

// mayRun reports whether what /proc/*/stat has is of a process of a group that has not ended. One with more than one thread has
// not, also if its first thread has.
func mayRun(text string, group int) bool {
	const state, of, threads = 0, 2, 17 // behind the name, which may hold anything
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= threads {
		return true
	}
	ended := (fields[state] == "Z" || fields[state] == "X") && (fields[threads] == "0" || fields[threads] == "1")
	return fields[of] == strconv.Itoa(group) && !ended
}

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
