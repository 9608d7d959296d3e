package web_test

import (
	"cmp"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
)

func stampKey(server *testredis.Process) string { return testredis.Stamps + server.Addr() }

// stamp gives servers stamps of an age that begin with their run_id, or with another, and go on as their own.
func stamp(t *testing.T, age time.Duration, other string, on ...*testredis.Process) {
	t.Helper()
	for _, server := range on {
		value := cmp.Or(other, testredis.Info(t, server, "all", "run_id")) + ":" + testredis.Info(t, server, "all", "master_replid")
		testredis.Stamp(t, server, server.Addr(), value, age)
	}
}

// guarded serves a page for programs with a restart guard over servers that change has been called with.
func guarded(t *testing.T, guard time.Duration, change func(*web.Config), before func(servers []*testredis.Process)) *site {
	t.Helper()
	servers := testredis.Real(t, size)
	before(servers)
	return over(t, servers, testredis.URLs(servers), func(c *web.Config) {
		c.RestartGuard = guard
		if change != nil {
			change(c)
		}
	})
}

// nodeOn returns what a page says of a node.
func nodeOn(t *testing.T, page string, server *testredis.Process) string {
	t.Helper()
	_, node, found := strings.Cut(page, `id="node-`+server.Addr()+`"`)
	require.True(t, found, page)
	node, _, _ = strings.Cut(node, "</li>")
	return strings.Join(strings.Fields(tags.ReplaceAllString(node, " ")), " ")
}

func TestServer_ShowsNodesThatAreQuarantined(t *testing.T) {
	t.Parallel()
	s := guarded(t, time.Hour, nil, func(servers []*testredis.Process) {
		stamp(t, 10*time.Minute, "", servers[1])
		stamp(t, 2*time.Hour, strings.Repeat("b", 40), servers[2])
	})
	page := s.see("/", "3 of 3 nodes answer, but only 0 of them are not quarantined, and 2 are needed: nobody can take a lock.")
	require.Contains(t, nodeOn(t, page, s.servers[0]), "quarantined")
	require.Contains(t, nodeOn(t, page, s.servers[0]), "it has no stamp")
	require.Contains(t, nodeOn(t, page, s.servers[0]), "programs that connect do not ask it for locks for 1 h 00 min")
	require.Regexp(t, `in use as this node for 1\d min .. s: programs do not ask it for locks for (50|49) min .. s more`, nodeOn(t, page, s.servers[1]))
	require.Contains(t, nodeOn(t, page, s.servers[2]), "it has the stamp of another server")

	stamp(t, 2*time.Hour, "", s.servers[0])
	s.see("/", "3 of 3 nodes answer, but only 1 of them is not quarantined")
	stamp(t, 2*time.Hour, "", s.servers[1:]...)
	page = s.see("/", "All 3 nodes answer")
	require.NotContains(t, nodeOn(t, page, s.servers[2]), "stamp")
}

func TestServer_SaysWithWhomTheGuardHasNothingToDo(t *testing.T) {
	t.Parallel()
	nothing := func([]*testredis.Process) {}
	guarded(t, time.Hour, func(c *web.Config) { c.Durable = []string{"all"} }, nothing).see("/", "All 3 nodes answer")
	s := guarded(t, 0, nil, func(servers []*testredis.Process) {
		do(t, servers, "ACL", "SETUSER", "default", "resetkeys", "~lock:*")
	})
	require.NotContains(t, nodeOn(t, s.see("/", "All 3 nodes answer"), s.servers[0]), "stamp", "nobody asks for it")
	s = guarded(t, time.Hour, func(c *web.Config) { c.Durable = []string{c.Servers[1].Address} }, nothing)
	page := s.see("/", "only 1 of them is not quarantined")
	require.NotContains(t, nodeOn(t, page, s.servers[1]), "stamp")
}

// The danger: a node that votes looks as if it did not, as the user of the page has fewer rights than the programs.
func TestServer_SaysThatAStampMayNotBeRead(t *testing.T) {
	t.Parallel()
	s := guarded(t, time.Hour, nil, func(servers []*testredis.Process) {
		do(t, servers, "ACL", "SETUSER", "default", "resetkeys", "~lock:*")
	})
	page := s.see("/", "All 3 nodes answer")
	require.Contains(t, nodeOn(t, page, s.servers[0]), "whether it is quarantined is not known, as its stamp cannot be read: NOPERM")

	s = guarded(t, time.Hour, nil, func(servers []*testredis.Process) { do(t, servers[:1], "ACL", "SETUSER", "default", "-info") })
	page = s.see("/", "3 of 3 nodes answer, but only 1 of them is not quarantined")
	require.Contains(t, nodeOn(t, page, s.servers[0]), "whether it is quarantined is not known, as its stamp cannot be read: INFO is refused")
	_, metrics := s.get("/metrics")
	require.Equal(t, 2, strings.Count(metrics, "\nredlock_probe_node_quarantined{"), "of the first one it is not known")
}

