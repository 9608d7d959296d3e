package cluster_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/inquiry/inquirytest"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
)

var _ node.Finder = (*cluster.Node)(nil)

// fake is a server of a cluster that answers as a test has it.
type fake struct {
	addr string

	mu     sync.Mutex
	slots  string
	epoch  int
	state  string
	logins []string
}

func newFake(t *testing.T, slots string, epoch int) *fake {
	f := &fake{slots: slots, epoch: epoch, state: "ok"}
	f.addr = testredis.Listen(t, func(c net.Conn) {
		_ = testredis.Answer(c, func(words []string) (string, bool) { return f.answer(words), true })
	})
	return f
}

func (f *fake) answer(words []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch name := strings.Join(words, " "); {
	case name == "CLUSTER SLOTS":
		return f.slots
	case name == "CLUSTER INFO":
		return testredis.Bulk(fmt.Sprintf("cluster_state:%s\r\ncluster_current_epoch:%d\r\n", f.state, f.epoch))
	case words[0] == "AUTH":
		f.logins = append(f.logins, name)
		return "+OK\r\n"
	}
	return "-ERR unknown command\r\n"
}

// set changes what the server answers.
func (f *fake) set(slots string, epoch int, state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots, f.epoch, f.state = slots, epoch, state
}

// entry is an entry of CLUSTER SLOTS with one replica, as Redis 7 writes it. A host of "null" is none.
func entry(first, last int, host, port string) string {
	if host = testredis.Bulk(host); strings.Contains(host, "null") {
		host = "$-1\r\n"
	}
	metadata := "*2\r\n" + testredis.Bulk("hostname") + testredis.Bulk("host-1.redis.example.com")
	server := func(host, port string) string {
		return "*4\r\n" + host + ":" + port + "\r\n" + testredis.Bulk("09dbe9720cda62f7865eabc5fd8857c5d2678366") + metadata
	}
	return fmt.Sprintf("*4\r\n:%d\r\n:%d\r\n", first, last) + server(host, port) + server(testredis.Bulk("10.9.9.9"), "9")
}

// all is an answer in which one master has all slots.
func all(host, port string) string { return "*1\r\n" + entry(0, 16383, host, port) }

// third is the node whose slot is 13719.
func third(servers []node.Server) *cluster.Node { return cluster.New(servers).Node(2, 3) }

func TestFind_AnswersWithTheMasterOfTheSlot(t *testing.T) {
	t.Parallel()
	f := newFake(t, "*4\r\n"+entry(0, 13718, "10.0.0.1", "1")+entry(13720, 16383, "10.0.0.2", "2")+
		entry(13719, 13719, "fe80::1", "3")+entry(16383, 16383, "10.0.0.4", "4"), 1)
	require.Equal(t, "[fe80::1]:3", inquirytest.Find(t, third(inquirytest.At(f.addr))))
	host, _, _ := strings.Cut(f.addr, ":")
	for answer, want := range map[string]string{
		all("host.example", "65535"): "host.example:65535",
		all("", "7"):                 host + ":7",
		all("null", "7"):             host + ":7",
		"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:4\r\n":                                "a:4",
		"*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n_\r\n:4\r\n$1\r\nx\r\n%1\r\n+ip\r\n+10.0.0.1\r\n": host + ":4", // RESP3
	} {
		f.set(answer, 1, "ok")
		require.Equal(t, want, inquirytest.Find(t, third(inquirytest.At(f.addr))))
	}
}

func TestFind_SaysWhichServerFailsAndWhy(t *testing.T) {
	t.Parallel()
	for odd, want := range map[string]string{
		"-ERR This instance has cluster support disabled\r\n": "cluster support disabled: it is not in cluster mode",
		"-ERR unknown command 'CLUSTER'\r\n":                  "'CLUSTER': it is not in cluster mode", // a Sentinel
		"-NOAUTH Authentication required.\r\n":                "NOAUTH",
		"*0\r\n":                                              "no master has the slot 13719",
		"*1\r\n" + entry(0, 13718, "a", "1"):                  "no master has the slot 13719",
		"*1\r\n" + entry(13720, 99, "a", "1"):                 "no master has the slot 13719",
		all("?", "7"):                                         "cluster-announce-hostname",
		"*-1\r\n":                                             "protocol",
		":1\r\n":                                              "protocol",
		"*1\r\n:1\r\n":                                        "protocol",
		"*1\r\n*2\r\n:0\r\n:16383\r\n":                        "protocol",
		"*1\r\n*3\r\n:0\r\n:16383\r\n:1\r\n":                  "protocol",
		"*1\r\n*3\r\n:0\r\n:16383\r\n*0\r\n":                  "protocol",
		"*1\r\n" + entry(-1, 16383, "a", "1"):                 "protocol",
		"*1\r\n" + entry(0, 16384, "a", "1"):                  "protocol",
		all("a", "0"):                                         "protocol",
		all("a", "65536"):                                     "protocol",
		all("a", "-1"):                                        "protocol",
		all("a\nb", "1"):                                      "protocol",
		all("a b", "1"):                                       "protocol",
		all("ä", "1"):                                         "protocol",
		all(strings.Repeat("a", 256), "1"):                    "protocol",
		"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n:1\r\n:1\r\n":      "protocol",
		"*2000000000\r\n":                                     "protocol",
	} {
		f := newFake(t, odd, 1)
		inquirytest.Refuses(t, third(inquirytest.At(f.addr)), "cluster node "+f.addr, odd, want)
	}
}

