//go:build darwin || freebsd || linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageEnv makes a process a stage. It has the number of the gate and the path of the program.
const stageEnv = "REDLOCK_STAGE"

// stage is a process that becomes the command when it is told to, so that the command cannot run before its group is known to the
// front. It is this program, and its arguments are the command's. It ends if the holder does.
type stage struct {
	pid  int
	gate int // a socket: a byte to the stage lets it go; the number of the error comes back, or nothing
}

// sameProgram is ownProgram, by the name under which processes are listed if that still is this program.
func sameProgram() (string, error) {
	own, err := ownProgram()
	if err != nil {
		return "", err
	}
	name, err := os.Executable()
	if err != nil {
		return own, nil //nolint:nilerr // it has no name now
	}
	named, failed := os.Stat(name)
	if this, err := os.Stat(own); err != nil || failed != nil || !os.SameFile(named, this) {
		return own, nil
	}
	return name, nil
}

// newStage starts a stage in a process group of its own, with the files and the signals that this process was started with.
func newStage(path string, args, env []string) (*stage, error) {
	self, err := ownProgram()
	if err != nil {
		return nil, err
	}
	gate, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer unix.Close(theirs)
	if _, err = unix.FcntlInt(uintptr(theirs), unix.F_SETFD, 0); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl", err), unix.Close(gate))
	}
	signal.Notify(nowhere, unix.SIGTTOU) // what is caught is reset in the child, what is ignored is not
	defer signal.Ignore(unix.SIGTTOU)
	pid, err := syscall.ForkExec(self, args, &syscall.ProcAttr{
		Env:   append(env[:len(env):len(env)], fmt.Sprintf("%s=%d,%s", stageEnv, theirs, path)),
		Files: []uintptr{0, 1, 2},
		Sys:   ownGroup(true),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("no process for it could be started: %w", err), unix.Close(gate))
	}
	return &stage{pid, gate}, nil
}

// enter has the stage become the command, and returns when it has, has failed, or was killed.
func (s *stage) enter() error {
	_, _ = unix.Write(s.gate, []byte{1}) // fails if it was killed
	if number, _ := strconv.Atoi(receive(s.gate)); number != 0 {
		return syscall.Errno(number)
	}
	return nil
}

// Become makes this process the command if it was started as a stage, and does not return then.
func Become() {
	text, isStage := os.LookupEnv(stageEnv)
	if !isStage {
		return
	}
	_ = os.Unsetenv(stageEnv) // fails never
	number, path, _ := strings.Cut(text, ",")
	gate, err := strconv.Atoi(number)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(gate), unix.F_SETFD, unix.FD_CLOEXEC)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "redlock: error: $%s is for the tool itself: unset it\n", stageEnv)
		os.Exit(CodeCannotRun)
	}
	if receive(gate) != "" {
		err := syscall.Exec(path, os.Args, os.Environ())
		if errors.Is(err, unix.ENOEXEC) { // a script without #! is the shell's, as execvp(3) has it
			err = syscall.Exec("/bin/sh", append([]string{"sh", path}, os.Args[1:]...), os.Environ())
		}
		if number := syscall.Errno(0); errors.As(err, &number) {
			_, _ = unix.Write(gate, []byte(strconv.Itoa(int(number)))) // fails if nobody wants to know any more
		}
	}
	os.Exit(CodeCannotRun)
}

// receive returns what the other end of the gate has sent, or "" when it is closed.
func receive(gate int) string {
	text := make([]byte, 16)
	for {
		n, err := unix.Read(gate, text)
		if !errors.Is(err, unix.EINTR) {
			return string(text[:max(n, 0)])
		}
	}
}
