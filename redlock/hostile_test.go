package redlock_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
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
	end    chan struct{}
}

func newHostileServer(t testing.TB, stage string, attack [2]string) (url string) {
	s := &hostileServer{stage: stage, attack: attack, end: make(chan struct{})}
	url = "redis://" + testredis.Listen(t, s.serve)
	t.Cleanup(func() { close(s.end) })
	return url
}

func (s *hostileServer) serve(c net.Conn) {
	if s.stage != "before the greeting" && testredis.Answer(c, s.answer) != nil {
		return
	}
	go func() { _, _ = io.Copy(io.Discard, c) }() // what is asked is of no interest
	s.strike(c)
}

// answer greets as Redis does, until it is time to attack.
func (s *hostileServer) answer(words []string) (reply string, more bool) {
	switch words[0] {
	case "HELLO":
		return "%1\r\n+proto\r\n:3\r\n", true
	case "CLIENT":
		if words[1] == "ID" {
			return ":1\r\n", true
		}
	case "INFO":
		if s.stage == "during the greeting" {
			return "", false
		}
		return "$13\r\nrun_id:evil\r\n\r\n", true
	case "SET", "EVAL", "EVALSHA":
		return "", false
	}
	return "+OK\r\n", true
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
			unlock(t, lock)
			unlock(t, won(t, waiter))
		})
	}
}

// echoForms are how a server may repeat what it was sent.
var echoForms = map[string]func(text string) string{
	"an error": func(text string) string { return "-ERR no: " + text + "\r\n" },
	"an error of Redis": func(text string) string {
		return "-ERR unknown command 'AUTH', with args beginning with: " + text + "\r\n"
	},
	"the code":           func(text string) string { return "-" + strings.ReplaceAll(text, " ", "") + "\r\n" },
	"a known code":       func(text string) string { return "-NOPERM " + text + "\r\n" },
	"a cut error":        func(text string) string { return "-ERR " + strings.Repeat("x", 500) + text + "\r\n" },
	"a bulk error":       func(text string) string { return "!" + testredis.Bulk("ERR " + text)[1:] },
	"a status":           func(text string) string { return "+" + text + "\r\n" },
	"a text":             testredis.Bulk,
	"a number":           func(text string) string { return ":" + text + "\r\n" },
	"a line of no kind":  func(text string) string { return text + "\r\n" },
	"a line without end": func(text string) string { return "+" + strings.Repeat(text+" ", 20<<10/(1+len(text))) },
	"an array":           func(text string) string { return "*2\r\n" + testredis.Bulk(text) + ":-1\r\n" },
	"a lock":             func(text string) string { return "*2\r\n" + testredis.Bulk(text) + ":60000\r\n" },
	"a push":             func(text string) string { return ">2\r\n" + testredis.Bulk(text) + testredis.Bulk(text) },
	"a message": func(text string) string {
		return ">3\r\n" + testredis.Bulk("message") + testredis.Bulk(text) + testredis.Bulk(text)
	},
	"its version": func(text string) string {
		return testredis.Bulk("run_id:" + text + "\r\nredis_version:5.0." + text + "\r\n")
	},
	"its name": func(text string) string { return testredis.Bulk("run_id:" + text + "\r\nuptime_in_seconds:1\r\n") },
}

// newEchoServer starts a server that repeats the arguments of AUTH in its answers: to every command, or only to those behind
// the greeting.
func newEchoServer(t *testing.T, form func(string) string, greets bool) (addr string) {
	return testredis.Listen(t, func(c net.Conn) {
		secret := ""
		_ = testredis.Answer(c, func(args []string) (reply string, more bool) {
			switch {
			case args[0] == "AUTH":
				if secret = args[len(args)-1]; greets {
					return "+OK\r\n", true
				}
			case greets && args[0] == "HELLO":
				return "%1\r\n+proto\r\n:3\r\n", true
			case greets && args[0] == "INFO":
				return testredis.Bulk("run_id:x\r\n"), true
			case greets && args[0] == "CLIENT":
				return ":1\r\n", true
			}
			return form(secret), true
		})
	})
}

// texts collects all that a program could print of what a Locker has told it.
type texts struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *texts) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

func (s *texts) Observe(e event.Event) {
	_, _ = fmt.Fprintf(s, "%+v\n", e)
	switch v := e.(type) {
	case protocol.Vote:
		s.error(v.Err)
	case protocol.Round:
		s.error(v.Err)
	case event.NodeDown:
		s.error(v.Err)
	}
}

