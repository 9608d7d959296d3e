package contention

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorumlock/quorumlock/bench/internal/child"
	"github.com/quorumlock/quorumlock/bench/internal/subject"
)

// Plan is what a Fleet is made for.
type Plan struct {
	Subject   string        // one of those that the program gives to Serve
	Setup     subject.Setup // of each process; Callers is how many waiters it has
	Names     []string      // the locks', see NewCrew
	Processes int
}

// Fleet is processes with a Crew each that want the same locks. Its methods are for one goroutine.
type Fleet struct {
	dir      string
	children []*child.Child
}

// Launch runs the program's own file once for each process: see [Serve]. It returns when every waiter has had its lock
// once. A process ends when it has reported to Stop, when ctx ends, by Close, and with this program.
func Launch(ctx context.Context, p Plan) (*Fleet, error) {
	dir, err := os.MkdirTemp("", "contention")
	if err != nil {
		return nil, err
	}
	f := &Fleet{dir: dir}
	for i := range p.Processes {
		c, err := child.Start(ctx, taskKey, task{
			Subject: p.Subject, Addrs: p.Setup.Addrs, Timeout: p.Setup.Timeout, Names: p.Names, Waiters: p.Setup.Callers,
			First: uint64(1 + i*p.Setup.Callers), Guard: filepath.Join(dir, "guard"),
		})
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.children = append(f.children, c)
	}
	if err := f.each(hearReady); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func hearReady(c *child.Child) error {
	line, err := c.Line()
	if err == nil && line != ready {
		err = fmt.Errorf("contention: a child says %q instead of %q", line, ready)
	}
	return err
}

// Start lets all waiters work.
func (f *Fleet) Start() error {
	return f.each(func(c *child.Child) error { return c.Tell(start) })
}

// Stop returns what all have recorded, as [Crew.Stop] does.
func (f *Fleet) Stop() (Result, error) {
	var result Result
	err := errors.Join(
		f.each(func(c *child.Child) error { return c.Tell(stop) }),
		f.each(func(c *child.Child) error {
			if c.Ended() { // its failure has been told
				return nil
			}
			s := &Shift{}
			result = append(result, s)
			return c.Receive(s)
		}))
	if err != nil {
		return nil, err
	}
	return result, nil
}

// Close ends the processes that are left, and returns when none is. They need not have stopped.
func (f *Fleet) Close() error {
	for _, c := range f.children {
		c.End()
	}
	return os.RemoveAll(f.dir)
}

func (f *Fleet) each(do func(*child.Child) error) error {
	var all []error
	for _, c := range f.children {
		all = append(all, do(c))
	}
	return errors.Join(all...)
}
