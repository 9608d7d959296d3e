package pool

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/lua"
)

// link is one connection to the server, from greeting to break.
type link struct {
	conn    redis.Conn     // as redigo knows it
	wire    wire           // over it, once it is greeted
	server  string         // run_id of the server, "" where it does not tell
	client  int64          // the server's number for this connection, 0 where it does not tell
	taken   []taken        // for batch
	batch   []message      // written at a time
	taught  []*lua.Script  // scripts whose source has been sent
	apart   bool           // commands are not joined, as the server does not take them so
	written uint64         // messages
	replies uint64         // to them
	joined  []joined       // messages of several commands that were not replied to
	answers []answer       // to one message; for the reader
	served  bool           // an answer has come; for the reader, then for the keeper
	cached  bool           // the last answer was OK, to a caching; for the reader
	tracks  bool           // tracking has been asked for; under the node's mutex
	cutting sync.WaitGroup // calls of cut: the connection is not returned to its pool under them
	fenced  bool           // the link before has been ended on the server
	up      time.Duration  // how long the server had been up when it was greeted, at least; below zero: it does not tell
	broken  chan struct{}  // closed when the reader has ended
	err     error          // why the connection broke, once broken is closed; nil if it did not, or was cut
}

// teaches says whether the script is run for the first time on this link. It is sent with
// the source then, and the server knows the hash from there on. A hash that it does
// not know costs more than a round trip: the command is carried out behind others
// that it was sent before.
func (l *link) teaches(script *lua.Script) bool {
	if script == nil || slices.Contains(l.taught, script) {
		return false
	}
	l.taught = append(l.taught, script)
	return true
}

// cutWith cuts the link when ctx ends, unless stop is called before. A cut under way when
// stop is called is in cutting.
func (l *link) cutWith(ctx context.Context) (stop func()) {
	l.cutting.Add(1)
	off := context.AfterFunc(ctx, func() {
		l.wire.cut()
		l.cutting.Done()
	})
	return func() {
		if off() {
			l.cutting.Done()
		}
	}
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

// read hands each reply to the node until the connection breaks, or until the
// node is closed and has nothing under way.
func (l *link) read(n *Node) {
	defer n.rouse() // the keeper has to do with its end
	defer close(l.broken)
	for {
		value, err := l.wire.read()
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
