//go:build darwin || freebsd || linux

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/clock"
)

// linkEnv makes a process a holder. It has the numbers of two files: the socket and the shared memory.
const linkEnv = "REDLOCK_HOLDER_FILES"

// message is what the two processes tell each other: a line of JSON each.
type message struct {
	Setup    json.RawMessage `json:",omitempty"` // from the front, first: what to do
	Ready    bool            `json:",omitempty"` // from the holder, first: it can take over the lock
	Given    *given          `json:",omitempty"` // from the front, once: the lock
	Attached bool            `json:",omitempty"` // from the holder: it has the lock
	Signal   unix.Signal     `json:",omitempty"` // from the front: for the command
	Continue int             `json:",omitempty"` // from the front: the job was stopped and goes on; for the how many-th time
	Stopped  unix.Signal     `json:",omitempty"` // from the holder: the command has stopped
	After    int             `json:",omitempty"` // with Stopped: the last Continue before
	Report   *Report         `json:",omitempty"` // from the holder, last
}

// kind is the same for messages of which only the last counts. Signals of one number are one, as the kernel has it.
func (m message) kind() int {
	switch {
	case m.Continue > 0:
		return -1
	case m.Stopped > 0:
		return -2
	case m.Report != nil:
		return -3
	case m.Ready:
		return -4
	case m.Given != nil:
		return -5
	case m.Attached:
		return -6
	}
	return int(m.Signal)
}

// deliveryTime is how long the holder waits at most for its report to be taken. The socket has room for it, as a rule.
const deliveryTime = 10 * time.Second

// Link is one end of the connection between the two processes.
type Link struct {
	conn     net.Conn
	board    *board
	messages chan message // closed when the other process is gone

	mu      sync.Mutex
	unsent  []message     // at most one of a kind
	more    chan struct{} // there are unsent ones
	gone    chan struct{} // closed when the other process is gone
	written chan struct{} // closed when no more is written
}

// newLink returns the front's end, and the holder's as files.
func newLink() (l *Link, socket, memory int, err error) {
	own, theirs, err := socketPair()
	if err != nil {
		return nil, -1, -1, err
	}
	b, memory, err := newBoard()
	if err != nil {
		return nil, -1, -1, err
	}
	l, err = open(own, b)
	return l, theirs, memory, err
}

// socketPair returns two sockets that are connected, and that no other program inherits.
func socketPair() (a, b int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, -1, os.NewSyscallError("socketpair", err)
	}
	unix.CloseOnExec(pair[0])
	unix.CloseOnExec(pair[1])
	return pair[0], pair[1], nil
}

// open takes over a socket.
func open(socket int, b *board) (*Link, error) {
	file := os.NewFile(uintptr(socket), "link")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	l := &Link{
		conn: conn, board: b, messages: make(chan message),
		more: make(chan struct{}, 1), gone: make(chan struct{}), written: make(chan struct{}),
	}
	go l.read()
	go l.write()
	return l, nil
}

// Inherited returns the holder's end if this process was started as a holder, and nil otherwise. The environment does not show it
// any more then.
func Inherited() (*Link, error) {
	files, isHolder := os.LookupEnv(linkEnv)
	if !isHolder {
		return nil, nil
	}
	if err := os.Unsetenv(linkEnv); err != nil {
		return nil, err
	}
	var socket, memory int
	if _, err := fmt.Sscanf(files, "%d,%d", &socket, &memory); err != nil {
		return nil, fmt.Errorf("$%s is for the tool itself: unset it", linkEnv)
	}
	unix.CloseOnExec(socket)
	unix.CloseOnExec(memory)
	b, err := openBoard(memory)
	if err != nil {
		return nil, fmt.Errorf("$%s is for the tool itself: unset it (%w)", linkEnv, err)
	}
	_ = unix.Close(memory)
	return open(socket, b)
}

