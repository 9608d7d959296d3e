package web_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	bound = 30 * time.Second // for what is promised to happen without a date
	size  = 3                // nodes
)

// site is a server of the page, and a client of it.
type site struct {
	t       *testing.T
	url     string
	client  *http.Client
	servers []*testredis.Process
	log     *logged
	stop    func() // ends the server
}

// logged is what the server has logged.
type logged struct {
	sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

func (l *logged) String() string {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.String()
}

// overReal serves the page over redis-server processes. The configuration may be changed first.
func overReal(t *testing.T, change func(*web.Config)) *site {
	t.Helper()
	servers := testredis.Real(t, size)
	return over(t, servers, testredis.URLs(servers), change)
}

func over(t *testing.T, servers []*testredis.Process, urls []string, change func(*web.Config), opts ...pool.Option) *site {
	t.Helper()
	nodes, err := pool.Open(urls, append(opts, pool.WithTimeout(5*time.Second))...)
	require.NoError(t, err)
	locker, err := redlock.New(nodes, redlock.WithKeyPrefix("lock:"))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, locker.Close())
		for _, n := range nodes {
			require.NoError(t, n.Close())
		}
	})
	s := &site{t: t, servers: servers, log: &logged{}}
	config := web.Config{
		Timeout: 5 * time.Second, Prefix: "lock:", Interval: 50 * time.Millisecond, Nodes: nodes, Locker: locker, Log: s.log,
		Examine: func(context.Context) (*doctor.Report, error) { return &doctor.Report{Checks: []string{"one"}}, nil },
	}
	for _, n := range nodes {
		config.Servers = append(config.Servers, (*node.Node)(n).Config().Server)
	}
	config.List = func(ctx context.Context) (*survey.Listing, error) {
		return survey.List(ctx, config.Servers, survey.Options{Prefix: "lock:", Limit: web.MaxLocks, Timeout: config.Timeout})
	}
	if change != nil {
		change(&config)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.url = "http://" + listener.Addr().String()
	s.serve(config, listener, &http.Transport{})
	return s
}

// listing has the locks listed no sooner than a channel is closed.
func listing(begin <-chan struct{}) func(*web.Config) {
	return func(c *web.Config) {
		list := c.List
		c.List = func(ctx context.Context) (*survey.Listing, error) {
			select {
			case <-begin:
			case <-ctx.Done():
			}
			return list(ctx)
		}
	}
}

// serve runs a server until the test ends.
func (s *site) serve(config web.Config, l net.Listener, transport *http.Transport) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- web.New(config).Serve(ctx, l) }()
	s.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	s.stop = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cancel()
		require.NoError(s.t, <-ended)
	})
	s.t.Cleanup(s.stop)
}

// request sends a request, to which change may add something, and returns the answer with its body.
func (s *site) request(method, path string, form url.Values, change func(*http.Request)) (*http.Response, string) {
	s.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	require.NoError(s.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(r)
	}
	answer, err := s.client.Do(r)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	return answer, string(text)
}

// get returns a page.
func (s *site) get(path string) (code int, text string) {
	s.t.Helper()
	answer, text := s.request(http.MethodGet, path, nil, nil)
	return answer.StatusCode, text
}

// see waits until a page has a text, and returns the page.
func (s *site) see(path, wanted string) (text string) {
	s.t.Helper()
	until, look := time.Now().Add(bound), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for ; ; <-look.C {
		if _, text = s.get(path); strings.Contains(text, wanted) {
			return text
		}
		require.False(s.t, time.Now().After(until), "%s never has %q:\n%s", path, wanted, text)
	}
}

var input = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// form returns what the form of a page sends.
func form(page string) url.Values {
	values := url.Values{}
	for _, match := range input.FindAllStringSubmatch(page, -1) {
		values.Add(match[1], match[2])
	}
	return values
}

// do runs a command on some of the servers.
func do(t *testing.T, on []*testredis.Process, cmd string, args ...any) {
	t.Helper()
	for _, server := range on {
		_, err := server.Do(cmd, args...)
		require.NoError(t, err)
	}
}

// set sets a key on all nodes.
func (s *site) set(key, value string) {
	s.t.Helper()
	do(s.t, s.servers, "SET", key, value, "PX", 600_000)
}

// holds returns on how many nodes a key exists.
func (s *site) holds(key string) (n int) {
	s.t.Helper()
	for _, server := range s.servers {
		exists, err := server.Do("EXISTS", key)
		require.NoError(s.t, err)
		n += int(exists.(int64))
	}
	return n
}
