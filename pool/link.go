package pool

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// link is one connection to the server, from greeting to break.
type link struct {
	conn    redis.Conn
	server  string         // run_id of the server, "" where it does not tell
	client  int64          // the server's number for this connection, 0 where it does not tell
	batch   []op           // scratch of whoever writes
	taught  []string       // scripts whose source has been sent; for whoever writes
	served  bool           // an answer has come; for the reader, then for the keeper
	cutting sync.WaitGroup // calls of cut: the connection is not returned to its pool under them
	doomed  bool           // it is being cut, as its oldest answer was overdue for too long
	limbo   []op           // restores that were not answered when the link broke
	fenced  bool           // the link before has been ended on the server
	broken  chan struct{}  // closed when the reader has ended
	err     error          // why the connection broke, once broken is closed; nil if it did not, or was cut
}

// write sends the batch. Its errors are not looked at: redigo closes the
// connection on the first, and the reader sees that.
func (l *link) write() {
	for _, o := range l.batch {
		if o.evaluate || l.teaches(o.cmd) {
			_ = l.conn.Send("EVAL", o.cmd.source()...)
		} else {
			_ = l.conn.Send(o.cmd.name, o.cmd.args...)
		}
	}
	_ = l.conn.Flush()
	clear(l.batch)
}

// teaches says whether cmd is the first on this link to run its script. It carries
// the source then, and the server knows the hash from there on. A hash that it does
// not know costs more than a round trip: the command is carried out behind others
// that it was sent before.
func (l *link) teaches(cmd *Command) bool {
	if cmd.text == "" || slices.Contains(l.taught, cmd.text) {
		return false
	}
	l.taught = append(l.taught, cmd.text)
	return true
}

// settle answers what is in limbo: ended says that the server will not read anything
// more from this link. A nil link has nothing in limbo.
func (l *link) settle(ended bool) {
	if l == nil {
		return
	}
	reply := Reply{Answer: Maybe, Err: ErrBroken}
	if ended {
		reply.Answer = No
	}
	for _, o := range l.limbo {
		notice{o, reply}.deliver()
	}
	l.limbo = nil
}

// over says whether the reader has ended.
func (l *link) over() bool {
	select {
	case <-l.broken:
		return true
	default:
		return false
	}
}

// cut breaks the connection under its reader and writer. A receive whose deadline
// is over before it began makes redigo close the network connection, and touches
// nothing else: the one way that its public API has to do so from outside.
func (l *link) cut() {
	over, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	_, _ = redis.ReceiveContext(l.conn, over)
}

// read hands each reply to the node until the connection breaks, or until the
// node is closed and has nothing under way.
func (l *link) read(n *Node) {
	defer close(l.broken)
	for {
		value, err := redis.ReceiveWithTimeout(l.conn, 0)
		if isFatal(err) {
			if !errors.Is(err, net.ErrClosed) {
				l.err = asError(err)
			}
			return
		}
		if !n.answered(l, value, err) {
			return
		}
	}
}
