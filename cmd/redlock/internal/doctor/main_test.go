package doctor_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is how long a test waits for what has to happen: far above what it takes.
const bound = 30 * time.Second

// wellSet are the arguments of a server as docs/operations.md wants it for programs without a restart guard.
var wellSet = []string{"--requirepass", "secret", "--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no", "--maxmemory", "100mb", "--maxmemory-policy", "noeviction"}

// wellSetServers starts servers that nothing is wrong with, but for the args.
func wellSetServers(t testing.TB, n int, args ...string) []*testredis.Process {
	t.Helper()
	return testredis.Real(t, n, append(slices.Clone(wellSet), args...)...)
}

// besideTwo starts one server with args, and two that nothing is wrong with.
func besideTwo(t testing.TB, args ...string) (odd *testredis.Process, all []*testredis.Process) {
	t.Helper()
	odd = wellSetServers(t, 1, args...)[0]
	return odd, append([]*testredis.Process{odd}, wellSetServers(t, 2)...)
}

// serverAt returns how to reach a server that asks for the password "secret".
func serverAt(addr string) *node.Server {
	return &node.Server{Network: "tcp", Address: addr, Password: "secret", Dial: new(net.Dialer).DialContext}
}

func serversOf(processes []*testredis.Process) (servers []*node.Server) {
	for _, p := range processes {
		servers = append(servers, serverAt(p.Addr()))
	}
	return servers
}

// patient returns options that no busy machine makes impatient.
func patient(o doctor.Options) doctor.Options {
	o.Timeout, o.NodeTimeout = bound, bound // so that all of it takes 5 minutes at most
	if o.Prefix == "" {
		o.Prefix = "lock:"
	}
	return o
}

// examine examines servers. All that the report links to has to exist.
func examine(t testing.TB, servers []*node.Server, o doctor.Options) *doctor.Report {
	t.Helper()
	r, err := doctor.Examine(t.Context(), servers, o)
	require.NoError(t, err)
	for _, f := range r.Findings {
		require.Contains(t, r.Checks, f.Check)
		require.NotEmpty(t, f.What, f.Check)
		require.NotEmpty(t, f.Why, f.Check)
		require.NotEmpty(t, f.Fix, f.Check)
		link, is := strings.CutPrefix(f.Docs, "https://github.com/quorumlock/quorumlock/blob/main/docs/")
		require.True(t, is, f.Docs)
		requireLink(t, link, f.Check)
		require.NotContains(t, fmt.Sprint(f), "secret", "no finding contains a password")
	}
	return r
}

// is is what a finding is about, as tests name it.
func is(severity doctor.Severity, check, addr string) string {
	return fmt.Sprintf("%s: %s of %s", severity, check, addr)
}

// requireFindings fails the test unless the report has these findings and no other.
func requireFindings(t testing.TB, r *doctor.Report, want ...string) {
	t.Helper()
	var got []string
	for _, f := range r.Findings {
		got = append(got, is(f.Severity, f.Check, f.Node))
	}
	require.ElementsMatch(t, want, got, "%+v", r.Findings)
}

// finds examines servers, and fails the test unless the report has these findings and no other.
func finds(t testing.TB, servers []*node.Server, o doctor.Options, want ...string) *doctor.Report {
	t.Helper()
	r := examine(t, servers, o)
	requireFindings(t, r, want...)
	return r
}

// requireLink fails the test unless a page in docs/ has an anchor.
func requireLink(t testing.TB, link, check string) {
	t.Helper()
	page, anchor, _ := strings.Cut(link, "#")
	require.Contains(t, anchors(t, page), anchor, check)
}

// anchors returns the anchors of a page in docs/.
func anchors(t testing.TB, page string) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/" + page)
	require.NoError(t, err)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		name := strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")
		names = append(names, regexp.MustCompile(`[^a-z0-9-]`).ReplaceAllString(name, ""))
	}
	return names
}

// do runs a command on a server.
func do(t testing.TB, s *testredis.Process, cmd string, args ...any) any {
	t.Helper()
	reply, err := s.Do(cmd, args...)
	require.NoError(t, err, "%s %v", cmd, args)
	return reply
}

// stampKey is where the stamp of a node stands.
func stampKey(p *testredis.Process) string { return testredis.Stamps + p.Addr() }

// stamp gives servers stamps of their own that have an age.
func stamp(t testing.TB, age time.Duration, on ...*testredis.Process) {
	t.Helper()
	for _, p := range on {
		testredis.InUse(t, p, p.Addr(), age)
	}
}

// stampWith gives a server a stamp of an age.
func stampWith(t testing.TB, p *testredis.Process, value string, age time.Duration) {
	t.Helper()
	testredis.Stamp(t, p, p.Addr(), value, age)
}

// relay forwards connections to the address that next returns for each, through what up does to the bytes of the client.
func relay(t testing.TB, next func() string, up func(from io.Reader, to io.Writer)) (addr string) {
	t.Helper()
	return testredis.Listen(t, func(c net.Conn) {
		server, err := net.Dial("tcp", next())
		if err != nil {
			return
		}
		var copying sync.WaitGroup
		copying.Go(func() {
			_, _ = io.Copy(c, server)
			_ = c.Close()
		})
		up(c, server)
		_ = server.Close()
		copying.Wait()
	})
}

func forward(from io.Reader, to io.Writer) { _, _ = io.Copy(to, from) }

// dialer returns a function that connects to another address than it is asked for.
func dialer(addr string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}

// uuid is the identity of a client of Redisson.
const uuid = "6a7b1c52-7d0e-4f8e-9a53-0c1d2e3f4a5b"
