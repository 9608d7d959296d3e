package sentinel_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/inquiry/inquirytest"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/sentinel"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// fake is a sentinel that answers as a test has it.
type fake struct {
	addr string

	mu       sync.Mutex
	primary  string
	epoch    int
	odd      string // in the place of the address
	watching []net.Conn
	asked    int
}

func newFake(t *testing.T, primary string, epoch int) *fake {
	f := &fake{primary: primary, epoch: epoch}
	f.addr = testredis.Listen(t, func(c net.Conn) {
		_ = testredis.Answer(c, func(words []string) (string, bool) { return f.answer(c, words), true })
	})
	return f
}

func (f *fake) answer(c net.Conn, words []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	host, port, _ := strings.Cut(f.primary, ":")
	switch name := strings.Join(words, " "); {
	case name == "SENTINEL GET-MASTER-ADDR-BY-NAME group" && f.odd != "":
		return f.odd
	case name == "SENTINEL GET-MASTER-ADDR-BY-NAME group":
		f.asked++
		return "*2\r\n" + testredis.Bulk(host) + testredis.Bulk(port)
	case name == "SENTINEL MASTER group":
		return "*4\r\n" + testredis.Bulk("name") + testredis.Bulk("group") + testredis.Bulk("config-epoch") + testredis.Bulk(fmt.Sprint(f.epoch))
	case name == "SUBSCRIBE +switch-master":
		f.watching = append(f.watching, c)
		return "*3\r\n" + testredis.Bulk("subscribe") + testredis.Bulk(words[1]) + ":1\r\n"
	case name == "PING":
		return "*2\r\n" + testredis.Bulk("pong") + testredis.Bulk("")
	}
	return "-ERR unknown command\r\n"
}

// change has the sentinel name another primary, and report something.
func (f *fake) change(primary string, epoch int, report string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.primary, f.epoch = primary, epoch
	for _, c := range f.watching {
		_, _ = c.Write([]byte("*3\r\n" + testredis.Bulk("message") + testredis.Bulk("+switch-master") + testredis.Bulk(report)))
	}
}

func (f *fake) watchers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watching)
}

// The danger: a sentinel that has not heard of the failover yet leads a program back to the former primary, which may
// still take it for one.
func TestFind_ASentinelThatIsBehindIsNotBelieved(t *testing.T) {
	t.Parallel()
	behind, ahead := newFake(t, "10.0.0.1:1", 4), newFake(t, "10.0.0.2:2", 5)
	g := sentinel.New("group", inquirytest.At(behind.addr, ahead.addr))
	require.Eventually(t, func() bool { return inquirytest.Find(t, g) == "10.0.0.2:2" }, inquirytest.Bound, time.Microsecond)
	for range 20 {
		require.Equal(t, "10.0.0.2:2", inquirytest.Find(t, g))
	}
	ahead.change("10.0.0.3:3", 2, "") // the sentinels were set up again
	behind.change("10.0.0.3:3", 3, "")
	require.Equal(t, "10.0.0.3:3", inquirytest.Find(t, g))
	require.Equal(t, "10.0.0.3:3", inquirytest.Find(t, g))
}

func TestFind_SaysWhichSentinelFailsAndWhy(t *testing.T) {
	t.Parallel()
	for odd, want := range map[string]string{
		"*-1\r\n":                          `watches no group "group"`,
		"_\r\n":                            `watches no group "group"`,
		"-NOAUTH Authentication required.": "NOAUTH",
		"-ERR unknown command 'SENTINEL'":  "'SENTINEL': it is no Sentinel",
		"*0\r\n":                           `watches no group "group"`,
		":1\r\n":                           "protocol",
		"*2\r\n$1\r\na\r\n:1\r\n":          "protocol",
		"*2\r\n$1\r\na\r\n$1\r\n0\r\n":     "protocol",
		"*2\r\n$1\r\na\r\n$5\r\n65536\r\n": "protocol",
		"*2\r\n$1\r\na\r\n$2\r\n-1\r\n":    "protocol",
		"*2\r\n$0\r\n\r\n$1\r\n1\r\n":      "protocol",
		"*2\r\n$1\r\n\n\r\n$1\r\n1\r\n":    "protocol",
		"*2\r\n" + testredis.Bulk(strings.Repeat("a", 256)) + "$1\r\n1\r\n": "protocol",
		"*2000000000\r\n": "protocol",
	} {
		if !strings.HasSuffix(odd, "\n") {
			odd += "\r\n"
		}
		f := newFake(t, "10.0.0.1:1", 1)
		f.odd = odd
		inquirytest.Refuses(t, sentinel.New("group", inquirytest.At(f.addr)), "sentinel "+f.addr, odd, want)
	}
}

// One error is that of each sentinel, and whether it passes is that of the worst.
func TestFind_WithoutASentinelTheErrorNamesAll(t *testing.T) {
	t.Parallel()
	gone := testredis.Listen(t, func(c net.Conn) { _ = c.Close() })
	f := newFake(t, "", 0)
	f.odd = "-NOPERM this user has no permissions\r\n"
	_, err := sentinel.New("group", inquirytest.At(gone, f.addr)).Find(t.Context())
	require.ErrorContains(t, err, gone)
	require.ErrorContains(t, err, f.addr)
	require.Equal(t, wire.Stays, wire.OutlookOf(err))
}

func TestFind_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	silent := testredis.Listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)); _, _ = c.Read(make([]byte, 1<<10)) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := sentinel.New("group", inquirytest.At(silent)).Find(ctx)
	require.Error(t, err)
}

func TestFollow_ReportsWhatASentinelReportsOfThisGroup(t *testing.T) {
	t.Parallel()
	f := newFake(t, "10.0.0.1:1", 1)
	g := sentinel.New("group", inquirytest.At(f.addr))
	moves := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { g.Follow(ctx, func(to string) { moves <- to }) })
	requireMoved(t, moves, "10.0.0.1:1") // it may have changed before the subscription
	f.change("10.0.0.2:2", 2, "another 10.0.0.1 1 10.0.0.2 2")
	f.change("10.0.0.3:3", 2, "group2 10.0.0.1 1 10.0.0.2 2")
	f.change("10.0.0.4:4", 3, "group 10.0.0.1 1 10.0.0.4 4")
	requireMoved(t, moves, "10.0.0.4:4")
	require.Equal(t, "10.0.0.4:4", inquirytest.Find(t, g))

	f.mu.Lock()
	for _, c := range f.watching {
		_ = c.Close() // it is followed again
	}
	f.mu.Unlock()
	requireMoved(t, moves, "10.0.0.4:4")
	cancel()
	following.Wait()
	require.Empty(t, moves)
}

func requireMoved(t *testing.T, moves <-chan string, want string) {
	t.Helper()
	select {
	case to := <-moves:
		require.Equal(t, want, to)
	case <-time.After(inquirytest.Bound):
		t.Fatal("no report")
	}
}

// The danger: a sentinel that hangs is followed for ever.
func TestFollow_LeavesASentinelThatIsSilent(t *testing.T) {
	t.Parallel()
	silent, f := testredis.Listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1<<10)); <-t.Context().Done() }), newFake(t, "10.0.0.1:1", 1)
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	for range 4 { // each begins with any of the two
		following.Go(func() { sentinel.New("group", inquirytest.At(silent, f.addr)).Follow(ctx, func(string) {}) })
	}
	require.Eventually(t, func() bool { return f.watchers() == 4 }, inquirytest.Bound, time.Millisecond)
	cancel()
	following.Wait()
}

var _ node.Finder = (*sentinel.Group)(nil)