// error adds an error and all that it wraps.
func (s *texts) error(err error) {
	if err == nil {
		return
	}
	_, _ = fmt.Fprintf(s, "%v\n%+v\n%#v\n", err, err, err)
	if refusal := (*nodeerr.ServerError)(nil); errors.As(err, &refusal) {
		_, _ = fmt.Fprintf(s, "%+v\n", *refusal)
	}
	switch err := err.(type) { //nolint:errorlint // one level at a time
	case interface{ Unwrap() error }:
		s.error(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range err.Unwrap() {
			s.error(inner)
		}
	}
}

// ownNumbers are times, durations, pointers and the numbers of calls. No server has a part in their digits, of which there are so
// many that some are those of a password by chance.
var ownNumbers = regexp.MustCompile(`\d\d:\d\d:\d\d\.\d+|m=[+-]\d+\.\d+|0x[0-9a-f]+|\b(Call|Lock):\d+|\b\d+(m\d+)?\.\d+(µs|ms|s)\b`)

// requireNone fails the test if a text holds one of the secrets in any form, or eight bytes of it.
func (s *texts) requireNone(t *testing.T, secrets ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	said := s.String()
	require.NotEmpty(t, said, "something was said")
	var forms []string
	for _, secret := range secrets {
		forms = append(forms,
			base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret)),
			url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(strconv.Quote(secret), `"`))
		for i := 0; i+8 <= len(secret); i++ {
			forms = append(forms, secret[i:i+8])
		}
	}
	within := func(form string) bool { return strings.Contains(said, form) }
	if slices.ContainsFunc(forms, within) { // which takes less time than a regular expression
		said = ownNumbers.ReplaceAllString(said, "(a number)")
	}
	for _, form := range forms {
		if at := strings.Index(said, form); at >= 0 {
			require.FailNow(t, "a password got out", "%.300q", said[max(0, at-200):])
		}
	}
}

// Whatever fails, and whatever a server puts into its answers: no error, vote, verdict or log line holds a password.
func TestSecrets_NoErrorAndNoLogLineHoldsAPassword(t *testing.T) {
	t.Parallel()
	closed := testredis.Mini(t, 1)[0]
	closed.Stop()
	guarded := testredis.Real(t, 1, "--requirepass", "another")[0]
	dumb := testredis.Real(t, 1, "--rename-command", "AUTH", "")[0]
	limited := testredis.Real(t, 1)[0]
	for i, secret := range []string{"hunter2-s3cr:t/w?o#r@d %zz\"'", strings.Repeat("hunter2-is-a-long-one.", 20), "8765432187654321"} {
		_, err := limited.Do("ACL", "SETUSER", fmt.Sprint("user-", i), "reset", "on", ">"+secret, "~*", "&*", "+@all", "-set", "-eval", "-evalsha", "-info")
		require.NoError(t, err)
		login := url.UserPassword(fmt.Sprint("user-", i), secret).String() + "@"
		servers := map[string]string{
			"refuses the password":      "redis://" + login + guarded.Addr(),
			"does not know AUTH":        "redis://" + login + dumb.Addr(),
			"permits nothing":           "redis://" + login + limited.Addr(),
			"is not there":              "redis://" + login + closed.Addr(),
			"has no address":            "redis://" + login + "no-such-host.invalid",
			"has no such database":      "redis://" + login + limited.Addr() + "/99",
			"does not speak TLS":        "rediss://" + login + limited.Addr(),
			"has no socket":             "unix://" + login + "/no/such/socket",
			"is not Redis":              "redis://" + login + newHostileServer(t, "before the greeting", [2]string{"HTTP/1.1 400 Bad Request\r\n\r\n", ""})[len("redis://"):],
			"is asked with credentials": "redis://" + guarded.Addr(),
		}
		for name, form := range echoForms {
			servers["repeats it as "+name+" in the greeting"] = "redis://" + login + newEchoServer(t, form, false)
			servers["repeats it as "+name+" afterwards"] = "redis://" + login + newEchoServer(t, form, true)
		}
		for name, server := range servers {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				said := &texts{}
				logger := slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
				opts := []redlock.Option{
					pool.WithTimeout(brief), pool.WithDialTimeout(brief), pool.WithMaxOverdue(brief),
					redlock.WithObserver(said, (*recorder)(nil).Groups()...), redlock.WithLogger(logger),
				}
				if name == "is asked with credentials" {
					opts = append(opts, pool.WithCredentials(func(context.Context, string) (string, string, error) { return "user", secret, nil }))
				}
				locker, err := redlock.Open([]string{server}, opts...)
				require.NoError(t, err)
				for range 2 { // the second finds out why there is no connection
					_, err = locker.TryLock(t.Context(), "name")
					said.error(err)
				}
				waited, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				_, err = locker.Lock(waited, "name")
				said.error(err)
				cancel()
				state, err := locker.Inspect(t.Context(), "name")
				said.error(err)
				for _, n := range state.Nodes {
					said.error(n.Err)
				}
				_, err = locker.Attach(t.Context(), "name", "token")
				said.error(err)
				_, err = locker.ForceUnlock(t.Context(), "name")
				said.error(err)
				require.NoError(t, locker.Close())
				said.requireNone(t, secret)
			})
		}
		for _, bad := range []string{"redis://user:" + secret, "redis://user:" + secret + "@host:x", "user:" + secret + "@host", "redis://host/" + secret} {
			said := &texts{}
			if _, err := redlock.Open([]string{bad}); err != nil { // a number may be a port or a database
				said.error(err)
				said.requireNone(t, secret)
			}
		}
	}
}
