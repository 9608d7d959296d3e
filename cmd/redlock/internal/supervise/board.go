//go:build darwin || freebsd || linux

package supervise

import (
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// board is memory that both processes have mapped. The holder writes it and the front reads it. It is not part of the messages
// because a front that is stopped reads none: they would pile up, and after the stop it would see old deadlines first.
type board struct{ memory []byte }

const boardSize = 16

// newBoard returns a board and the file behind it.
func newBoard() (*board, int, error) {
	fd, err := newMemory()
	if err != nil {
		return nil, -1, os.NewSyscallError("shared memory", err)
	}
	if err := unix.Ftruncate(fd, boardSize); err != nil {
		return nil, -1, os.NewSyscallError("ftruncate", err)
	}
	b, err := openBoard(fd)
	return b, fd, err
}

func openBoard(fd int) (*board, error) {
	memory, err := unix.Mmap(fd, 0, boardSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &board{memory}, nil
}

// word returns the i-th number on the board. Both are aligned, as a mapping begins at a page.
func (b *board) word(i int) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&b.memory[8*i])) }

// setDeadline publishes the lock's deadline, by Clock.
func (b *board) setDeadline(at time.Time) { b.word(0).Store(at.UnixNano()) }

// deadline returns the lock's deadline. It is valid while there is a group.
func (b *board) deadline() time.Time { return time.Unix(0, b.word(0).Load()) }

// setGroup publishes the process group of the command; 0 means that there is none, or none any more.
func (b *board) setGroup(id int) { b.word(1).Store(int64(id)) }

func (b *board) group() int { return int(b.word(1).Load()) }
