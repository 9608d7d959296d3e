package stack_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is one end of a connection in memory.
type conn struct {
	in, out *stream
	name    string
	failed  atomic.Bool // a write has failed
	closed  atomic.Bool
	misuse  func(what string) // called for a write after one that failed
}

// connected returns the two ends of a connection.
func connected(name string, room int, delay func() time.Duration) (client, server *conn) {
	up, down := newStream(room, delay), newStream(room, delay)
	return &conn{in: down, out: up, name: name}, &conn{in: up, out: down, name: name}
}

func (c *conn) Read(p []byte) (int, error) { return c.in.read(p) }

func (c *conn) Write(p []byte) (int, error) {
	if c.failed.Load() && c.misuse != nil {
		c.misuse("is written to after a write that failed")
	}
	n, err := c.out.write(p)
	if err != nil {
		c.failed.Store(true)
	}
	return n, err
}

// Close ends both directions; what was written still arrives.
func (c *conn) Close() error {
	c.closed.Store(true)
	c.out.finish()
	c.in.leave()
	return nil
}

// reset ends both directions, at both ends.
func (c *conn) reset() {
	c.out.reset()
	c.in.reset()
}

// isRead reports whether somebody waits for what comes in.
func (c *conn) isRead() bool {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.readers > 0
}

func (c *conn) LocalAddr() net.Addr  { return &net.UnixAddr{Name: c.name, Net: "memory"} }
func (c *conn) RemoteAddr() net.Addr { return c.LocalAddr() }

func (c *conn) SetReadDeadline(t time.Time) error  { return c.in.setDeadline(&c.in.readBy, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(&c.out.writeBy, t) }

func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// stream is one direction of a connection: bytes that arrive in order, each some time
// after it was written, with room for so many on their way.
type stream struct {
	delay func() time.Duration // of what is written now
	room  int

	mu       sync.Mutex
	change   *sync.Cond
	flight   []segment
	size     int
	readBy   time.Time
	writeBy  time.Time
	readers  int   // reads that wait
	written  error // why nothing more can be written; nil means that it can
	unread   error // why nothing more can be read, what has arrived included
	finished bool  // nothing comes after what is on its way
}

// segment is what was written at once.
type segment struct {
	arrives time.Time
	data    []byte
}

func newStream(room int, delay func() time.Duration) *stream {
	s := &stream{room: room, delay: delay}
	s.change = sync.NewCond(&s.mu)
	return s
}

// read waits for bytes that have arrived.
func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers++
	defer func() { s.readers-- }()
	for {
		switch now := time.Now(); {
		case s.unread != nil:
			return 0, s.unread
		case passed(s.readBy, now):
			return 0, os.ErrDeadlineExceeded
		case len(s.flight) == 0 && s.finished:
			return 0, io.EOF
		case len(s.flight) > 0 && !now.Before(s.flight[0].arrives):
			first := &s.flight[0]
			n := copy(p, first.data)
			if first.data = first.data[n:]; len(first.data) == 0 {
				s.flight = s.flight[1:]
			}
			s.size -= n
			s.change.Broadcast()
			return n, nil
		}
		s.change.Wait()
	}
}

// write puts bytes on their way, as room comes for them.
func (s *stream) write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) {
		switch now := time.Now(); {
		case s.written != nil:
			return n, s.written
		case passed(s.writeBy, now):
			return n, os.ErrDeadlineExceeded
		case s.size < s.room:
			part := append([]byte(nil), p[n:min(len(p), n+s.room-s.size)]...)
			n += len(part)
			s.sendLocked(segment{now.Add(s.delay()), part})
		default:
			s.change.Wait()
		}
	}
	return n, nil
}

func (s *stream) sendLocked(g segment) {
	if last := len(s.flight) - 1; last >= 0 && g.arrives.Before(s.flight[last].arrives) {
		g.arrives = s.flight[last].arrives
	}
	s.flight = append(s.flight, g)
	s.size += len(g.data)
	s.wakeAt(g.arrives)
}

// finish is the end of the writer: what is on its way still arrives.
func (s *stream) finish() {
	s.end(func() {
		s.finished = true
		s.written = orElse(s.written, net.ErrClosed)
	})
}

// leave is the end of the reader.
func (s *stream) leave() {
	s.end(func() {
		s.unread = orElse(s.unread, net.ErrClosed)
		s.written = orElse(s.written, error(syscall.EPIPE))
	})
}

// reset is the end of both, and of what is on its way.
func (s *stream) reset() {
	s.end(func() {
		s.unread = orElse(s.unread, error(syscall.ECONNRESET))
		s.written = orElse(s.written, error(syscall.ECONNRESET))
	})
}

func (s *stream) end(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
	s.change.Broadcast()
}

func (s *stream) setDeadline(of *time.Time, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.unread, net.ErrClosed) {
		return s.unread
	}
	*of = at
	s.wakeAt(at)
	return nil
}

// wakeAt wakes everybody at that time.
func (s *stream) wakeAt(at time.Time) {
	if d := time.Until(at); d > 0 {
		time.AfterFunc(d, func() { s.end(func() {}) })
		return
	}
	s.change.Broadcast()
}

func passed(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
