package floor

import (
	"bufio"
	"errors"
	"net"
	"runtime"
	"sync"
)

// Writing is how commands get to the socket.
type Writing int

// The ways of writing.
const (
	Direct   Writing = iota // the caller writes
	Queued                  // a goroutine of the connection writes what is queued, at once
	Gathered                // the same, once it has let others queue more
)

// conn is the connection to one node. Replies belong to the rounds in the order in which these were sent.
type conn struct {
	*net.TCPConn
	replies *bufio.Reader
	writing Writing
	writer  sync.WaitGroup
	reader  sync.WaitGroup

	mu     sync.Mutex
	sent   []*round  // without a reply, and not yet taken over by the reader
	out    []byte    // what the writer has to send
	work   sync.Cond // there is something in out, or closed is set
	closed bool
}

func dial(addr string, writing Writing) (*conn, error) {
	tcp, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{TCPConn: tcp.(*net.TCPConn), replies: bufio.NewReader(tcp), writing: writing}
	c.work.L = &c.mu
	if err := load(c, c.replies); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.reader.Go(c.read)
	if writing != Direct {
		c.writer.Go(c.write)
	}
	return c, nil
}

// send gives the command to the server, and its reply to the round.
func (c *conn) send(command []byte, r *round) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		r.reply(false)
		return
	}
	c.sent = append(c.sent, r)
	if c.writing == Direct {
		_, _ = c.Write(command) // where this fails, so does the reader
		return
	}
	c.out = append(c.out, command...)
	c.work.Signal()
}

// write sends what is queued, until the connection is closed and nothing is left.
func (c *conn) write() {
	var batch []byte
	for {
		c.mu.Lock()
		for len(c.out) == 0 && !c.closed {
			c.work.Wait()
		}
		if c.writing == Gathered {
			c.mu.Unlock()
			runtime.Gosched()
			c.mu.Lock()
		}
		if len(c.out) == 0 {
			c.mu.Unlock()
			return
		}
		batch, c.out = c.out, batch[:0]
		c.mu.Unlock()
		_, _ = c.Write(batch) // where this fails, so does the reader
	}
}

// read hands out the replies, until the connection ends; what is without a reply then is refused.
func (c *conn) read() {
	var mine []*round // taken from sent, all at a time
	next := 0
	for {
		line, err := c.replies.ReadSlice('\n')
		if err != nil {
			break
		}
		if next == len(mine) {
			c.mu.Lock()
			mine, c.sent = c.sent, mine[:0]
			c.mu.Unlock()
			next = 0
		}
		r := mine[next]
		next++
		// "+OK" and ":1" are yes; "$-1", ":0", ":-1" and errors are not.
		r.reply(line[0] == r.yes && (line[1] == 'O' || line[1] == '1'))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.work.Signal()
	for _, r := range append(mine[next:], c.sent...) {
		r.reply(false)
	}
}

// close lets the server carry out all that it was sent, and returns when nothing runs any more.
func (c *conn) close() error {
	c.mu.Lock()
	c.closed = true
	c.work.Signal()
	c.mu.Unlock()
	c.writer.Wait()
	err := c.CloseWrite() // the server reads to the end and closes
	c.reader.Wait()
	return errors.Join(err, c.Close())
}
