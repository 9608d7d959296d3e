// Package floor is the least that taking a lock on N Redis nodes can cost: a bare pipelined client that keeps
// neither time nor trouble. It has no timeouts, no validity, no release of what failed and no second attempt,
// so it is of no use for locking, only for measuring what a library adds.
package floor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
)

// release is the compare-and-delete that the library sends too.
var release = form.Scripts["release"]

// Token is the value of one lock's key.
type Token [16]byte

// Client takes and gives back locks on all nodes, over one connection to each. It may be used by many goroutines.
type Client struct {
	conns   []*conn
	ttl     []byte // milliseconds in decimal digits
	rounds  sync.Pool
	buffers sync.Pool
}

// Dial connects to every address and loads the release script there.
func Dial(addrs []string, ttl time.Duration, writing Writing) (*Client, error) {
	c := &Client{ttl: strconv.AppendInt(nil, ttl.Milliseconds(), 10)}
	c.rounds.New = func() any { return newRound(len(addrs), &c.rounds) }
	c.buffers.New = func() any { return new([]byte) }
	for _, addr := range addrs {
		conn, err := dial(addr, writing)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// Acquire sends SET NX PX with a fresh token to every node and returns at the majority's reply.
func (c *Client) Acquire(key string) (Token, error) {
	var token Token
	const digits = "0123456789abcdef"
	for i, bits := 0, rand.Uint64(); i < len(token); i, bits = i+1, bits>>4 {
		token[i] = digits[bits&15]
	}
	buffer := c.buffers.Get().(*[]byte)
	b := (*buffer)[:0]
	b = append(b, "*6\r\n$3\r\nSET\r\n"...)
	b = appendBulk(b, key)
	b = appendBulk(b, token[:])
	b = append(b, "$2\r\nNX\r\n$2\r\nPX\r\n"...)
	b = appendBulk(b, c.ttl)
	err := c.send(b, '+')
	*buffer = b
	c.buffers.Put(buffer)
	return token, err
}

// Release sends the compare-and-delete to every node and returns at the majority's reply.
func (c *Client) Release(key string, token Token) error {
	buffer := c.buffers.Get().(*[]byte)
	b := (*buffer)[:0]
	b = append(b, "*5\r\n$7\r\nEVALSHA\r\n"...)
	b = appendBulk(b, release.Hash)
	b = append(b, "$1\r\n1\r\n"...)
	b = appendBulk(b, key)
	b = appendBulk(b, token[:])
	err := c.send(b, ':')
	*buffer = b
	c.buffers.Put(buffer)
	return err
}

// send gives the command to every node and waits for the majority.
func (c *Client) send(command []byte, yes byte) error {
	r := c.rounds.Get().(*round)
	r.begin(yes)
	for _, conn := range c.conns {
		conn.send(command, r)
	}
	return r.wait()
}

// Close ends the connections and returns when nothing runs any more.
func (c *Client) Close() error {
	var all []error
	for _, conn := range c.conns {
		all = append(all, conn.close())
	}
	return errors.Join(all...)
}

func appendBulk[T string | []byte](b []byte, text T) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, "\r\n"...)
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// load gives the server the script of Release.
func load(to io.Writer, from *bufio.Reader) error {
	b := appendBulk([]byte("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n"), release.Source)
	if _, err := to.Write(b); err != nil {
		return err
	}
	for _, want := range []string{"$40\r\n", release.Hash + "\r\n"} {
		got, err := from.ReadString('\n')
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("floor: SCRIPT LOAD: got %q, not %q", got, want)
		}
	}
	return nil
}
