package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

const (
	items  = 50
	pauses = 4 // how often a seller is stopped
	others = 5 // how many others buy meanwhile
)

// process is that of a seller.
type process struct {
	*testredis.Child
	in  io.Writer
	out io.Reader
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
	return &process{child, in, out}, err
}

// sell has two sellers sell in turn until nothing is left, and stops them now and then.
func sell(ctx context.Context, t task, out io.Writer) error {
	var sellers [2]*process
	for i := range sellers {
		p, err := start(t)
		if err != nil {
			return err
		}
		defer p.Kill()
		defer context.AfterFunc(ctx, p.Kill)() // its pipes end with it
		sellers[i] = p
	}
	for buyer := 0; ; buyer++ {
		seller, other := sellers[buyer%2], sellers[(buyer+1)%2]
		what, left, err := seller.goOn() // takes the lock and reads
		if err == nil && what == hasRead {
			if buyer < pauses {
				err = pause(seller, other, left, out)
			} else {
				_, _, err = seller.goOn() // writes
			}
		}
		if err != nil || what == soldOut {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// pause stops a seller that has read, until its lock has expired and the other has sold.
func pause(late, other *process, left int, out io.Writer) error {
	if err := late.Freeze(); err != nil {
		return err
	}
	if err := late.send(); err != nil { // nothing but the signal keeps it from writing now
		return err
	}
	fmt.Fprintf(out, "   Process %d is stopped: it holds the lock, and has read a stock of %d.\n", late.PID(), left)
	for range others {
		_, _, readErr := other.goOn()
		_, _, writeErr := other.goOn()
		if err := errors.Join(readErr, writeErr); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "     %d others buy; %d left.", others, left-others)
	if err := late.Thaw(); err != nil {
		return err
	}
	what, _, err := late.hear()
	if what == refused {
		fmt.Fprintln(out, " Its late write is refused (fence.ErrStale).")
	} else {
		fmt.Fprintf(out, " Then it goes on and writes %d.\n", left-1)
	}
	return err
}

// goOn lets the seller go on, and returns what it did and the stock that it has read.
func (p *process) goOn() (what string, left int, err error) {
	if err := p.send(); err != nil {
		return "", 0, err
	}
	return p.hear()
}

func (p *process) send() error {
	_, err := fmt.Fprintln(p.in, "go")
	return err
}

func (p *process) hear() (what string, left int, err error) {
	_, err = fmt.Fscanln(p.out, &what, &left)
	return what, left, err
}
