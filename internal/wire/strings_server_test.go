package wire_test

import (
	"context"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// server notes what it is sent. A lock of another process is in the way of every acquire.
type server struct {
	serving sync.WaitGroup

	mu   sync.Mutex
	sent []string // each command once
}

// dial connects to the server.
func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	s.serving.Go(func() {
		defer ours.Close()
		_ = testredis.Answer(ours, func(words []string) (reply string, more bool) {
			reply = answer(words)
			s.note(text(words))
			return reply, true
		})
	})
	return theirs, nil
}

func (s *server) note(command string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.sent, command) {
		s.sent = append(s.sent, command)
	}
}

// asked returns what begins with one of some words.
func (s *server) asked(names ...string) (commands []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, command := range s.sent {
		if name, _, _ := strings.Cut(command, " "); slices.Contains(names, name) {
			commands = append(commands, command)
		}
	}
	return commands
}

// answer answers a command. What is about the key silent has no answer.
func answer(words []string) string {
	subscribed := func(kind string) string { return ">3\r\n" + testredis.Bulk(kind) + testredis.Bulk(words[1]) + ":1\r\n" }
	switch strings.Join(words[:min(2, len(words))], " ") {
	case "HELLO 3":
		return "%1\r\n+proto\r\n:3\r\n"
	case "INFO server", "INFO replication":
		return testredis.Bulk("run_id:server")
	case "CLIENT ID", "CLIENT KILL":
		return ":1\r\n"
	}
	switch words[0] {
	case "EVAL", "EVALSHA":
		switch {
		case slices.Contains(words, form.Scripts["first_acquire"].Source), slices.Contains(words, form.Scripts["first_acquire"].Hash):
			return "_\r\n"
		case slices.Contains(words, "silent"):
			return ""
		case slices.Contains(words, form.Scripts["release"].Source), slices.Contains(words, form.Scripts["release"].Hash):
			return ":-1\r\n"
		}
		return "*2\r\n" + testredis.Bulk(lockID.Token) + ":60000\r\n"
	case "SUBSCRIBE", "UNSUBSCRIBE":
		return subscribed(strings.ToLower(words[0]))
	case "PUBLISH":
		return ":1\r\n"
	case "PING":
		return "+PONG\r\n"
	}
	return "+OK\r\n"
}

// open makes a node of the server.
func (s *server) open(c node.Server) *node.Node {
	c.Dial = s.dial
	return node.New(node.Config{Addr: "server", Server: &c, Timeout: time.Second, DialTimeout: time.Second, MaxOverdue: time.Second})
}

// greetings returns what a node sends of its own when it connects, connects again, and closes.
func greetings(t *testing.T) (commands []string) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		n := s.open(node.Server{Username: "user", Password: "password", ClientName: "name", Database: 2})
		for range 2 {
			require.NoError(t, n.Send(time.Now(), form.Exclusive{}.Observe("silent"), nil, wire.Tag{}))
			<-time.After(time.Minute) // it is overdue, and the connection is cut
		}
		require.NoError(t, n.Send(time.Now(), form.Exclusive{}.Observe("key"), nil, wire.Tag{}))
		require.NoError(t, n.Close())
		s.serving.Wait()
		commands = s.asked("AUTH", "HELLO", "CLIENT", "SELECT", "INFO", "PING")
	})
	return commands
}

// waits returns what a call of Lock sends while another process has the lock.
func waits(t *testing.T) (commands []string) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		nodes, err := pool.Open([]string{"redis://server"}, pool.WithDialer(s.dial))
		require.NoError(t, err)
		locker, err := redlock.New(nodes)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = locker.Lock(ctx, "name", redlock.TTL(5*time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, locker.Close())
		require.NoError(t, nodes[0].Close())
		s.serving.Wait()
		commands = s.asked("SET", "EVAL", "CLIENT", "SUBSCRIBE", "UNSUBSCRIBE", "PUBLISH")
	})
	self := regexp.MustCompile(`(?m)^SUBSCRIBE .*(.{8})$`).FindStringSubmatch(strings.Join(commands, "\n"))[1]
	drawn := regexp.MustCompile(self + `\.[A-Za-z0-9_-]{28}`)
	for i := range commands {
		commands[i] = strings.ReplaceAll(drawn.ReplaceAllString(commands[i], "<own token>"), self, "<self>")
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// messages returns what processes publish for each other beside that to the holder of a lock.
func messages(t *testing.T) (commands []string) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		g := engine.New(engine.Config{Nodes: []*engine.Node{s.open(node.Server{})}, Own: true, Clock: clock.System()})
		g.Message(0, lock.Yours+"\nkey\nNEXTAAAA 300\nBEHINDAA 700\nBEHINDBB 0") // nobody waits here, and it goes on
		g.Oppose("HOLDERAA", "key", "other")
		synctest.Wait()
		g.Close()
		<-g.Ended()
		s.serving.Wait()
		commands = s.asked("PUBLISH")
	})
	return commands
}
