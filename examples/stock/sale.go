package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	items    = 50
	sellers  = 4
	pauses   = 4               // how often a seller is stopped
	others   = 5               // how many others buy meanwhile
	patience = 2 * time.Minute // for a whole sale
)

// process is that of a seller. After an error its methods do nothing.
type process struct {
	*testredis.Child
	in   io.Writer
	out  io.Reader
	read int    // the stock that it has read last
	what string // what it has printed last
	err  error
}

// sell has sellers sell until nothing is left, and stops them now and then. They end with ctx.
func sell(ctx context.Context, t task, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all [sellers]*process
	for i := range all {
		p, err := start(t)
		if err != nil {
			return err
		}
		defer p.Kill()
		context.AfterFunc(ctx, p.Kill)
		all[i] = p
	}
	for round, more := 0, true; more; round++ {
		var selling sync.WaitGroup
		for _, p := range all { // at once
			selling.Go(func() { p.send(); p.finish() })
		}
		selling.Wait()
		if round < pauses {
			pause(all[round%sellers], all[(round+1)%sellers], round%2 == 1, out)
		}
		var failed []error
		for _, p := range all {
			more = more && p.what != soldOut
			failed = append(failed, p.err)
		}
		if err := errors.Join(failed...); err != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
	return nil
}

// start starts the process of a seller, which is this program again.
func start(t task) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-seller", "-nodes", t.nodes, "-stock", t.stock, "-ttl", t.ttl.String(), fmt.Sprintf("-checked=%t", t.checked))
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	child, err := testredis.StartChild(cmd)
	return &process{Child: child, in: in, out: out}, err
}

// pause stops a seller between its read and its write, until its lock has expired and others have
// sold. If closely is true, the next holder of the lock has only read by then, and writes later still.
func pause(late, next *process, closely bool, out io.Writer) {
	late.begin()
	late.do(late.Freeze)
	late.send() // nothing but the signal keeps it from writing now
	fmt.Fprintf(out, "   Process %d is stopped: it holds the lock, and has read a stock of %d.\n", late.PID(), late.read)
	if closely {
		next.begin()
		fmt.Fprintf(out, "     The next holder reads %d.", next.read)
	} else {
		for range others {
			next.send()
			next.finish()
		}
		fmt.Fprintf(out, "     %d others buy; %d left.", others, next.read-1)
	}
	late.do(late.Thaw)
	late.hear()
	if late.what == refused {
		fmt.Fprintln(out, " Its late write is refused (fence.ErrStale).")
	} else {
		fmt.Fprintf(out, " Then it goes on and writes %d.\n", late.read-1)
	}
	if closely {
		next.send()
		next.finish()
	}
	if late.what == refused {
		late.finish() // with a new lock
	}
}

// begin has the seller take the lock and read the stock, for a new buyer.
func (p *process) begin() {
	p.send()
	for p.hear(); p.err == nil && p.what != hasRead; {
		p.hear()
	}
}

// finish lets the seller go on until the buyer has been served.
func (p *process) finish() {
	for p.hear(); p.err == nil && p.what != hasSold && p.what != soldOut; p.hear() {
		if p.what == hasRead {
			p.send()
		}
	}
}

// send sends the line that the seller waits for.
func (p *process) send() {
	p.do(func() error {
		_, err := fmt.Fprintln(p.in, "go")
		return err
	})
}

// hear reads what the seller prints next.
func (p *process) hear() {
	p.do(func() error {
		read := 0
		_, err := fmt.Fscanln(p.out, &p.what, &read)
		if p.what == hasRead {
			p.read = read
		}
		return err
	})
}

func (p *process) do(action func() error) {
	if p.err == nil {
		if err := action(); err != nil {
			p.err = fmt.Errorf("process %d: %w", p.PID(), err)
		}
	}
}
