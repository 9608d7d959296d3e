package node_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// fake is a server that a test plays itself, behind a dialer. It works within synctest.
type fake struct {
	answer  func(c *peer, args []string) string
	serving sync.WaitGroup
	end     chan struct{} // closed when the test ends
	down    atomic.Bool   // nobody can connect
	secure  *tls.Config   // of a server that speaks TLS
	greets  func()        // what the server does before it reads anything from a connection
	raw     bool          // it is asked in the form in which commands come, and not as if nothing had to be proven
	gate    *gate         // that its connections are behind; nil: none
	fails   error         // what each read of the client fails with at the end of a connection, instead of io.EOF

	mu    sync.Mutex
	peers []*peer
	asked []string // the commands, each behind the number of its connection
}

// peer is the server's end of one connection.
type peer struct {
	net.Conn
	number   int // from 1
	resp3    bool
	tracking bool
}

// newFake makes a server that answers each command with the text that answer returns. After "" a connection
// is silent for good: answers come in order. A nil answer is likeRedis.
func newFake(t testing.TB, answer func(c *peer, args []string) string) *fake {
	if answer == nil {
		answer = likeRedis
	}
	f := &fake{answer: answer, end: make(chan struct{})}
	t.Cleanup(func() {
		close(f.end)
		f.mu.Lock()
		for _, c := range f.peers {
			_ = c.Close()
		}
		f.mu.Unlock()
		f.serving.Wait()
	})
	return f
}

// open makes a node of the fake.
func (f *fake) open(t testing.TB, opts ...option) *node.Node {
	return open(t, "fake", append([]option{withDialer(f.dial)}, opts...)...)
}

// openUnowned makes a node of the fake that the test has to close itself.
func (f *fake) openUnowned(opts ...option) *node.Node {
	return newNode("fake", append([]option{withDialer(f.dial)}, opts...)...)
}

// pool makes a redigo pool whose connections the fake serves.
func (f *fake) pool() *redis.Pool {
	return &redis.Pool{
		MaxIdle:     8,
		DialContext: func(context.Context) (redis.Conn, error) { return redis.NewConn(f.connect(), 0, 0), nil },
	}
}

// transports are the ways to make a node of the fake. Each has code of its own for what goes over the connection.
var transports = map[string]func(*fake, testing.TB, ...option) *node.Node{
	"connects": (*fake).open,
	"wrapped":  func(f *fake, t testing.TB, opts ...option) *node.Node { return wrap(t, f.pool(), opts...) },
}

// connect returns the client's end of a new connection that the fake serves.
func (f *fake) connect() net.Conn {
	ours, theirs := net.Pipe()
	f.mu.Lock()
	if f.secure != nil {
		ours = tls.Server(ours, f.secure)
	}
	c := &peer{Conn: ours, number: len(f.peers) + 1}
	f.peers = append(f.peers, c)
	f.mu.Unlock()
	f.serving.Go(func() { f.serve(c) })
	switch {
	case f.fails != nil:
		return failingConn{theirs, f.fails}
	case f.gate != nil:
		return gatedConn{theirs, f.gate}
	}
	return theirs
}

// failingConn fails with an error of its own.
type failingConn struct {
	net.Conn
	with error
}

func (c failingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		err = c.with
	}
	return n, err
}

var errDown = errors.New("the network is down")

func (f *fake) dial(context.Context, string, string) (net.Conn, error) {
	if f.down.Load() {
		return nil, errDown
	}
	return f.connect(), nil
}

// breakNetwork cuts the latest connection and lets no new one come about.
func (f *fake) breakNetwork() {
	f.down.Store(true)
	_ = f.peer(f.connections()).Close()
}

// connections returns how many there have been.
func (f *fake) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.peers)
}

// peer returns the server's end of a connection, numbered from 1.
func (f *fake) peer(number int) *peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peers[number-1]
}

// send writes a text to a connection, which nobody may have asked for.
func (f *fake) send(t testing.TB, number int, text string) {
	t.Helper()
	_, err := io.WriteString(f.peer(number), text)
	require.NoError(t, err)
}

// count returns how many of the commands contain the text. Each begins with the number of its connection.
func (f *fake) count(text string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cmd := range f.asked {
		if strings.Contains(cmd, text) {
			n++
		}
	}
	return n
}

// lastAsked returns the latest command.
func (f *fake) lastAsked() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[len(f.asked)-1]
}

func (f *fake) serve(c *peer) {
	defer c.Close()
	if f.greets != nil {
		f.greets()
	}
	_ = testredis.Answer(c, func(args []string) (reply string, more bool) {
		if !f.raw {
			args = testredis.Proven(args)
		}
		f.mu.Lock()
		f.asked = append(f.asked, fmt.Sprint(c.number, " ", strings.Join(args, " ")))
		f.mu.Unlock()
		return f.answer(c, args), true
	})
}

