package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// These are bounds on the data that a server may send. The largest reply to a command of ours is that of INFO, with a
// few kilobytes. Anything that exceeds the bounds did not come from a server that means well.
const (
	// MaxReply bounds one reply or push: its bytes, and valueSize more for each value in it.
	MaxReply = 1 << 20
	// MaxPushed bounds a text in a push: a key that was observed, or a message. Longer ones are dropped.
	MaxPushed = 8 << 10
	// maxLine bounds a line. Only an error is about that long.
	maxLine = 16 << 10
	// maxDepth bounds how deep arrays are nested.
	maxDepth = 8
	// MaxKept bounds the memory that is kept from one reply to the next.
	MaxKept = 64 << 10
	// valueSize is about how many bytes of memory a value takes beside its text.
	valueSize = 64
)

// Reader reads values, and checks every size before it allocates memory. After an error of Read nothing more can be
// read.
type Reader struct {
	in     *bufio.Reader
	secret []byte  // the beginning of the password; empty if there is none
	left   int     // how much of MaxReply is left for the present reply
	push   bool    // the present reply is a push
	texts  []byte  // the texts of the present reply
	items  []Value // the values of its outermost array
}

// NewReader makes a reader. None of its errors quotes a text that repeats the password.
func NewReader(in io.Reader, password string) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, maxLine), secret: []byte(password[:min(len(password), 8)])}
}

// Read returns the next reply or push.
func (r *Reader) Read() (Value, error) {
	r.left, r.push, r.texts = MaxReply, false, r.texts[:0]
	if cap(r.texts) > MaxKept {
		r.texts = nil
	}
	if cap(r.items) > MaxKept/valueSize {
		r.items = nil
	}
	return r.value(0)
}

// Ready reports whether a reply of one line has come in completely.
func (r *Reader) Ready() bool {
	come, _ := r.in.Peek(r.in.Buffered())
	return len(come) > 0 && strings.IndexByte("+-:_", come[0]) >= 0 && bytes.IndexByte(come, '\n') > 0
}

// value reads a value that is inside depth arrays.
func (r *Reader) value(depth int) (Value, error) {
	line, err := r.line()
	if err != nil {
		return Value{}, err
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '-':
		rest, _, _ = bytes.Cut(rest, []byte(repetition))
		fallthrough
	case '+', ',', '(', '#':
		return Value{Kind: kind, hidden: r.hides(rest), Text: r.keep(rest)}, r.take(valueSize + len(rest))
	case '_':
		return Value{Kind: '_'}, r.take(valueSize)
	}
	n, err := strconv.ParseInt(string(rest), 10, 64)
	if err != nil || rest[0] == '+' {
		return Value{}, r.protocolError(line)
	}
	switch kind {
	case ':':
		return Value{Kind: ':', hidden: r.hides(rest), Num: n}, r.take(valueSize)
	case '$', '=', '!':
		return r.bulk(kind, n)
	case '*', '~', '%', '>':
		return r.array(kind, n, depth)
	}
	return Value{}, r.protocolError(line)
}

// line reads a line and returns it without its end.
func (r *Reader) line() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, r.protocolError(line)
	}
	if err != nil {
		return nil, err
	}
	n := len(line) - 2
	if n < 1 || line[n] != '\r' {
		return nil, r.protocolError(line)
	}
	return line[:n], nil
}

// bulk reads a text of n bytes. A text that is too long for a push is dropped unread, because anybody may publish
// anything.
func (r *Reader) bulk(kind byte, n int64) (Value, error) {
	if n == -1 && kind == '$' {
		return Value{Kind: '_'}, r.take(valueSize)
	}
	if r.push && n > MaxPushed && n <= maxPublished {
		_, err := r.in.Discard(int(n) + len("\r\n"))
		return Value{Kind: '_'}, errors.Join(err, r.take(valueSize))
	}
	if n < 0 || n > MaxReply {
		return Value{}, fmt.Errorf("%w: a text of %d bytes", nodeerr.ErrProtocol, n)
	}
	if err := r.take(valueSize + int(n)); err != nil {
		return Value{}, err
	}
	text := r.room(int(n) + len("\r\n"))
	if _, err := io.ReadFull(r.in, text); err != nil {
		return Value{}, err
	}
	if string(text[n:]) != "\r\n" {
		return Value{}, r.protocolError(text)
	}
	text = text[:n]
	if kind == '=' && n >= 4 { // "txt:"
		text = text[4:]
	}
	return Value{Kind: kind, hidden: r.hides(text), Text: text}, nil
}

// maxPublished is the longest text that Redis can hold.
const maxPublished = 512 << 20

// array reads n values, or n pairs of a map.
func (r *Reader) array(kind byte, n int64, depth int) (Value, error) {
	if n == -1 && kind == '*' {
		return Value{Kind: '_'}, r.take(valueSize)
	}
	if n >= 0 && n <= MaxReply && kind == '%' {
		n *= 2
	}
	if n < 0 || n > MaxReply/valueSize || depth >= maxDepth || kind == '>' && depth > 0 {
		return Value{}, fmt.Errorf("%w: an array of %d values at depth %d", nodeerr.ErrProtocol, n, depth)
	}
	var items []Value
	if depth == 0 {
		r.push, items = kind == '>', r.items[:0]
	}
	for range n {
		item, err := r.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		items = append(items, item)
	}
	if depth == 0 {
		r.items = items
	}
	return Value{Kind: kind, Items: items}, r.take(valueSize)
}

// take counts n bytes of the present reply.
func (r *Reader) take(n int) error {
	if r.left -= n; r.left < 0 {
		return fmt.Errorf("%w: a reply of more than %d bytes", nodeerr.ErrProtocol, MaxReply)
	}
	return nil
}

// keep copies a text that is in the buffer.
func (r *Reader) keep(text []byte) []byte { return append(r.room(len(text))[:0], text...) }

// room returns n bytes of memory. Earlier results for the present reply stay valid.
func (r *Reader) room(n int) []byte {
	if n == 0 {
		return []byte{} // not nil, whether there is memory or not
	}
	start := len(r.texts)
	r.texts = slices.Grow(r.texts, n)[:start+n]
	return r.texts[start : start+n : start+n]
}

// hides reports whether no error may quote a text, because it repeats the beginning of the password. A server may cut
// off the text that it repeats.
func (r *Reader) hides(text []byte) bool { return len(r.secret) > 0 && bytes.Contains(text, r.secret) }

// protocolError returns the error of a reply that breaks the protocol. It quotes the reply, unless that may show the
// password.
func (r *Reader) protocolError(what []byte) error {
	if r.hides(what) {
		return fmt.Errorf("%w: %s", nodeerr.ErrProtocol, hiddenText)
	}
	return fmt.Errorf("%w: %.80q", nodeerr.ErrProtocol, what)
}

// AppendCommand appends a command in the form that servers accept, in RESP2 and RESP3 alike.
func AppendCommand(b []byte, words []string) []byte {
	b = appendHeader(b, '*', len(words))
	for _, word := range words {
		b = appendHeader(b, '$', len(word))
		b = append(b, word...)
		b = append(b, "\r\n"...)
	}
	return b
}

// appendHeader appends a kind and a number, as a line.
func appendHeader(b []byte, kind byte, n int) []byte {
	b = strconv.AppendInt(append(b, kind), int64(n), 10)
	return append(b, "\r\n"...)
}
