package web_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
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
	uptime   func() int // of the nodes in seconds; nil means that they do not say
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

// hold sets what the nodes hold, looks at the page while that is found out, and returns the page.
func (l *listings) hold(locks ...survey.Lock) (page string) {
	l.t.Helper()
	l.mu.Lock()
	l.locks = locks
	l.mu.Unlock()
	for range 4 {
		_, page = l.get("/")
		<-time.After(time.Second)
	}
	return page
}

// answer sets how many nodes answer.
func (l *listings) answer(nodes int) {
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

func TestPoller_AsksOnlyWhileSomebodyLooks(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		<-time.After(time.Hour)
		asked, examined := l.times()
		require.Zero(t, asked)
		require.Zero(t, examined)

		l.get("/")
		<-time.After(time.Hour)
		asked, examined = l.times()
		require.Greater(t, asked, 1)
		require.LessOrEqual(t, asked, 100, "somebody looked once")
		require.Equal(t, 1, examined)

		before := asked
		l.watch(10*time.Minute, time.Second)
		asked, now := l.times()
		require.InDelta(t, 600, asked-before, 10, "once in a second")
		require.InDelta(t, 10, now-examined, 1, "once in a minute")
		<-time.After(2 * time.Minute)
		asked, _ = l.times()
		<-time.After(time.Hour)
		later, _ := l.times()
		require.Equal(t, asked, later)
	})
}

func TestPoller_AsksOnceForAllPages(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		for range 60 {
			for range 10 {
				l.get("/")
			}
			<-time.After(time.Second)
		}
		asked, _ := l.times()
		require.InDelta(t, 60, asked, 5)
	})
}

var tags = regexp.MustCompile(`(?s)<[^>]*>|\s+`)

// history returns the text of the history of a lock, the newest first.
func (l *listings) history(name string) string {
	l.t.Helper()
	_, page := l.get("/lock?name=" + name)
	_, page, found := strings.Cut(page, "<h2>History</h2>")
	require.True(l.t, found)
	text := tags.ReplaceAllString(page, " ")
	text = regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(text, "")
	return strings.Join(strings.Fields(text), " ")
}

func TestHistory_RecordsWhatHappensToALock(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("old", "o", time.Hour))
		l.hold(held("old", "o", time.Hour), held("name", "a", time.Hour))
		l.hold(held("old", "o", time.Hour), held("name", "b", time.Hour))
		require.Equal(t, "· watched from here on", l.history("old"), "it was held already")
		l.hold(held("name", "b", time.Hour))
		l.hold()
		l.hold(held("name", "c", time.Second/2))
		l.hold()
		require.Equal(t, "◌ expired was c ● taken c ○ freed was b ⇄ changed hands now b ● taken a · watched from here on", l.history("name"))
		require.Equal(t, "○ freed was o · watched from here on", l.history("old"))
		l.hold(held("name", "d", time.Hour))
		l.hold(unheld("name", redlock.VerdictNobody))
		l.hold(held("name", "d", time.Hour))
		l.hold(survey.Lock{Name: "name", Verdict: redlock.VerdictForeign, On: 3, Other: true})
		require.True(t, strings.HasPrefix(l.history("name"), "○ freed was d ● majority again was d ◐ no majority was d ● taken d ◌ expired"), l.history("name"))
	})
}

func TestHistory_ForgetsNothingWhileNodesAreAway(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("name", "a", time.Hour))
		l.answer(1)
		require.Contains(t, l.hold(), "The locks cannot be judged: no quorum of nodes")
		require.Contains(t, l.history("name"), "watched from here on")
		l.answer(3)
		l.hold(held("name", "a", time.Hour))
		require.Equal(t, "· watched from here on", l.history("name"))
		l.mu.Lock()
		l.cut = true
		l.mu.Unlock()
		require.Contains(t, l.hold(), "There are more locks than are listed here")
		l.hold(held("name", "a", time.Hour), held("other", "a", time.Hour))
		require.Equal(t, "· watched from here on", l.history("name"), "it may have been left out")
		require.Equal(t, "· watched from here on", l.history("other"))
	})
}

