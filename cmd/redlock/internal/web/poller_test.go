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
}

// overListings serves a page over listings, with the clock of a bubble.
func overListings(t *testing.T, change func(*web.Config)) *listings {
	l := &listings{site: &site{t: t, url: "http://127.0.0.1:1", log: &logged{}}, answered: 3}
	config := web.Config{
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

// hold sets what the nodes hold, looks at the page while that is found out, and returns the page.
func (l *listings) hold(locks ...survey.Lock) (page string) {
	l.t.Helper()
	l.mu.Lock()
	l.locks = locks
	l.mu.Unlock()
	for range 3 {
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
	return survey.Lock{Name: name, Token: token, TTL: ttl, On: 3, Need: 2}
}

func (l *listings) times() (asked, examined int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked, l.examined
}

func TestPoller_AsksOnlyWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, nil)
		<-time.After(time.Hour)
		asked, examined := l.times()
		require.Zero(t, asked)
		require.Zero(t, examined)

		l.get("/")
		<-time.After(time.Hour)
		asked, examined = l.times()
		require.Greater(t, asked, 1)
		require.LessOrEqual(t, asked, 10, "somebody looked once")
		require.Equal(t, 1, examined)

		st := l.stream("")
		for start := time.Now(); time.Since(start) < 10*time.Minute; {
			st.next()
		}
		before, examined := asked, examined
		asked, now := l.times()
		require.InDelta(t, 600, asked-before, 10, "once in a second")
		require.InDelta(t, 10, now-examined, 1, "once in a minute")
		st.close()
		<-time.After(time.Minute)
		asked, _ = l.times()
		<-time.After(time.Hour)
		later, _ := l.times()
		require.Equal(t, asked, later)
	})
}

func TestPoller_AsksOnceForAllPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, nil)
		for range 10 {
			st := l.stream("")
			go func() {
				for st.lines.Scan() {
				}
			}()
		}
		<-time.After(time.Minute)
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
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, nil)
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
		l.hold(survey.Lock{Name: "name", TTL: time.Hour, On: 2, Need: 2})
		l.hold(held("name", "d", time.Hour))
		l.hold(survey.Lock{Name: "name", On: 3, Need: 2, Other: true})
		require.True(t, strings.HasPrefix(l.history("name"), "○ freed was d ● majority again was d ◐ no majority was d ● taken d ◌ expired"), l.history("name"))
	})
}

func TestHistory_ForgetsNothingWhileNodesAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, nil)
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

func TestHistory_SaysWhenNobodyWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, nil)
		l.hold(held("name", "a", time.Hour))
		<-time.After(time.Hour)
		l.hold(held("name", "b", time.Hour))
		require.Equal(t, "⇄ changed hands now b · not watched from to , as no page was open · watched from here on", l.history("name"))
	})
}

func TestHistory_IsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, nil)
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

func TestPage_CountsDownBetweenTwoLooksAtTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, func(c *web.Config) { c.Interval = time.Minute })
		l.locks = []survey.Lock{held("name", "a", 90*time.Second)}
		st := l.stream("")
		var seen []string
		for len(seen) < 4 {
			if text := st.next()["locks"]; text != "" {
				seen = append(seen, regexp.MustCompile(`<td class="left"><span>([^<]*)`).FindStringSubmatch(text)[1])
			}
		}
		require.Equal(t, []string{"1 min 30 s", "1 min 29 s", "1 min 28 s", "1 min 27 s"}, seen)
		st.close()
	})
}

func TestPage_GroupsWhatTheDoctorHasFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, nil)
		page := l.hold()
		require.Contains(t, page, "2 findings")
		require.Equal(t, 1, strings.Count(page, "evicts &lt;keys&gt;"))
		require.Contains(t, page, "<code>a:1</code>, <code>b:1</code>")
		require.NotContains(t, page, `href="javascript`)
	})
}

func TestPage_IsShownWhenTheNodesTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := overListings(t, func(c *web.Config) {
			c.List = func(ctx context.Context) (*survey.Listing, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		began := time.Now()
		_, page := l.get("/")
		require.Contains(t, page, "The locks are being listed")
		require.NotContains(t, page, "The nodes are being asked")
		require.Less(t, time.Since(began), time.Minute, "of the bubble's clock")
	})
}

// The danger: one slow node with many keys keeps the page about all nodes from being shown, or from being up to date.
func TestPage_ShowsTheNodesWhileTheLocksAreListed(t *testing.T) {
	ask := make(chan struct{})
	s := overReal(t, func(c *web.Config) {
		list := c.List
		c.List = func(ctx context.Context) (*survey.Listing, error) {
			select {
			case <-ask:
			case <-ctx.Done():
			}
			return list(ctx)
		}
	})
	s.set("lock:name", "token")
	page := s.see("/", "All 3 nodes answer")
	require.Contains(t, page, "The locks are being listed")
	s.servers[0].Stop()
	s.see("/", "2 of 3 nodes answer")
	_, page = s.get("/lock?name=name")
	require.Contains(t, page, "The locks are being listed")
	close(ask)
	s.see("/", `href="/lock?name=name"`)
}
