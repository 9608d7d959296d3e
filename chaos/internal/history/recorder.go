package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time of the machine's monotonic clock, which all processes share.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // there is no Linux without it
	}
	return t.Nano()
}

// Recorder writes the history of one process. All methods may be called from any goroutine.
type Recorder struct {
	client string
	ids    atomic.Uint64

	mu   sync.Mutex
	file *os.File
	err  error // the first that writing has failed with
}

// NewRecorder makes the file. Each line is written at once: what a process has recorded stays if it is killed.
func NewRecorder(path, client string) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &Recorder{client: client, file: file}, nil
}

// Begin notes that an operation begins now. The caller changes what it returns, and gives it to End.
func (r *Recorder) Begin(op Op) *Op {
	op.ID, op.Client, op.End = r.ids.Add(1), r.client, Open
	op.Start = Now()
	r.write(&op)
	return &op
}

// End notes that the operation has ended.
func (r *Recorder) End(op *Op) {
	op.End = Now()
	r.write(op)
}

// Note writes an operation whose times are set.
func (r *Recorder) Note(op Op) {
	op.ID, op.Client = r.ids.Add(1), r.client
	r.write(&op)
}

func (r *Recorder) write(op *Op) {
	line, err := json.Marshal(op)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	r.err = errors.Join(r.err, err)
}

// Close returns what writing has failed with.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.err, r.file.Close())
}

// Load returns the operations of some files in the order of their starts. A last line that is cut off, by a kill, is left out.
func Load(paths ...string) (ops []*Op, err error) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		byID := map[uint64]*Op{}
		lines := bufio.NewReaderSize(file, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				break
			}
			var op Op
			if err == nil {
				err = json.Unmarshal(bytes.TrimSpace(line), &op)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %q: %w", path, line, err), file.Close())
			}
			if begun := byID[op.ID]; begun != nil {
				*begun = op
				continue
			}
			byID[op.ID] = &op
			ops = append(ops, &op)
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Start, b.Start) })
	return ops, nil
}

// stallBound is how long a process may stand still until that is noted: what it was late with has a reason then.
const stallBound = 100 * time.Millisecond

// Stalls notes each time in which the process did not get on, until stop is closed.
func (r *Recorder) Stalls(stop <-chan struct{}) {
	ticker := time.NewTicker(stallBound / 4)
	defer ticker.Stop()
	for last := Now(); ; {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		now := Now()
		if now-last > int64(stallBound) {
			r.Note(Op{Kind: Stall, Start: last, End: now})
		}
		last = now
	}
}
