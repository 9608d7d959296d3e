// Package testredis starts Redis servers on free ports of 127.0.0.1, for tests, for the commands of
// redlock and for the bench: redis-server processes, or miniredis inside the program.
//
// Tests get theirs from [Real] and [Mini], and programs from [Launch] and [Embed]. Servers that belong
// together come from [NewService], [NewSentinels] and [NewCluster]. [StartChild] starts any other child
// process that must not outlive the program.
package testredis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Server is a Redis server of either kind. All methods may be called from any goroutine.
type Server interface {
	Addr() string // stays the same when the server is stopped and started again
	URL() string
	Do(cmd string, args ...any) (any, error)

	// Stop ends the server as a crash would: connections are cut, keys and cached scripts are lost.
	// It does nothing if the server is stopped already.
	Stop()

	// Start runs a stopped server again, empty and on the same address, and returns when it answers.
	// A server of a test that does not come up fails the test.
	Start()

	// Close ends the server for good.
	Close() error
}

// Close closes servers.
func Close[S Server](servers []S) (err error) {
	for _, s := range servers {
		err = errors.Join(err, s.Close())
	}
	return err
}

// URLs returns the URL of each server, in the same order.
func URLs[S Server](servers []S) []string {
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.URL()
	}
	return urls
}

// Lasting returns a server whose Do uses one connection until the end of the test: for a test that asks very often, from one
// goroutine at a time. The server must neither stop nor cut connections.
func Lasting(tb testing.TB, s Server) Server {
	tb.Helper()
	conn, err := redis.Dial("tcp", s.Addr())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return lasting{s, conn}
}

type lasting struct {
	Server
	conn redis.Conn
}

func (l lasting) Do(cmd string, args ...any) (any, error) { return l.conn.Do(cmd, args...) }

// Servers returns processes as the interface that Mini and Embed return too.
func Servers(processes []*Process) []Server {
	servers := make([]Server, len(processes))
	for i, p := range processes {
		servers[i] = p
	}
	return servers
}

// Mini starts n miniredis servers that live inside the test's process and end with the test.
func Mini(tb testing.TB, n int) []Server {
	tb.Helper()
	servers, err := Embed(n, failing(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = Close(servers) })
	return servers
}

// Real starts n redis-server processes for a test, as [Launch] does. They end with the test.
//
// If redis-server is not installed the test is skipped, or fails if CI=true. It is also skipped if
// the args ask for TLS and the program was built without it.
// The log of each server is added to that of a test that failed.
func Real(tb testing.TB, n int, args ...string) []*Process {
	tb.Helper()
	processes, err := Launch(context.Background(), n, failing(tb), args...)
	if errors.Is(err, ErrMissing) && os.Getenv("CI") != "true" || err != nil && noTLS.MatchString(err.Error()) {
		tb.Skip("tests on such servers are left out: " + err.Error())
	}
	if err != nil {
		tb.Fatal(err)
	}
	for _, p := range processes {
		tb.Cleanup(func() {
			p.Stop()
			if tb.Failed() {
				tb.Logf("redis-server %s:\n%s", p.Addr(), p.Log())
			}
			if err := p.Close(); err != nil {
				tb.Error(err)
			}
		})
	}
	return processes
}

// Sentinel starts a Sentinel that watches nothing, as Real starts a server.
func Sentinel(tb testing.TB) *Process {
	tb.Helper()
	return Real(tb, 1, "sentinel.conf", "--sentinel")[0]
}