func (l *Link) read() {
	defer close(l.messages)
	defer close(l.gone)
	for in := json.NewDecoder(l.conn); ; {
		var m message
		if in.Decode(&m) != nil {
			return
		}
		l.messages <- m
	}
}

// send has a message sent, and does not wait for that: the other process may be frozen and the socket full, and the caller has to
// watch the deadline. A message replaces one of its kind that is still unsent. If the other process is gone, that shows in messages.
func (l *Link) send(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsent = append(slices.DeleteFunc(l.unsent, func(old message) bool { return old.kind() == m.kind() }), m)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// write writes what is to be sent, until the report is written or the other process is gone.
func (l *Link) write() {
	defer close(l.written)
	for {
		select {
		case <-l.more:
		case <-l.gone:
			return
		}
		for m, ok := l.next(); ok; m, ok = l.next() {
			if l.put(m) != nil || m.Report != nil {
				return
			}
		}
	}
}

// next takes the first message out of those that are unsent.
func (l *Link) next() (m message, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unsent) == 0 {
		return m, false
	}
	m, l.unsent = l.unsent[0], l.unsent[1:]
	return m, true
}

// put writes a message, and waits while the socket is full.
func (l *Link) put(m message) error { return json.NewEncoder(l.conn).Encode(m) }

// isGone reports whether the other process is gone.
func (l *Link) isGone() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// Setup waits for what the front wants to be done, and stores it in to.
func (l *Link) Setup(to any) error {
	m, ok := <-l.messages
	if !ok || m.Setup == nil {
		return errors.New("the process that was started first is gone")
	}
	return json.Unmarshal(m.Setup, to)
}

// Report tells the front how it ended, behind all other messages, and returns when that is on its way.
func (l *Link) Report(r Report) {
	l.send(message{Report: &r})
	select {
	case <-l.written:
	case <-time.After(deliveryTime): // the front is frozen, and has been for long
	}
}

// board is memory that both processes have mapped. The holder writes it and the front reads it. It is not part of the messages
// because a front that is stopped reads none: they would pile up, and after the stop it would see old deadlines first.
type board struct{ memory []byte }

const boardSize = 32

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

// word returns the i-th number on the board. All are aligned, as a mapping begins at a page.
func (b *board) word(i int) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&b.memory[8*i])) }

// setDeadline publishes the lock's deadline, by Clock.
func (b *board) setDeadline(at time.Time) { b.word(0).Store(at.UnixNano()) }

// deadline returns the lock's deadline. It is valid while something is running.
func (b *board) deadline() time.Time { return time.Unix(0, b.word(0).Load()) }

// setGroup publishes the process group of the command; 0 means that there is none, or none any more.
func (b *board) setGroup(id int) { b.word(1).Store(int64(id)) }

func (b *board) group() int { return int(b.word(1).Load()) }

// setOutside publishes whether the group has ended, but not what has left it.
func (b *board) setOutside(is bool) {
	var flag int64
	if is {
		flag = 1
	}
	b.word(3).Store(flag)
}

// running reports whether the command, or something that it has left, may run.
func (b *board) running() bool { return b.group() != 0 || b.word(3).Load() != 0 }

// setStarted publishes when the command was started, by Clock.
func (b *board) setStarted(at time.Time) { b.word(2).Store(at.UnixNano()) }

// started returns when the command was started; zero if it was not.
func (b *board) started() (at time.Time) {
	if ns := b.word(2).Load(); ns != 0 {
		at = time.Unix(0, ns)
	}
	return at
}

// Clock is a clock whose readings are the same in all processes of the machine. It counts suspend on Linux and macOS.
type Clock struct{}

var _ clock.Clock = Clock{}

// Now returns the reading as a time since 1970, which it is not.
func (Clock) Now() time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(sharedClock, &ts); err != nil {
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // which every system has
	}
	return time.Unix(0, ts.Nano())
}

// AfterFunc implements [clock.Clock].
func (Clock) AfterFunc(d time.Duration, f func()) clock.Timer { return time.AfterFunc(d, f) }
