package cluster

import (
	_ "embed" // the shim
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

//go:embed shim/clock.c
var shimSource []byte

// buildShim compiles the library that gives a server its own clock.
func buildShim(dir string) (string, error) {
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, shimSource, 0o600); err != nil {
		return "", err
	}
	printed, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%w (make setup)", err)
	}
	if err != nil {
		return "", fmt.Errorf("compile shim/clock.c: %w\n%s", err, printed)
	}
	return library, nil
}

// clock is the file that a server's shim reads all the time.
type clock struct {
	mu      sync.Mutex // of the one who writes
	file    string
	mapped  []byte
	control *control
}

// control is what shim/clock.c reads.
type control struct {
	sequence     atomic.Uint64 // odd while the rest changes
	base, offset atomic.Int64  // ns
	drift        atomic.Uint64 // a float64
}

func newClock(file string) (*clock, error) {
	size := int(unsafe.Sizeof(control{}))
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", file, err)
	}
	return &clock{file: file, mapped: mapped, control: (*control)(unsafe.Pointer(&mapped[0]))}, nil
}

func (c *clock) close() error { return unix.Munmap(c.mapped) }

// change sets the clock to what f returns for the offset as it is. Nobody reads one half of the old and one of the new.
func (c *clock) change(f func(offset time.Duration) (time.Duration, float64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	offset, rate := f(c.offset(now))
	c.control.sequence.Add(1)
	c.control.base.Store(now.UnixNano())
	c.control.offset.Store(int64(offset))
	c.control.drift.Store(math.Float64bits(rate - 1))
	c.control.sequence.Add(1)
}

// offset returns how far ahead the clock is.
func (c *clock) offset(now time.Time) time.Duration {
	since := float64(now.UnixNano() - c.control.base.Load())
	return time.Duration(c.control.offset.Load()) + time.Duration(since*math.Float64frombits(c.control.drift.Load()))
}

// SetClock sets the server's clock ahead of that of the machine by the offset, or behind if it is negative, and lets it run
// rate times as fast from there. The clock stays so when the server starts again. It is the time of day, by which keys expire
// in Redis; the monotonic clock is right.
func (s *Server) SetClock(offset time.Duration, rate float64) {
	s.clock.change(func(time.Duration) (time.Duration, float64) { return offset, rate })
}

// SetClockRate lets the server's clock run rate times as fast from where it is. It does not jump.
func (s *Server) SetClockRate(rate float64) {
	s.clock.change(func(offset time.Duration) (time.Duration, float64) { return offset, rate })
}

// ClockOffset returns how far ahead of that of the machine the server's clock is.
func (s *Server) ClockOffset() time.Duration {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	return s.clock.offset(time.Now())
}
