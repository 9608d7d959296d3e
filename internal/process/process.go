// Package process starts child processes that do not outlive this program, and stops them in their tracks.
package process

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
)

// Process is a child process. All methods may be called from any goroutine.
type Process struct {
	os   *os.Process
	done chan struct{}
	err  error // as Wait has returned it; set before done is closed

	mu     sync.Mutex
	frozen bool
}

// Start starts cmd, and leaves a goroutine that waits for its end, with [exec.Cmd.Wait]. On Linux the child is killed when
// this program ends, whatever the reason. An interrupt from the terminal is for this program alone.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = endWithParent()
	p := &Process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// The kernel ties the child to the thread that started it, so that thread has to stay (golang/go#27505).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	p.os = cmd.Process
	return p, nil
}

// PID returns the process ID, also when the process has ended.
func (p *Process) PID() int { return p.os.Pid }

// Done returns a channel that is closed when the process has ended and nothing of it is left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended, as [exec.Cmd.Wait] says it. It must have ended.
func (p *Process) Err() error { return p.err }

// Kill ends the process, frozen or not, and returns when it is gone. It may have ended already.
func (p *Process) Kill() {
	_ = p.os.Kill() // fails only if the process has ended
	<-p.done
}

// Freeze stops the process in its tracks (SIGSTOP); on Linux it returns when the process stands still. It does nothing when
// that is so already. Where [CanFreeze] is false, the error is [errors.ErrUnsupported].
func (p *Process) Freeze() error { return p.setFrozen(true) }

// Thaw lets a frozen process go on (SIGCONT).
func (p *Process) Thaw() error { return p.setFrozen(false) }

func (p *Process) setFrozen(frozen bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen == frozen {
		return nil
	}
	change := thaw
	if frozen {
		change = freeze
	}
	if err := change(p.os); err != nil {
		return err
	}
	p.frozen = frozen
	return nil
}
