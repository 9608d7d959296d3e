package contention

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/edsrzf/mmap-go"
)

// Guard notices two holders of a lock at once. It is a word for each lock that every holder writes its number into, and does
// not ask the lock.
type Guard struct {
	words []atomic.Uint64 // 0 while nobody holds the lock
	file  mmap.MMap       // that holds the words, or nil
}

const wordBytes = 8

// NewGuard is for waiters of this process alone, and so many locks.
func NewGuard(locks int) *Guard { return &Guard{words: make([]atomic.Uint64, locks)} }

// OpenGuard shares a file with other processes: the first one makes it.
func OpenGuard(name string, locks int) (*Guard, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(locks) * wordBytes); err != nil {
		return nil, err
	}
	memory, err := mmap.Map(f, mmap.RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("contention: %s: %w", name, err)
	}
	return &Guard{words: unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&memory[0])), locks), file: memory}, nil
}

// Close must not be called while a waiter is at work.
func (g *Guard) Close() error {
	if g.file == nil {
		return nil
	}
	return g.file.Unmap()
}

// enter is for a holder of a lock with a number of its own, from 1.
func (g *Guard) enter(lock int, number uint64) error {
	if !g.words[lock].CompareAndSwap(0, number) {
		return fmt.Errorf("contention: waiter %d got the lock, but another one holds it too", number)
	}
	return nil
}

// leave comes before the lock is given back.
func (g *Guard) leave(lock int, number uint64) error {
	if !g.words[lock].CompareAndSwap(number, 0) {
		return fmt.Errorf("contention: while waiter %d held the lock, another one got it too", number)
	}
	return nil
}
