//go:build linux

package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/client"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// orderBound is how long a client may take to do what it is told. Its workers end their turns before it pauses.
const orderBound = 60 * time.Second

// process is a client process. Its methods are called by one goroutine at a time: a fault that concerns it is over before it is told
// something else.
type process struct {
	index  int // of its machine in the cluster
	config client.Config
	child  *testredis.Child
	orders io.WriteCloser
	done   chan string // what it has done
}

// launch starts a client process on its machine.
func launch(cmd *exec.Cmd, index int, config client.Config, stderr io.Writer) (*process, error) {
	cmd.Env = config.Environ()
	cmd.Stderr = stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p := &process{index: index, config: config, orders: orders, done: make(chan string, 1)}
	reading, writing, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = writing
	if p.child, err = testredis.StartChild(cmd); err != nil {
		return nil, err
	}
	_ = writing.Close()
	go func() {
		defer reading.Close()
		defer close(p.done)
		for lines := bufio.NewScanner(reading); lines.Scan(); {
			p.done <- lines.Text()
		}
	}()
	return p, nil
}

// ErrHangs means that a client process does not do what it is told: calls have not ended with their contexts.
var ErrHangs = errors.New("calls do not end")

// order tells the process what to do, and waits until it is done.
func (p *process) order(o client.Order) error {
	if err := json.NewEncoder(p.orders).Encode(o); err != nil {
		return fmt.Errorf("client %s: %w", p.config.Name, err)
	}
	timer := time.NewTimer(orderBound)
	defer timer.Stop()
	select {
	case answer, ok := <-p.done:
		if !ok || answer != o.Do {
			return fmt.Errorf("client %s: told to %s, it ended, or said %q", p.config.Name, o.Do, answer)
		}
		return nil
	case <-timer.C:
		_ = syscall.Kill(p.child.PID(), syscall.SIGQUIT) // for its stacks
		return fmt.Errorf("client %s does not %s within %v: %w", p.config.Name, o.Do, orderBound, ErrHangs)
	}
}

// end lets the process shut down.
func (p *process) end() error {
	err := errors.Join(p.order(client.Order{Do: "end"}), p.orders.Close())
	timer := time.NewTimer(orderBound)
	defer timer.Stop()
	select {
	case <-p.child.Done():
		return err
	case <-timer.C:
		p.child.Kill()
		return errors.Join(err, fmt.Errorf("client %s does not end", p.config.Name))
	}
}

// histories returns the files of an episode, of all processes.
func histories(dir string, episode int) []string {
	files, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("*.%d.history", episode)))
	slices.Sort(files)
	return files
}