// The danger: two of five nodes do not answer, and the history says that the holder has lost the majority, and has it again.
func TestHistory_SaysNothingOfWhatIsUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		doubt := unheld("name", redlock.VerdictUnknown)
		page := l.hold(doubt)
		require.Contains(t, page, "unknown")
		require.NotContains(t, page, ">nobody<")
		l.hold(held("name", "a", time.Hour))
		require.Equal(t, "· watched from here on", l.history("name"), "it may have been held before")
		l.hold(doubt)
		l.hold(held("name", "a", time.Hour))
		require.Equal(t, "· watched from here on", l.history("name"))
		l.hold(doubt)
		l.hold(held("name", "b", time.Hour))
		require.Equal(t, "⇄ changed hands now b · watched from here on", l.history("name"), "one was known before, another is now")
		l.hold(doubt)
		l.hold()
		require.Equal(t, "○ freed was b ⇄ changed hands now b · watched from here on", l.history("name"), "nobody holds it")
		l.hold(doubt)
		l.hold(held("name", "c", time.Hour))
		require.Equal(t, "● taken c ○ freed was b ⇄ changed hands now b · watched from here on", l.history("name"), "it was free in between")
		l.hold(doubt)
		l.hold(unheld("name", redlock.VerdictNobody))
		require.True(t, strings.HasPrefix(l.history("name"), "◐ no majority was c ● taken c"), l.history("name"))
	})
}

func TestHistory_SaysWhenTooFewNodesAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("name", "a", time.Hour))
		l.answer(1)
		for range 10 {
			l.hold(held("name", "a", time.Hour))
		}
		l.answer(3)
		l.hold(held("name", "a", time.Hour))
		require.Equal(t, "· not known from to , as too few nodes answered · watched from here on", l.history("name"))
		l.answer(1)
		l.hold()
		<-time.After(time.Hour)
		l.answer(3)
		l.hold(held("name", "a", time.Hour))
		require.Equal(t, "· not watched from to , as no page was open · not known from to , as too few nodes answered · watched from here on", l.history("name"))
	})
}

func TestHistory_SaysWhenNobodyWatched(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("name", "a", time.Hour))
		<-time.After(time.Hour)
		l.hold(held("name", "b", time.Hour))
		require.Equal(t, "⇄ changed hands now b · not watched from to , as no page was open · watched from here on", l.history("name"))
	})
}

// A browser lets a page that nobody sees ask once in a minute.
func TestHistory_GoesOnWhileThePageIsOpenAndHidden(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold(held("name", "a", time.Hour))
		l.watch(10*time.Minute, time.Minute)
		l.hold()
		require.Equal(t, "○ freed was a · watched from here on", l.history("name"))
		<-time.After(2 * time.Minute)
		l.hold()
		require.Regexp(t, "^· not watched from to .* ○ freed was a · watched from here on$", l.history("name"))
	})
}

func TestHistory_IsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, l *listings) {
		l.hold()
		for i := range 2 * web.MaxEvents {
			l.hold(held("name", fmt.Sprint("token-", i, "."), time.Hour))
		}
		text := l.history("name")
		require.Equal(t, web.MaxEvents, strings.Count(text, "token-"), text)
		require.Contains(t, text, "token-99.")
		require.Contains(t, text, "token-50.")
		var locks []survey.Lock
		for i := range 2 * web.MaxPasts {
			locks = append(locks, held(fmt.Sprintf("lock-%05d", i), "t", time.Hour))
		}
		l.hold(append(locks, held("name", "token-99.", time.Hour))...)
		require.NotContains(t, l.history("name"), "token-", "others have changed since")
		require.NotContains(t, l.history("lock-00001"), "taken")
		require.Contains(t, l.history("lock-01999"), "taken")
	})
}