// likeRedis answers as Redis does if no key is in the way.
func likeRedis(c *peer, args []string) string {
	switch strings.Join(args[:min(2, len(args))], " ") {
	case "HELLO 3":
		c.resp3 = true
		return "%1\r\n+proto\r\n:3\r\n"
	case "INFO server", "INFO replication":
		return testredis.Bulk("# Server\r\nrun_id:fake\r\n")
	case "CLIENT ID":
		return fmt.Sprintf(":%d\r\n", c.number)
	case "CLIENT KILL":
		return ":1\r\n"
	case "CLIENT TRACKING":
		c.tracking = true
	case "CLIENT CACHING":
		if !c.tracking {
			return "-ERR CLIENT CACHING can be called only when the client is in tracking mode\r\n"
		}
	}
	if args[0] == "EVAL" && args[1] == form.Scripts["observe"].Source {
		return "*2\r\n" + testredis.Bulk("token") + ":60000\r\n"
	}
	if all := form.Scripts["fenced_all_acquire"]; isScript(args) && (args[1] == all.Source || args[1] == all.Hash) {
		return "*2\r\n:1\r\n:2\r\n"
	}
	switch args[0] {
	case "SET", "AUTH", "SELECT", "CLIENT":
		return "+OK\r\n"
	case "PUBLISH":
		return ":1\r\n"
	case "EVALSHA", "EVAL":
		return ":1\r\n"
	case "PING":
		return "+PONG\r\n"
	case "SUBSCRIBE", "UNSUBSCRIBE":
		if c.resp3 {
			return push(strings.ToLower(args[0]), args[1]) + ":1\r\n"
		}
	}
	return "-ERR unknown command\r\n"
}

// push begins a push of three values with two texts.
func push(kind, channel string) string {
	return ">3\r\n" + testredis.Bulk(kind) + testredis.Bulk(channel)
}

// invalidation is the push for changes to keys.
func invalidation(keys ...string) string {
	text := fmt.Sprintf(">2\r\n%s*%d\r\n", testredis.Bulk("invalidate"), len(keys))
	for _, key := range keys {
		text += testredis.Bulk(key)
	}
	return text
}

// isScript reports whether a script is run, by its source or by its hash.
func isScript(args []string) bool { return strings.HasPrefix(args[0], "EVAL") }

// answering returns what answers the commands that begin so with a given text, and the rest like Redis.
func answering(command, text string) func(*peer, []string) string {
	return func(c *peer, args []string) string {
		if strings.HasPrefix(strings.Join(args, " "), command) {
			return text
		}
		return likeRedis(c, args)
	}
}

// barring makes a fake that refuses the commands that begin so, until permit is called.
func barring(t *testing.T, command string) (f *fake, permit func()) {
	t.Helper()
	var permitted atomic.Bool
	refuse := answering(command, "-NOPERM this user has no permissions\r\n")
	f = newFake(t, func(c *peer, args []string) string {
		if permitted.Load() {
			return likeRedis(c, args)
		}
		return refuse(c, args)
	})
	return f, func() { permitted.Store(true) }
}

// atFirst has only the first connection answered in a way, and the later ones as Redis does.
func atFirst(answer func(*peer, []string) string) func(*peer, []string) string {
	return func(c *peer, args []string) string {
		if c.number == 1 {
			return answer(c, args)
		}
		return likeRedis(c, args)
	}
}

// silentOn makes a fake that does not answer one command.
func silentOn(t testing.TB, command string) *fake { return newFake(t, answering(command, "")) }

// stuckOn makes a fake that reads nothing more once it has read one command.
func stuckOn(t testing.TB, command string) (f *fake) {
	f = newFake(t, func(c *peer, args []string) string {
		if args[0] == command {
			<-f.end
		}
		return likeRedis(c, args)
	})
	return f
}

// failing is a dialer that fails.
func failing(err error) dialer {
	return func(context.Context, string, string) (net.Conn, error) { return nil, err }
}

func hangingDial(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// hanging are nodes whose attempts to connect hang, by what they hang in.
var hanging = map[string]func(t testing.TB, opts ...option) *node.Node{
	"credentials": func(t testing.TB, opts ...option) *node.Node {
		return newFake(t, nil).open(t, append(opts, withCredentials(func(ctx context.Context) (string, string, error) {
			<-ctx.Done()
			return "", "", ctx.Err()
		}))...)
	},
	"dial": dialing(hangingDial),
	"dial of package net": dialing(func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
	}),
	"TLS":                          dialing(unread, withTLS(&tls.Config{ServerName: "host"})),
	"AUTH":                         silent("AUTH", withLogin("", "pw")),
	"SELECT":                       silent("SELECT", withDatabase(1)),
	"SETNAME":                      silent("CLIENT SETNAME", withClientName("name")),
	"greeting":                     silent("INFO"),
	"identity":                     silent("CLIENT"),
	"a greeting that nobody reads": dialing(unread),
	"greeting of a wrapped pool": func(t testing.TB, opts ...option) *node.Node {
		return wrap(t, silentOn(t, "INFO").pool(), opts...)
	},
	"turn at a wrapped pool": func(t testing.TB, opts ...option) *node.Node {
		redisPool := newFake(t, nil).pool()
		redisPool.MaxActive, redisPool.Wait = 1, true
		busy := redisPool.Get()
		t.Cleanup(func() { require.NoError(t, busy.Close()) })
		return wrap(t, redisPool, opts...)
	},
}

// dialing opens a node that dials in a way.
func dialing(dial dialer, more ...option) func(t testing.TB, opts ...option) *node.Node {
	return func(t testing.TB, opts ...option) *node.Node {
		return open(t, "host", append(opts, append(more, withDialer(dial))...)...)
	}
}

// unread is a connection to a server that reads nothing.
func unread(context.Context, string, string) (net.Conn, error) {
	_, theirs := net.Pipe()
	return theirs, nil
}

// silent opens a node of a server that does not answer one command.
func silent(command string, more ...option) func(t testing.TB, opts ...option) *node.Node {
	return func(t testing.TB, opts ...option) *node.Node {
		return silentOn(t, command).open(t, append(opts, more...)...)
	}
}
