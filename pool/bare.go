package pool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

// bareWire speaks Redis's protocol (RESP2, https://redis.io/docs/latest/develop/reference/protocol-spec/)
// over a connection that redigo has made and logged in. A batch is one write, and the
// replies that lock commands have are read without allocating.
type bareWire struct {
	conn   net.Conn // TLS included
	socket net.Conn // under it
	in     *bufio.Reader
	out    []byte   // scratch of write
	words  []string // likewise
	parts  []any    // of the array that was read last
}

const (
	// maxDepth and maxBulk bound what a reply may hold. Those to lock commands hold
	// nothing; what exceeds the bounds did not come from a Redis server.
	maxDepth = 8
	maxBulk  = 1 << 20
)

// dialed is the network connection that Open's dialing leaves in the context's value
// for dialedKey, if there is one.
type (
	dialed struct {
		conn, socket net.Conn
		in           *bufio.Reader // of conn
	}
	dialedKey struct{}
)

// sip lets redigo read a connection byte by byte: it never holds more of it than the
// reply that it reads, and what comes after that is for the bareWire.
type sip struct {
	net.Conn
	in *bufio.Reader
}

func (s sip) Read(p []byte) (int, error) { return s.in.Read(p[:min(1, len(p))]) }

// newBareWire takes a connection over from redigo, to which all that was asked has been
// answered.
func newBareWire(d dialed) (*bareWire, error) {
	w := &bareWire{conn: d.conn, socket: d.socket, in: d.in, parts: make([]any, 0, batchSize)}
	return w, d.conn.SetDeadline(time.Time{}) // redigo has set one
}

func (w *bareWire) write(batch []message) error {
	w.out = w.out[:0]
	for _, m := range batch {
		w.words = m.words(w.words[:0])
		w.out = appendHeader(w.out, '*', len(w.words))
		for _, word := range w.words {
			w.out = appendHeader(w.out, '$', len(word))
			w.out = append(w.out, word...)
			w.out = append(w.out, "\r\n"...)
		}
	}
	_, err := w.conn.Write(w.out)
	if err != nil {
		w.cut()
	}
	return err
}

func appendHeader(b []byte, kind byte, n int) []byte {
	b = strconv.AppendInt(append(b, kind), int64(n), 10)
	return append(b, "\r\n"...)
}

// cut closes the socket itself: to say goodbye, as TLS does, could take long.
func (w *bareWire) cut() { _ = w.socket.Close() }

func (w *bareWire) read() (any, error) {
	value, err := w.reply(0)
	if isFatal(err) {
		w.cut() // a write under way ends with it
	}
	return value, err
}

// line reads a line, with its end. Only an error may be longer than the buffer; the
// middle of it is left out then.
func (w *bareWire) line() ([]byte, error) {
	line, err := w.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	first := bytes.Clone(line)
	for read := len(line); first[0] == '-' && errors.Is(err, bufio.ErrBufferFull) && read < maxBulk; read += len(line) {
		line, err = w.in.ReadSlice('\n')
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("%w: %s", ErrProtocol, show(first))
	}
	return append(first, line...), err
}

var okReply any = "OK"

func (w *bareWire) reply(depth int) (any, error) {
	line, err := w.line()
	if err != nil {
		return nil, err
	}
	n := len(line) - 2
	if n < 1 || line[n] != '\r' {
		return nil, fmt.Errorf("%w: %s", ErrProtocol, show(line))
	}
	kind, rest := line[0], line[1:n]
	switch kind {
	case '+':
		if string(rest) == "OK" {
			return okReply, nil
		}
		return string(rest), nil
	case '-':
		return nil, redis.Error(rest)
	}
	number, err := strconv.ParseInt(string(rest), 10, 64)
	if err != nil || rest[0] == '+' {
		return nil, fmt.Errorf("%w: %s", ErrProtocol, show(line))
	}
	switch {
	case kind == ':':
		return number, nil
	case (kind == '$' || kind == '*') && number == -1:
		return nil, nil
	case kind == '$' && number >= 0 && number <= maxBulk:
		return w.bulk(int(number))
	case kind == '*' && number >= 0 && number <= maxBulk && depth < maxDepth:
		return w.array(int(number), depth+1)
	}
	return nil, fmt.Errorf("%w: %s", ErrProtocol, show(line))
}

func (w *bareWire) bulk(n int) (any, error) {
	value := make([]byte, n+2)
	if _, err := io.ReadFull(w.in, value); err != nil {
		return nil, err
	}
	if string(value[n:]) != "\r\n" {
		return nil, fmt.Errorf("%w: %s", ErrProtocol, show(value))
	}
	return value[:n], nil
}

func (w *bareWire) array(n, depth int) (any, error) {
	var values []any
	if depth == 1 && n <= cap(w.parts) {
		values = w.parts[:0]
	}
	for range n {
		value, err := w.reply(depth)
		if err != nil && isFatal(err) {
			return nil, err
		}
		if err != nil {
			value = err
		}
		values = append(values, value)
	}
	return values, nil
}
