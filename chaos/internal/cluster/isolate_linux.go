package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolatedEnv tells a process that it lives in the namespaces already, or that it is there only to try them.
const isolatedEnv, onlyToTry = "QUORUMLOCK_CHAOS_ISOLATED", "try"

// scratch is where clusters keep their files: in memory, on a mount that ends with the namespaces.
const scratch = "/dev/shm"

// isolated says that this process is the first one in the namespaces.
var isolated bool

// Isolate runs the program again, with the same arguments, in network, mount and PID namespaces of its own, and exits with
// its code. In the process that was started so it returns, and in those that are started from there it does nothing. It has
// to be called before anything else. If it is not possible the program ends and says why.
//
// Nothing stays on the machine, however the program ends: the second process is killed with the first one, the kernel kills
// all others in its PID namespace, and the networks and the files in memory have no other owner.
func Isolate() {
	if os.Getenv(isolatedEnv) == "" {
		code, err := again()
		if err != nil {
			fmt.Fprintln(os.Stderr, "cluster: run in namespaces:", err)
		}
		os.Exit(code)
	}
	if os.Getpid() != 1 {
		return // a client
	}
	if err := settle(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster: set up the namespaces:", err)
		os.Exit(1)
	}
	if os.Getenv(isolatedEnv) == onlyToTry {
		os.Exit(0)
	}
	isolated = true
}

// Lacking says what this machine lacks for clusters: a program, or namespaces. It is for those who can do without, and call it
// before [Isolate], which ends the program then.
func Lacking() error {
	if os.Getenv(isolatedEnv) != "" {
		return nil // it was asked before
	}
	for _, program := range []string{"cc", "ip", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	cmd, missing := namespaced(onlyToTry)
	if printed, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s (%s)", err, bytes.TrimSpace(printed), missing)
	}
	return nil
}

// namespaced returns the command that runs this program in new namespaces, and what is missing if it does not start.
func namespaced(isolated string) (cmd *exec.Cmd, missing string) {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // an interrupt from the terminal comes once, from here
	}
	missing = "root lacks the capability CAP_SYS_ADMIN here: a container needs --privileged"
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		// The account stays what it is, as PostgreSQL does not run as root; the capabilities are those in the new user namespace.
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
		missing = "user namespaces are not permitted: see the sysctls user.max_user_namespaces, " +
			"kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns, or run it as root"
	}
	cmd = exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), isolatedEnv+"="+isolated)
	cmd.SysProcAttr = attr
	return cmd, missing
}

// again runs this program in new namespaces, and returns its exit code.
func again() (int, error) {
	cmd, missing := namespaced("1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	runtime.LockOSThread() // the child dies with the thread that started it (golang/go#27505)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("%w (%s)", err, missing)
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // fails only if it has ended
		}
	}()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal()), fmt.Errorf("ended by the signal %v", status.Signal())
	}
	return cmd.ProcessState.ExitCode(), nil
}

// settle gives new namespaces what a process expects of them.
func settle() error {
	const hint = "(an AppArmor profile can forbid it: kernel.apparmor_restrict_unprivileged_userns)"
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w %s", err, hint)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w (a container that hides parts of /proc forbids it)", err)
	}
	if err := unix.Mount("tmpfs", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mount %s: %w", scratch, err)
	}
	return setUpHub()
}
