package pool_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lua"
	"github.com/quorumlock/quorumlock/pool"
)

// fake is a server that a test plays itself, behind a dialer. It works within synctest.
type fake struct {
	answer  func(c *peer, args []string) string
	serving sync.WaitGroup
	end     chan struct{} // closed when the test ends

	mu    sync.Mutex
	peers []*peer
}

// peer is the server's end of one connection.
type peer struct {
	net.Conn
	number int // from 1
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
func (f *fake) open(t testing.TB, opts ...pool.Option) *pool.Node {
	return open(t, "redis://fake", append([]pool.Option{pool.WithDialer(f.dial)}, opts...)...)
}

// wires are the ways to make a node of the fake. Each has code of its own for what goes over the connection.
var wires = map[string]func(*fake, testing.TB, ...pool.Option) *pool.Node{
	"opened": (*fake).open,
	"wrapped": func(f *fake, t testing.TB, opts ...pool.Option) *pool.Node {
		return wrap(t, wrappable(f), opts...)
	},
}

// connect gives the client's end of a new connection that the fake serves.
func (f *fake) connect() net.Conn {
	ours, theirs := net.Pipe()
	f.mu.Lock()
	c := &peer{Conn: ours, number: len(f.peers) + 1}
	f.peers = append(f.peers, c)
	f.mu.Unlock()
	f.serving.Go(func() { f.serve(c) })
	return theirs
}

func (f *fake) dial(context.Context, string, string) (net.Conn, error) { return f.connect(), nil }

// connections says how many there have been.
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

func (f *fake) serve(c *peer) {
	defer c.Close()
	commands := redis.NewConn(c, 0, 0) // a command looks like an array reply
	for silent := false; ; {
		args, err := redis.Strings(commands.Receive())
		if err != nil {
			return
		}
		if reply := f.answer(c, args); reply == "" {
			silent = true
		} else if !silent {
			if _, err := c.Write([]byte(reply)); err != nil {
				return
			}
		}
	}
}

// likeRedis answers as Redis does where no key is in the way.
func likeRedis(c *peer, args []string) string {
	switch strings.Join(args[:min(2, len(args))], " ") {
	case "INFO server":
		return bulk("# Server\r\nrun_id:fake\r\n")
	case "CLIENT ID":
		return fmt.Sprintf(":%d\r\n", c.number)
	case "CLIENT KILL":
		return ":1\r\n"
	}
	if args[0] == "EVAL" && args[1] == lua.Look().Source {
		return "*2\r\n" + bulk("token") + ":60000\r\n"
	}
	switch args[0] {
	case "SET", "AUTH", "SELECT", "CLIENT":
		return "+OK\r\n"
	case "PUBLISH":
		return ":0\r\n"
	case "EVALSHA", "EVAL":
		return ":1\r\n"
	case "PING":
		return "+PONG\r\n"
	}
	return "-ERR unknown command\r\n"
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// isScript says whether a script is run, by its source or by its hash.
func isScript(args []string) bool { return strings.HasPrefix(args[0], "EVAL") }

// answering returns what answers the commands that begin so with a given text, and the rest like Redis.
func answering(command, text string) func(*peer, []string) string {
	return func(c *peer, args []string) string {
		if strings.HasPrefix(args[0], command) {
			return text
		}
		return likeRedis(c, args)
	}
}

func TestTheFakeIsTakenForRedis(t *testing.T) {
	f := newFake(t, nil)
	node := f.open(t, patient())
	requireYes(t, node, pool.Acquire("key", "token", ttl))
	requireYes(t, node, pool.Release("key", "token", ttl))
	require.Equal(t, 1, f.connections())
}
