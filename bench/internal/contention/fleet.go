package contention

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/quorumlock/quorumlock/bench/internal/subject"
)

// Plan is what a Fleet is made for.
type Plan struct {
	Subject   string        // one of those that the program gives to Serve
	Setup     subject.Setup // of each process; Callers is how many waiters it has
	Name      string        // the lock's
	Processes int
}

// Fleet is processes with a Crew each that want the same lock. Its methods are for one goroutine.
type Fleet struct {
	dir      string
	children []*child
}

// Launch runs the program's own file once for each process: see [Serve]. It returns when every waiter has had the lock
// once. A process ends when it has reported to Stop, when ctx ends, by Close, and with this program.
func Launch(ctx context.Context, p Plan) (*Fleet, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "contention")
	if err != nil {
		return nil, err
	}
	f := &Fleet{dir: dir}
	for i := range p.Processes {
		c, err := begin(ctx, program, task{
			Subject: p.Subject, Addrs: p.Setup.Addrs, Timeout: p.Setup.Timeout, Name: p.Name, Waiters: p.Setup.Callers,
			First: uint64(1 + i*p.Setup.Callers), Guard: filepath.Join(dir, "guard"),
		})
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.children = append(f.children, c)
	}
	if err := f.each(func(c *child) error { return c.hear(ready) }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Start lets all waiters work.
func (f *Fleet) Start() error { return f.each(func(c *child) error { return c.tell(start) }) }

// Stop returns what all have recorded, as [Crew.Stop] does.
func (f *Fleet) Stop() (Result, error) {
	var result Result
	err := errors.Join(
		f.each(func(c *child) error { return c.tell(stop) }),
		f.each(func(c *child) error {
			s, err := c.report()
			result = append(result, s)
			return err
		}))
	if err != nil {
		return nil, err
	}
	return result, nil
}

// Close ends the processes that are left, and returns when none is. They need not have stopped.
func (f *Fleet) Close() error {
	for _, c := range f.children {
		c.end()
	}
	return os.RemoveAll(f.dir)
}

func (f *Fleet) each(do func(*child) error) error {
	var all []error
	for _, c := range f.children {
		all = append(all, do(c))
	}
	return errors.Join(all...)
}

// child is one process.
type child struct {
	cmd      *exec.Cmd
	orders   io.WriteCloser
	answers  *bufio.Reader
	problems strings.Builder
	ended    bool
}

func begin(ctx context.Context, program string, t task) (*child, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, program)}
	c.cmd.Env = append(os.Environ(), taskEnv+"="+string(text))
	c.cmd.Stderr = &c.problems
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	answers, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.answers = bufio.NewReader(answers)
	return c, c.cmd.Start()
}

func (c *child) tell(order string) error {
	if _, err := fmt.Fprintln(c.orders, order); err != nil {
		return c.failed(err)
	}
	return nil
}

// line returns what the child says next.
func (c *child) line() (string, error) {
	line, err := c.answers.ReadString('\n')
	if err != nil {
		return "", c.failed(err)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

func (c *child) hear(want string) error {
	line, err := c.line()
	if err == nil && line != want {
		err = fmt.Errorf("contention: a child says %q instead of %q", line, want)
	}
	return err
}

func (c *child) report() (*Shift, error) {
	if c.ended { // its failure has been told
		return nil, nil
	}
	line, err := c.line()
	if err != nil {
		return nil, err
	}
	s := &Shift{}
	if err := json.Unmarshal([]byte(line), s); err != nil {
		return nil, fmt.Errorf("contention: a child's report: %w", err)
	}
	return s, nil
}

// failed adds what the child has said last.
func (c *child) failed(err error) error {
	c.end()
	return fmt.Errorf("contention: a child has failed: %w\n%s", err, c.problems.String())
}

// end makes the child end, if it has not, and waits for that.
func (c *child) end() {
	if c.ended {
		return
	}
	c.ended = true
	_ = c.orders.Close() // which it ends with
	_ = c.cmd.Wait()     // with a failure, as a rule
}
