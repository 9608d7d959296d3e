package web

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

// maxLines is how many lines wait for being written.
const maxLines = 64

// journal writes lines one after the other, behind the back of those who add them: nobody waits for a pipe that is full.
type journal struct {
	w     io.Writer
	lines chan string
	lost  atomic.Int64 // lines, since there was no room
}

func newJournal(w io.Writer) *journal { return &journal{w: w, lines: make(chan string, maxLines)} }

// add lets a line be written, or counts it as lost.
func (j *journal) add(line string) {
	select {
	case j.lines <- line:
	default:
		j.lost.Add(1)
	}
}

// run writes lines until ctx ends, and those that are there then.
func (j *journal) run(ctx context.Context) {
	for {
		select {
		case line := <-j.lines:
			j.write(line)
		default:
			select {
			case line := <-j.lines:
				j.write(line)
			case <-ctx.Done():
				return
			}
		}
	}
}

func (j *journal) write(line string) {
	fmt.Fprintln(j.w, line)
	if lost := j.lost.Swap(0); lost > 0 {
		fmt.Fprintf(j.w, "redlock: %d lines were lost here, as nobody read them in time\n", lost)
	}
}
