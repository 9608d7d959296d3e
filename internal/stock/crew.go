package stock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/process"
)

// worker is one process of buyers.
type worker struct {
	process  *process.Process
	orders   io.WriteCloser
	problems *bytes.Buffer // what it has printed; to be read when it has ended
}

// report is an event and who tells it. The last one of a worker says that it has ended.
type report struct {
	from  *worker
	event event
	ended bool
}

// crew is all processes of buyers.
type crew struct {
	workers []*worker
	reports chan report
	over    chan struct{} // nobody receives reports any more
	reading sync.WaitGroup
}

// hire starts the processes. The crew has to be dismissed, also after an error.
func hire(p Plan, prefix string) (*crew, error) {
	c := &crew{reports: make(chan report), over: make(chan struct{})}
	program, err := os.Executable()
	if err != nil {
		return c, err
	}
	t := task{
		Nodes: p.Nodes, Resource: p.Resource, Prefix: prefix, Checked: p.Checked, TTL: p.TTL, Timeout: p.Timeout,
	}
	for i := range p.Processes {
		t.First = 1 + i*p.Buyers/p.Processes
		t.Buyers = 1 + (i+1)*p.Buyers/p.Processes - t.First
		if err := c.start(program, t); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *crew) start(program string, t task) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	w := &worker{problems: &bytes.Buffer{}}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), taskEnv+"="+string(text))
	cmd.Stderr = w.problems
	in, out := io.Pipe() // all of it is read before the process counts as ended, unlike that of StdoutPipe
	cmd.Stdout = out
	if w.orders, err = cmd.StdinPipe(); err != nil {
		return err
	}
	if w.process, err = process.Start(cmd); err != nil {
		return err
	}
	c.workers = append(c.workers, w)
	c.reading.Go(func() {
		<-w.process.Done()
		_ = out.Close()
	})
	c.reading.Go(func() { c.read(w, in) })
	return nil
}

// read passes on what a worker says, and drains it when nobody wants to know.
func (c *crew) read(w *worker, in io.Reader) {
	for events := json.NewDecoder(in); ; {
		r := report{from: w}
		if err := events.Decode(&r.event); err != nil {
			_, _ = io.Copy(io.Discard, in)
			<-w.process.Done()
			r.ended = true
		}
		select {
		case c.reports <- r:
		case <-c.over:
		}
		if r.ended {
			return
		}
	}
}

// answer lets a buyer go on, or with 0 the process.
func (w *worker) answer(buyer int) error {
	if _, err := fmt.Fprintln(w.orders, buyer); err != nil {
		return fmt.Errorf("stock: process %d: %w", w.process.PID(), err)
	}
	return nil
}

// failure says why the process has failed, if it has. It must have ended.
func (w *worker) failure() error {
	if err := w.process.Err(); err != nil {
		return fmt.Errorf("stock: process %d: %w\n%s", w.process.PID(), err, bytes.TrimSpace(w.problems.Bytes()))
	}
	return nil
}

// dismiss has the processes give back what they hold, and returns when none is left.
func (c *crew) dismiss() {
	close(c.over)
	for _, w := range c.workers {
		_ = w.process.Thaw() // one that fails is killed below
		_ = w.orders.Close() // which they end with
	}
	bound := time.NewTimer(parting)
	defer bound.Stop()
	for _, w := range c.workers {
		select {
		case <-w.process.Done():
		case <-bound.C:
			bound.Reset(0) // the others have had their time too
			w.process.Kill()
		}
	}
	c.reading.Wait()
}
