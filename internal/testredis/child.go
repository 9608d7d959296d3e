package testredis

import (
	"os/exec"
	"runtime"
)

// Child is a child process. All methods may be called from any goroutine.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// StartChild starts cmd, and a goroutine that waits for its end with [exec.Cmd.Wait]. On Linux the
// child is killed when this program ends, whatever the reason. An interrupt from the terminal
// reaches this program alone. Other attributes in cmd.SysProcAttr take the place of these.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = endWithParent()
	}
	c := &Child{cmd, make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(c.done)
		// The kernel ties the child to the thread that started it, so that thread has to stay (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in cmd.ProcessState
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// PID returns the process ID, also when the process has ended.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended and nothing of it is left.
func (c *Child) Done() <-chan struct{} { return c.done }

// running reports whether the process has not ended. A nil Child was never started.
func (c *Child) running() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// Kill ends the process, frozen or not, and returns when it is gone. It may have ended already.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill() // fails only if the process has ended
	<-c.done
}