// The danger: a server that has not heard of the failover, or is cut off with the former master, leads a program there.
func TestFind_AServerThatIsBehindOrCutOffIsNotBelieved(t *testing.T) {
	t.Parallel()
	behind, ahead := newFake(t, all("former", "1"), 4), newFake(t, all("next", "2"), 5)
	n := third(inquirytest.At(behind.addr, ahead.addr))
	require.Eventually(t, func() bool { return inquirytest.Find(t, n) == "next:2" }, inquirytest.Bound, time.Microsecond)
	for range 20 {
		require.Equal(t, "next:2", inquirytest.Find(t, n))
	}
	behind.set(all("former", "1"), 6, "fail") // it takes part in an election that it cannot win
	for range 20 {
		require.Equal(t, "next:2", inquirytest.Find(t, n))
	}
	ahead.set("-LOADING Redis is loading the dataset in memory\r\n", 5, "ok")
	require.Equal(t, "former:1", inquirytest.Find(t, n), "as the only one that answers")
}

// The servers that the program has named may all be gone one day.
func TestFind_AsksMastersThatTheLatestAnswerNames(t *testing.T) {
	t.Parallel()
	later := newFake(t, all("later", "1"), 2)
	host, port, _ := strings.Cut(later.addr, ":")
	answer := entry(0, 8000, host, port)
	for i := range 100 {
		answer += entry(8001, 8001, fmt.Sprint("host", i), "1")
	}
	first := newFake(t, "*102\r\n"+answer+entry(8001, 16383, "early", "1"), 1)
	servers := inquirytest.At(first.addr)
	servers[0].Username, servers[0].Password = "user", "pw"
	n := third(servers)
	require.Equal(t, "early:1", inquirytest.Find(t, n))
	require.Len(t, n.Known(), 17)
	first.set("-ERR gone\r\n", 1, "ok")
	require.Equal(t, "later:1", inquirytest.Find(t, n))
	require.Equal(t, []string{"AUTH user pw"}, later.logins)
}

func TestFind_WithoutAServerTheErrorNamesAll(t *testing.T) {
	t.Parallel()
	gone, f := testredis.Listen(t, func(c net.Conn) { _ = c.Close() }), newFake(t, "-NOPERM this user has no permissions\r\n", 1)
	_, err := third(inquirytest.At(gone, f.addr)).Find(t.Context())
	require.ErrorContains(t, err, gone)
	require.ErrorContains(t, err, f.addr)
	require.Equal(t, wire.Stays, wire.OutlookOf(err))
}

func TestFollow_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { third(inquirytest.At("host:1")).Follow(ctx, func(string) { panic("nothing is known") }) })
	cancel()
	following.Wait()
}

func TestFind_FollowsASlotOfARealCluster(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	for i := range 3 {
		n := cluster.New(inquirytest.At(c.Addrs()[5-i])).Node(i, 3)
		require.Equal(t, c.Owner(n.Slot()).Addr(), inquirytest.Find(t, n))
	}
	n := cluster.New(inquirytest.At(c.Addrs()...)).Node(0, 3)
	c.FailOver(n.Slot())
	require.Equal(t, c.Owner(n.Slot()).Addr(), inquirytest.Find(t, n))
	c.Migrate(n.Slot(), c.Owner(16000))
	require.Equal(t, c.Owner(16000).Addr(), inquirytest.Find(t, n))
	c.Servers()[5].Freeze()
	c.Kill(n.Slot() + 1)
	for range 4 { // in random order
		require.Equal(t, c.Owner(16000).Addr(), inquirytest.Find(t, n))
	}
}
