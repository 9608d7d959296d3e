package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// conn is one connection to the server, from greeting to break.
type conn struct {
	transport
	server wire.Identity // without what the server does not report
	client int64         // the server's number for this connection; 0 if it does not report it
	resp3  bool          // pushes can come

	// Of the goroutine that writes.
	requests []pending       // taken from the queue
	words    []string        // of a message
	joined   []*wire.Command // that a message carries out

	// Under the node's mutex.
	taught   []*wire.Script  // whose source was sent
	sources  bool            // scripts go by their sources, since the server accepts no hash
	proven   wire.Proven     // what may be done
	apart    bool            // commands are not joined, since the server does not accept that
	unasked  bool            // something of this could not be asked for: it is as soon as the server answers
	asked    bool            // CLIENT TRACKING was sent: what is observed behind it may be tracked
	tracking bool            // and confirmed since the last listener came
	watched  bool            // a change of the server's stamp is pushed
	refused  bool            // or refused
	endLook  func()          // nil if none is under way
	channels map[string]bool // that were subscribed to; true if confirmed

	// Of the goroutine that reads.
	answers []answer // to be handed out
	use     wire.Use

	broken atomic.Bool // the reader has ended
	err    error       // why the connection broke, once it has; nil if it was cut
}

// transport carries the words of commands to the server, and its values back. One goroutine puts and flushes,
// another reads. After an error of either nothing more can be done with it.
type transport interface {
	Put(words []string)
	Flush() error // fails if a Put before did
	// Read returns the next reply or push. It is valid until the next Read.
	Read() (wire.Value, error)
	// Ready reports that the next Read returns a reply without waiting for the server. It may miss one.
	Ready() bool
	// Cut breaks the connection under its reader and writer, from any goroutine. It does nothing after Close.
	Cut()
	// Close gives the connection up, when nobody reads or writes.
	Close()
}

// teaches reports whether a script goes by its source: it is run for the first time on this connection, and the server
// knows the hash from there on. A hash that it does not know costs more than a round trip: the command is carried out
// behind others that were sent after it.
func (c *conn) teaches(script *wire.Script) bool {
	switch {
	case script == nil:
		return false
	case c.sources:
		return true
	case slices.Contains(c.taught, script):
		return false
	}
	c.taught = append(c.taught, script)
	return true
}

var (
	errUnasked = fmt.Errorf("%w: it came unasked", nodeerr.ErrProtocol)
	errLast    = errors.New("nothing more is to come")
)

// readAll hands each reply and push to the node until the connection breaks, or until the node is closed and has
// nothing under way. What comes unasked ends the connection.
func (c *conn) readAll(n *Node) {
	defer n.wakeLoop()
	defer c.broken.Store(true)
	var v wire.Value // one for all replies, since what handles them keeps its address
	var err error
	for err == nil {
		v, err = c.Read()
		switch {
		case err != nil:
		case v.Kind == '>':
			err = n.pushed(c, &v)
		default:
			err = n.answered(c, &v)
		}
	}
	if errors.Is(err, errLast) {
		return
	}
	if !errors.Is(err, net.ErrClosed) {
		c.err = AsError(err)
	}
	c.Cut() // a write under way ends with it
}

// RESPConn is the transport over a connection that was dialled.
type RESPConn struct {
	*wire.Reader
	conn   net.Conn // TLS included
	socket net.Conn // under it
	out    []byte
}

// Dial connects to a server. The commands of login are not sent yet.
func Dial(ctx context.Context, s Server) (_ *RESPConn, login [][]string, err error) {
	if s.Credentials != nil {
		if s.Username, s.Password, err = s.Credentials(ctx, s.Address); err != nil {
			return nil, nil, fmt.Errorf("credentials: %w", err)
		}
	}
	socket, err := s.Dial(ctx, s.Network, s.Address)
	if err != nil {
		return nil, nil, &wire.DialError{Err: AsError(err)}
	}
	conn := socket
	if s.TLS != nil {
		secure := tls.Client(socket, s.TLS)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = socket.Close()
			return nil, nil, &wire.HandshakeError{Err: AsError(err)}
		}
		conn = secure
	}
	return &RESPConn{Reader: wire.NewReader(conn, s.Password), conn: conn, socket: socket}, s.login(), nil
}

// Put adds a command to what Flush writes.
func (c *RESPConn) Put(words []string) { c.out = wire.AppendCommand(c.out, words) }

// Flush writes what was put.
func (c *RESPConn) Flush() error {
	_, err := c.conn.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > wire.MaxKept {
		c.out = nil
	}
	if err != nil {
		c.Cut() // the reader notices
	}
	return err
}

// Cut closes the socket itself, since the goodbye of TLS could take long.
func (c *RESPConn) Cut() { _ = c.socket.Close() }

// Close closes it too.
func (c *RESPConn) Close() { c.Cut() }