// Account gives each server an account for locks whose keys match a pattern. It may run all commands but those of administrators and
// dangerous ones, of which it may run INFO.
func Account[S Server](tb testing.TB, servers []S, name, password, keys string) {
	tb.Helper()
	for _, s := range servers {
		for _, rule := range []string{"reset", "on", ">" + password, "~" + keys, "resetchannels", "&quorumlock:*", "+@all", "-@admin", "-@dangerous", "+info"} {
			if _, err := s.Do("ACL", "SETUSER", name, rule); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// LockerRules returns what follows "ACL SETUSER locker" in each such line of docs/operations.md. The root is the folder of the
// repository.
func LockerRules(tb testing.TB, root string) (lines [][]string) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rules, is := strings.CutPrefix(strings.TrimSpace(line), "ACL SETUSER locker "); is {
			lines = append(lines, strings.Fields(rules))
		}
	}
	return lines
}

// Info returns a field of a section of INFO; "" if it is not there.
func Info(tb testing.TB, s Server, section, name string) string {
	tb.Helper()
	text, err := redis.String(s.Do("INFO", section))
	if err != nil {
		tb.Fatal(err)
	}
	return field(text, name)
}

// field returns a field of INFO; "" if it is not there.
func field(text, name string) string {
	for line := range strings.SplitSeq(text, "\r\n") {
		if value, is := strings.CutPrefix(line, name+":"); is {
			return value
		}
	}
	return ""
}

// IsOld reports whether the server is older than Redis 7.0, which has rules of an ACL and counts of calls for subcommands, and more commands.
func IsOld(tb testing.TB, s Server) bool {
	tb.Helper()
	return strings.HasPrefix(Info(tb, s, "server", "redis_version"), "6.")
}

// Stamps is what the keys begin with that say since when a server has been in use as a node.
const Stamps = "quorumlock:since:"

// InUse has a server in use as the node of that name for so long, as the restart guard sees it.
func InUse(tb testing.TB, s Server, node string, age time.Duration) {
	tb.Helper()
	Stamp(tb, s, node, OwnStamp(tb, s), age)
}

// OwnStamp is the stamp of a server that is in use as a node.
func OwnStamp(tb testing.TB, s Server) string {
	tb.Helper()
	return Info(tb, s, "server", "run_id") + ":" + Info(tb, s, "replication", "master_replid")
}

// Stamp gives a server a stamp of an age, as the node of that name.
func Stamp(tb testing.TB, s Server, node, stamp string, age time.Duration) {
	tb.Helper()
	if _, err := s.Do("SET", Stamps+node, stamp, "PX", (60*24*time.Hour - age).Milliseconds()); err != nil {
		tb.Fatal(err)
	}
}

// failing returns what makes an error fail a test.
func failing(tb testing.TB) func(error) { return func(err error) { tb.Errorf("testredis: %v", err) } }

// endpoint is where a server listens, on 127.0.0.1.
type endpoint struct {
	port     int
	bus      bool             // the server is a cluster's, and takes the port + busOffset too
	reserved []net.PacketConn // UDP ports of the same numbers: no other endpoint takes them while the server is stopped
	password string           // empty means none
	tls      bool             // the port speaks TLS
}

// busOffset is how far the port of the cluster bus is from that of the server.
const busOffset = 10000

// find calls start with ports until one is free. All are below those that systems give to outgoing
// connections (from 32768 on Linux, from 49152 elsewhere), among which a stopped server's could be.
func (e *endpoint) find(start func() error) (err error) {
	for range 10 {
		if err = e.reserve(); err == nil {
			if err = start(); err == nil {
				return nil
			}
		}
		e.release()
		if !strings.Contains(err.Error(), "ddress already in use") {
			return err
		}
	}
	return err
}

// reserve chooses the port and keeps other endpoints from it.
func (e *endpoint) reserve() error {
	offsets := []int{0}
	if e.bus {
		offsets = append(offsets, busOffset)
	}
	e.port = 10000 + rand.IntN(32768-10000-offsets[len(offsets)-1])
	for _, offset := range offsets {
		c, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", e.port+offset))
		if err != nil {
			return err
		}
		e.reserved = append(e.reserved, c)
	}
	return nil
}

// release gives the ports back.
func (e *endpoint) release() {
	for _, c := range e.reserved {
		_ = c.Close()
	}
	e.reserved = nil
}

// Addr returns 127.0.0.1:port. It stays the same when the server is stopped and started again.
func (e *endpoint) Addr() string { return fmt.Sprintf("127.0.0.1:%d", e.port) }

// URL returns redis://127.0.0.1:port, or rediss:// with TLS, without a password.
func (e *endpoint) URL() string { return e.scheme() + "://" + e.Addr() }

func (e *endpoint) scheme() string {
	if e.tls {
		return "rediss"
	}
	return "redis"
}

// Do runs one command on a connection of its own, logged in with the password of --requirepass if
// there is one. It fails after a few seconds if the server does not answer.
func (e *endpoint) Do(cmd string, args ...any) (any, error) {
	const timeout = 5 * time.Second
	c, err := redis.Dial("tcp", e.Addr(), redis.DialPassword(e.password), redis.DialConnectTimeout(timeout),
		redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout), redis.DialUseTLS(e.tls), redis.DialTLSSkipVerify(true))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(cmd, args...)
}
