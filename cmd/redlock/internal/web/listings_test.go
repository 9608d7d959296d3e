package web_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// pipes is a listener whose connections stay inside the program, so that a test may use a clock of its own.
type pipes struct {
	made   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.made:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.made <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// listings is what three nodes hold, as a test sets it.
type listings struct {
	*site
	mu       sync.Mutex
	locks    []survey.Lock
	answered int
	cut      bool // the listing is truncated
	asked    int  // how often
	examined int
	uptime   func() int64 // of the nodes in seconds; nil means that they do not say
}

// info is what the nodes say of themselves.
func (l *listings) info() string {
	if l.uptime == nil {
		return ""
	}
	return fmt.Sprintf("uptime_in_seconds:%d\r\n", l.uptime())
}

// played returns servers that a test plays: each answers that it is well, or not at all. They are called a:1, b:1 and so on.
func played(n int, answers func(i int) bool, info func() string) (servers []*node.Server) {
	for i := range n {
		s := &node.Server{Network: "tcp", Address: string(rune('a'+i)) + ":1"}
		s.Dial = func(context.Context, string, string) (net.Conn, error) {
			if !answers(i) {
				return nil, errors.New("connection refused")
			}
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				_ = testredis.Answer(there, func([]string) (string, bool) { return testredis.Bulk(info()), answers(i) })
			}()
			return here, nil
		}
		servers = append(servers, s)
	}
	return servers
}

// overListings serves a page over listings, with the clock of a bubble.
func overListings(t *testing.T, change func(*web.Config)) *listings {
	l := &listings{site: &site{t: t, url: "http://127.0.0.1:1", log: &logged{}}, answered: 3}
	config := web.Config{
		Servers: played(3, func(i int) bool { l.mu.Lock(); defer l.mu.Unlock(); return i < l.answered }, l.info), Timeout: 5 * time.Second,
		Interval: time.Second, ExamineEvery: time.Minute, Log: l.log,
		List: func(context.Context) (*survey.Listing, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.asked++
			listing := &survey.Listing{Locks: l.locks, Need: 2, Truncated: l.cut, Nodes: make([]survey.NodeReport, 3)}
			for i := l.answered; i < 3; i++ {
				listing.Nodes[i].Err = errors.New("no answer")
			}
			if l.answered < 2 {
				return listing, redlock.ErrNoQuorum
			}
			return listing, nil
		},
		Examine: func(context.Context) (*doctor.Report, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.examined++
			return &doctor.Report{Findings: []doctor.Finding{
				{Severity: doctor.Fault, Node: "a:1", What: "evicts <keys>"}, {Severity: doctor.Fault, Node: "b:1", What: "evicts <keys>"},
				{Severity: doctor.Warning, Node: "b:1", What: "is old", Docs: "javascript:alert(1)"},
			}}, nil
		},
	}
	if change != nil {
		change(&config)
	}
	p := &pipes{made: make(chan net.Conn), closed: make(chan struct{})}
	l.serve(config, p, &http.Transport{DialContext: p.dial})
	return l
}

// inBubble tests a page over listings, with the clock of a bubble.
func inBubble(t *testing.T, test func(t *testing.T, l *listings)) {
	synctest.Test(t, func(t *testing.T) { test(t, overListings(t, nil)) })
}

// hold sets what the nodes hold, looks at the page while that is found out, and returns the page. What the page asks at this very
// moment has the answers of before.
func (l *listings) hold(locks ...survey.Lock) (page string) {
	l.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	l.locks = locks
	l.mu.Unlock()
	for range 4 {
		_, page = l.get("/")
		<-time.After(time.Second)
	}
	return page
}

// answer sets how many nodes answer, from the next time on.
func (l *listings) answer(nodes int) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = nodes
}

func held(name, token string, ttl time.Duration) survey.Lock {
	return survey.Lock{Name: name, Verdict: redlock.VerdictHeld, Token: token, TTL: ttl, On: 3}
}

// unheld is what nodes hold of a lock of which no majority is seen.
func unheld(name string, verdict redlock.Verdict) survey.Lock {
	return survey.Lock{Name: name, Verdict: verdict, TTL: time.Hour, On: 1}
}

// watch has a page open for a time: it is asked for again and again.
func (l *listings) watch(d, pause time.Duration) {
	l.t.Helper()
	for start := time.Now(); time.Since(start) < d; <-time.After(pause) {
		code, _ := l.get("/")
		require.Equal(l.t, http.StatusOK, code)
	}
}

func (l *listings) times() (asked, examined int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked, l.examined
}
