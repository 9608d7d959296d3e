package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// hostileAttacks are what a hostile server sends: a text, and another again and again. With neither it hangs up.
var hostileAttacks = map[string][2]string{
	"announces an array of 10^11":        {"*99999999999\r\n", "x"},
	"announces a text of 10^14 bytes":    {"$99999999999999\r\n", "x"},
	"announces a map of 10^11":           {"%99999999999\r\n", "x"},
	"announces a push of 10^11":          {">99999999999\r\n", "x"},
	"announces a set of 10^11":           {"~99999999999\r\n", "x"},
	"announces a verbatim text of 10^14": {"=99999999999999\r\n", "x"},
	"nests arrays for ever":              {"", "*1\r\n"},
	"nests pushes for ever":              {"", ">1\r\n"},
	"sends a line without an end":        {"", "+x"},
	"sends an error without an end":      {"-ERR ", "x"},
	"sends 10^9 small numbers":           {"*1000000000\r\n", ":1\r\n"},
	"sends small arrays for ever":        {"", "*2\r\n:1\r\n:1\r\n"},
	"says null for ever":                 {"", "_\r\n"},
	"says no for ever":                   {"", "-ERR no\r\n"},
	"pushes invalidations for ever":      {"", ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n"},
	"pushes messages for ever":           {"", ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n"},
	"is silent":                          {"", silence},
	"sends one byte now and then":        {"", oneByte},
	"closes at once":                     {"", ""},
}

const (
	silence = "silence"
	oneByte = "one byte"
)

// hostileServer attacks whoever connects: at once, in the middle of the greeting, or when a lock is asked for.
type hostileServer struct {
	stage  string
	attack [2]string
	l      net.Listener
	end    chan struct{}

	mu      sync.Mutex
	conns   []net.Conn
	serving sync.WaitGroup
}

func newHostileServer(t testing.TB, stage string, attack [2]string) (url string) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &hostileServer{stage: stage, attack: attack, l: l, end: make(chan struct{})}
	s.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.serving.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		close(s.end)
		_ = l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.serving.Wait()
	})
	return "redis://" + l.Addr().String()
}

func (s *hostileServer) serve(c net.Conn) {
	defer c.Close()
	commands := redis.NewConn(c, 0, 0) // a command looks like an array reply
	for s.stage != "before the greeting" {
		args, err := redis.Strings(commands.Receive())
		if err != nil {
			return
		}
		reply := "+OK\r\n"
		switch args[0] {
		case "HELLO":
			reply = "%1\r\n+proto\r\n:3\r\n"
		case "CLIENT":
			if args[1] == "ID" {
				reply = ":1\r\n"
			}
		case "INFO":
			reply = "$13\r\nrun_id:evil\r\n\r\n"
			if s.stage == "during the greeting" {
				reply = ""
			}
		case "SET", "EVAL", "EVALSHA":
			reply = ""
		}
		if reply == "" {
			break
		}
		if _, err := io.WriteString(c, reply); err != nil {
			return
		}
	}
	go func() { _, _ = io.Copy(io.Discard, c) }() // what is asked is of no interest
	s.strike(c)
}

func (s *hostileServer) strike(c net.Conn) {
	once, again := s.attack[0], s.attack[1]
	_, err := io.WriteString(c, once)
	switch again {
	case "":
	case silence:
		<-s.end
	case oneByte:
		for err == nil {
			select {
			case <-s.end:
				return
			case <-time.After(20 * time.Millisecond):
				_, err = io.WriteString(c, "+")
			}
		}
	default:
		// Some megabytes per second; as fast as it can go, it would be the test's own processor that is attacked.
		chunk := strings.Repeat(again, 1+4096/len(again))
		for err == nil {
			select {
			case <-s.end:
				return
			case <-time.After(time.Millisecond):
				_, err = io.WriteString(c, chunk)
			}
		}
	}
}

// hostileCluster opens nodes[0:3] on good servers, and two on hostile ones, which strike at different stages of a connection.
// The good ones are given time, on a machine that the hostile ones keep busy; the others need not be waited for.
func hostileCluster(t *testing.T, attack [2]string, stages ...string) []*pool.Node {
	nodes := must(pool.Open(testredis.URLs(testredis.Mini(t, 3)), pool.WithTimeout(patient), pool.WithDialTimeout(patient)))(t)
	var urls []string
	for _, stage := range stages {
		urls = append(urls, newHostileServer(t, stage, attack))
	}
	hostile := must(pool.Open(urls, pool.WithTimeout(brief), pool.WithDialTimeout(brief), pool.WithMaxOverdue(10*time.Millisecond)))(t)
	nodes = append(nodes, hostile...)
	t.Cleanup(func() {
		var closing sync.WaitGroup
		for _, n := range nodes {
			closing.Go(func() { _ = n.Close() })
		}
		closing.Wait()
	})
	return nodes
}

// Two of five servers may do whatever they like, at any time: locks are taken, exclude, are extended and released with the
// other three, the process lives and its memory stays flat.
func TestHostile_TwoOfFiveServersDoNotStopLocking(t *testing.T) {
	for _, stage := range []string{"before the greeting", "during the greeting", "as an answer"} {
		for name, attack := range hostileAttacks {
			t.Run(stage+"/"+name, func(t *testing.T) {
				locker := lockerOver(t, hostileCluster(t, attack, stage, stage), redlock.TTL(time.Minute))
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				ctx := context.Background()
				for i := range 5 {
					name := fmt.Sprint("name-", i)
					lock := got(locker.TryLock(ctx, name))(t)
					_, err := locker.TryLock(ctx, name)
					require.True(t, errors.Is(err, redlock.ErrTaken) || errors.Is(err, redlock.ErrNoQuorum), "%v", err)
					require.NoError(t, lock.Extend(ctx, 2*time.Minute))
					require.NoError(t, lock.Unlock(ctx))
				}
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<20))
			})
		}
	}
}

// The waiters are woken by the three good servers.
func TestHostile_TwoOfFiveServersDoNotStopWaiting(t *testing.T) {
	for name, attack := range hostileAttacks {
		t.Run(name, func(t *testing.T) {
			nodes := hostileCluster(t, attack, "as an answer", "before the greeting")
			first, second := lockerOver(t, nodes, redlock.TTL(time.Minute)), lockerOver(t, nodes, redlock.TTL(time.Minute))
			lock := take(t, first, "name")
			waiter := lockBeside(t.Context(), second, "name")
			require.NoError(t, lock.Unlock(t.Context()))
			require.NoError(t, won(t, waiter).Unlock(t.Context()))
		})
	}
}
