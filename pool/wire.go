package pool

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// wire is a connection that is ready for commands. One goroutine writes, another
// reads.
type wire interface {
	// write sends messages, in order. After an error read fails as well.
	write(batch []message) error
	// read returns the next reply: nil, a string, an int64, []byte, or []any, which is good until the next read; a
	// redis.Error is the server's error reply, any other error the end of the wire.
	read() (any, error)
	// cut breaks the connection under whoever reads and writes; from any goroutine.
	cut()
}

// redigoWire is a connection of which only redigo's side is known, as it comes from
// a wrapped pool.
type redigoWire struct {
	conn  redis.Conn
	words []string // scratch of write
	args  []any    // likewise
}

func (w *redigoWire) write(batch []message) error {
	for _, m := range batch {
		w.words = m.words(w.words[:0])
		w.args = w.args[:0]
		for _, word := range w.words[1:] {
			w.args = append(w.args, word)
		}
		if err := w.conn.Send(w.words[0], w.args...); err != nil {
			return err
		}
	}
	return w.conn.Flush()
}

func (w *redigoWire) read() (any, error) { return redis.ReceiveWithTimeout(w.conn, 0) }

// cut makes a receive whose deadline is over before it began: redigo closes the
// network connection then, and touches nothing else. It is the one way that its public
// API has to do so from outside.
func (w *redigoWire) cut() {
	over, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	_, _ = redis.ReceiveContext(w.conn, over)
}
