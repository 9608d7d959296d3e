package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// conn is one connection to the server, from its greeting to its end.
type conn struct {
	transport
	server wire.Identity // fields that the server does not report are empty
	client int64         // the server's number for this connection, or 0 if the server does not report it
	resp3  bool          // the server can push
	alone  bool          // it grants locks without replicas
	tag    string        // what the keys and channels on the server begin with: the Tag of the Server, or ""

	// These belong to the goroutine that writes.
	requests []pending       // the commands that were taken from the queue
	words    []string        // the words of a message
	joined   []*wire.Command // the commands that a message joins

	// The node's mutex protects these.
	taught   []*wire.Script  // the scripts whose source was sent
	sources  bool            // scripts are sent by their sources, since the server accepts no hash
	proven   wire.Proven     // the proofs that were granted on this connection
	apart    bool            // commands are not joined, since the server does not accept that
	unasked  bool            // a request for tracking or a channel was not sent; it is repeated after the next reply
	asked    bool            // CLIENT TRACKING was sent: the server may track the keys that are observed after it
	tracking bool            // CLIENT TRACKING was confirmed since the last listener came
	watched  bool            // the server pushes a change of its stamp
	refused  bool            // the last CLIENT TRACKING was refused
	overdue  bool            // an answer was overdue for so long that the connection was cut
	endLook  func()          // ends the look that is under way; nil if there is none
	channels map[string]bool // the channels that listeners want; true if the server has confirmed the subscription

	attends    map[string]attendance // the channels that the node attends, or is about to leave
	barred     []string              // the commands about these channels that the server has refused since the last test
	unattended bool                  // a request about such a channel was not sent; it is repeated after a reply

	// These belong to the goroutine that reads.
	answers []answer // answers that were not handed out yet
	use     wire.Use

	broken atomic.Bool // the reader has ended
	err    error       // why the connection broke, if broken; nil if the node cut it
}

// transport carries commands to the server, and replies and pushes back. One goroutine calls Put and Flush, another
// calls Read. After an error of Flush or Read the transport is useless.
type transport interface {
	// Address returns where it leads, or "" if that is not known.
	Address() string
	Put(words []string)
	Flush() error // fails also if a Put before it failed
	// Read returns the next reply or push. It is valid until the next Read.
	Read() (wire.Value, error)
	// Ready reports that the next Read returns a reply without waiting for the server. It may return false although a
	// reply has arrived.
	Ready() bool
	// Cut breaks the connection under its reader and writer. Any goroutine may call it. It does nothing after Close.
	Cut()
	// Close gives the connection up. No goroutine may read or write then.
	Close()
}

// teaches reports whether a script is sent by its source, because it runs for the first time on this connection, and
// records it. Afterwards the server knows the hash. A hash that the server does not know would cost more than a round
// trip. The command would be carried out behind others that were sent after it.
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
	// errNoConnection is the error of a dialer, which may be a function of the program.
	errNoConnection = errors.New("nodeerr: the dialer returned no connection and no error")
)

// readAll hands each reply and push to the node. It ends when the connection breaks, or when the node is closed and has
// nothing under way. A reply or push that nobody asked for ends the connection.
func (c *conn) readAll(n *Node) {
	defer n.wakeLoop()
	defer c.broken.Store(true)
	var v wire.Value // one variable for all replies, because the functions that handle replies keep its address
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
	c.Cut() // a write that is under way ends too
}

// RESPConn is the transport over a connection that Dial made.
type RESPConn struct {
	*wire.Reader
	conn    net.Conn // includes TLS
	socket  net.Conn // the connection below TLS
	address string
	out     []byte
	failed  error // of a write; nothing is written after it
}

// Address returns where the connection leads.
func (c *RESPConn) Address() string { return c.address }

// Dial finds a server and connects to it. It returns the commands of the login, and does not send them.
func Dial(ctx context.Context, s Server) (_ *RESPConn, login [][]string, err error) {
	if s.Finder != nil {
		if s.Address, err = s.Finder.Find(ctx); err != nil {
			return nil, nil, err
		}
	}
	if s.Credentials != nil {
		if s.Username, s.Password, err = s.Credentials(ctx, s.Address); err != nil {
			return nil, nil, fmt.Errorf("credentials: %w", err)
		}
	}
	socket, err := s.Dial(ctx, s.Network, s.Address)
	if socket == nil && err == nil {
		err = errNoConnection
	}
	if err != nil {
		return nil, nil, &wire.DialError{Err: AsError(err)}
	}
	conn := socket
	if s.TLS != nil {
		secure := tls.Client(socket, s.tls())
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = socket.Close()
			return nil, nil, &wire.HandshakeError{Err: AsError(err)}
		}
		conn = secure
	}
	reader := wire.NewReader(conn, s.Password)
	return &RESPConn{Reader: reader, conn: conn, socket: socket, address: s.Address}, s.login(), nil
}

// tls returns the TLS configuration of a connection, with the name that the certificate has to have.
func (s *Server) tls() *tls.Config {
	if s.TLS.ServerName != "" {
		return s.TLS
	}
	config := s.TLS.Clone()
	config.ServerName, _, _ = net.SplitHostPort(s.Address)
	return config
}

// Put adds a command to the next Flush.
func (c *RESPConn) Put(words []string) { c.out = wire.AppendCommand(c.out, words) }

// Flush writes the commands that were put. If the server has ended the connection, Read returns the
// last replies, or the alert of TLS, and then fails.
func (c *RESPConn) Flush() error {
	err, hungUp := c.failed, false
	if err == nil {
		_, err = c.conn.Write(c.out)
		c.failed, hungUp = err, errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	}
	if c.out = c.out[:0]; cap(c.out) > wire.MaxKept {
		c.out = nil
	}
	if err == nil || hungUp {
		return nil
	}
	c.Cut() // the reader notices this
	return err
}

// Cut closes the socket below TLS, because a proper end of TLS could take long.
func (c *RESPConn) Cut() { _ = c.socket.Close() }

// Close closes the socket too.
func (c *RESPConn) Close() { c.Cut() }