// The danger: a quarantine hides that the user of the page may not list the locks of a node, so their number seems to be the true one.
func TestServer_ShowsAllThatIsWrongWithANode(t *testing.T) {
	t.Parallel()
	const unlisted, slow = "not all of its locks are listed: NOPERM", "slower than the 0.00 ms that programs wait for a node"
	change := func(c *web.Config) { c.NodeTimeout = 1 }
	s := guarded(t, time.Hour, change, func(servers []*testredis.Process) {
		stamp(t, 10*time.Minute, "", servers[0])
		stamp(t, 2*time.Hour, "", servers[1:]...)
		do(t, servers[:2], "ACL", "SETUSER", "default", "-scan")
		do(t, servers[1:], "ACL", "SETUSER", "default", "resetkeys", "~lock:*")
	})
	page := s.see("/", unlisted)
	require.Regexp(t, `◆ quarantined .*in use as this node for .*`+slow+`.*`+unlisted, nodeOn(t, page, s.servers[0]))
	const unread = "whether it is quarantined is not known, as its stamp cannot be read: NOPERM"
	require.Regexp(t, `▲ slow .*`+unread+`.*`+slow+`.*`+unlisted, nodeOn(t, page, s.servers[1]))
	require.NotContains(t, nodeOn(t, page, s.servers[2]), unlisted)
	s.servers[0].Stop()
	page = s.see("/", "no answer</p>")
	require.NotContains(t, nodeOn(t, page, s.servers[0]), "slower")
}

// Between two asks the stamp gets older by itself.
func TestServer_EndsAQuarantineWithoutAskingAnew(t *testing.T) {
	t.Parallel()
	s := guarded(t, time.Hour, func(c *web.Config) { c.Interval = time.Hour }, func(servers []*testredis.Process) {
		stamp(t, time.Hour+28*time.Second, "", servers...) // 8 s are left
	})
	s.see("/", "only 0 of them are not quarantined")
	for _, server := range s.servers {
		server.Freeze()
		defer server.Thaw()
	}
	s.see("/", "All 3 nodes answer")
}

func TestServer_SurvivesAnyStamp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		own   bool // the value is that of the server's own stamp
		words []any
	}{
		"a hash":           {false, []any{"HSET", "field", "value"}},
		"an empty value":   {false, []any{"SET", ""}},
		"megabytes":        {false, []any{"SET", strings.Repeat("\x1b[2J", 1<<20)}},
		"no TTL":           {true, []any{"SET"}},
		"a TTL of ages":    {true, []any{"SET", "PX", int64(9_000_000_000_000_000_000)}},
		"a TTL above 60 d": {true, []any{"SET", "PX", (wire.StampTTL + time.Hour).Milliseconds()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := guarded(t, time.Hour, nil, func(servers []*testredis.Process) {
				for _, server := range servers {
					words := []any{stampKey(server)}
					if test.own {
						words = append(words, testredis.OwnStamp(t, server))
					}
					do(t, []*testredis.Process{server}, test.words[0].(string), append(words, test.words[1:]...)...)
				}
			})
			page := s.see("/", "only 0 of them are not quarantined")
			require.NotContains(t, page, "\x1b")
			require.Contains(t, nodeOn(t, page, s.servers[0]), "programs that connect do not ask it for locks for 1 h 00 min")
		})
	}
}

// altered replaces text in what comes over a connection by other text of the same length.
type altered struct {
	net.Conn
	by *strings.Replacer
}

func (c altered) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	copy(p, c.by.Replace(string(p[:n])))
	return n, err
}

// Nobody can stamp such a server.
func TestServer_ShowsAServerThatDoesNotSayWhichOneItIs(t *testing.T) {
	t.Parallel()
	for _, says := range []string{"\nrun_id:", "\nmaster_replid:"} {
		s := guarded(t, time.Hour, func(c *web.Config) {
			odd := *c.Servers[0]
			dial := odd.Dial
			odd.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				return altered{conn, strings.NewReplacer(says, "\nX"+says[2:])}, err
			}
			c.Servers[0] = &odd
		}, func(servers []*testredis.Process) { stamp(t, 2*time.Hour, "", servers...) })
		page := s.see("/", "3 of 3 nodes answer, 1 of them quarantined")
		require.Contains(t, nodeOn(t, page, s.servers[0]), "it does not report which server it is (run_id and master_replid): programs do not ask it for locks")
	}
}
