package survey_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	slots "github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// slot returns the tag and the slot of one of three nodes.
func slot(i int) (tag string, slot int) {
	n := slots.New(nil).Node(i, 3)
	return n.Tag(), n.Slot()
}

// put sets a key on all three nodes of a cluster.
func put(t *testing.T, c *testredis.Cluster, key string) {
	t.Helper()
	for i := range 3 {
		tag, slot := slot(i)
		do(t, []*testredis.Process{c.Owner(slot)}, "SET", tag+key, "token", "PX", long.Milliseconds())
	}
}

// nodesOf returns how the three nodes of a cluster are reached.
func nodesOf(t *testing.T, c *testredis.Cluster) []*node.Server {
	t.Helper()
	return serversAt(t, []string{c.URL(3)}, pool.WithRestartGuard(long))
}

func names(l *survey.Listing) (all []string) {
	for _, lock := range l.Locks {
		all = append(all, lock.Name)
	}
	return all
}

func TestList_OfAClusterHasNoTagsAndNoKeysOfOthers(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	const prefix = `lo*k{[?]\:`
	for _, name := range []string{"job-1", "job-2", "*", "{q0/3.111}"} {
		put(t, c, prefix+name)
	}
	put(t, c, "other:name")
	put(t, c, "lock{[?]\\:name")
	put(t, c, testredis.Stamps+"q0/3.111")
	put(t, c, "{"+prefix+"job-1}:fence")
	for i := range 3 {
		tag, slot := slot(i)
		owner := []*testredis.Process{c.Owner(slot)}
		do(t, owner, "SET", "x"+tag+prefix+"beside the tag", "data") // in the same slot
		other := slots.New(nil).Node(2*i, 5)
		do(t, []*testredis.Process{c.Owner(other.Slot())}, "SET", other.Tag()+prefix+"of five nodes", "token")
	}
	servers := nodesOf(t, c)
	o := survey.Options{Prefix: prefix, Timeout: long}
	listing, err := survey.List(t.Context(), servers, o)
	require.NoError(t, err)
	require.Equal(t, []string{"*", "job-1", "job-2", "{q0/3.111}"}, names(listing))
	for _, l := range listing.Locks {
		require.Equal(t, 3, l.On, l.Name)
		require.True(t, l.Held())
	}
	for i, report := range listing.Nodes {
		require.NoError(t, report.Err)
		require.Equal(t, servers[i].Address, report.Addr)
		require.Equal(t, 4, report.Keys)
	}
	o.Pattern = "j?b-*"
	listing, err = survey.List(t.Context(), servers, o)
	require.NoError(t, err)
	require.Equal(t, []string{"job-1", "job-2"}, names(listing))
	listing, err = survey.List(t.Context(), servers, survey.Options{Timeout: long})
	require.NoError(t, err)
	require.Len(t, listing.Locks, 6)
}

// The danger: the tag is missing before a key or a channel, and a cluster looks as if nobody shared a lock or waited.
func TestList_OfAClusterShowsSharersAndWhoWaits(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	put(t, c, "lock:plain")
	held := token.Random(token.NewOwner())
	for i := range 3 {
		tag, slot := slot(i)
		owner := c.Owner(slot)
		on := []*testredis.Process{owner}
		do(t, on, "SET", tag+"lock:slots", "|slots", "PX", long.Milliseconds())
		do(t, on, "ZADD", tag+"{lock:slots}:sharers", time.Now().Add(long).UnixMilli(), held)
		do(t, on, "ZADD", tag+"{lock:slots}:slots", 7, held)
		testredis.Subscribe(t, []*testredis.Process{owner}, tag+form.WaitChannel("lock:plain"))
		testredis.Subscribe(t, []*testredis.Process{owner}, form.WaitChannel("lock:slots")) // without the tag
	}
	listing, err := survey.List(t.Context(), nodesOf(t, c), survey.Options{Prefix: "lock:", Timeout: long})
	require.NoError(t, err)
	require.Equal(t, []string{"plain", "slots"}, names(listing))
	require.Equal(t, 1, listing.Locks[0].Waiting)
	require.Equal(t, 0, listing.Locks[1].Waiting)
	require.Equal(t, []string{held + " in 7 on 3"}, tokens(listing.Locks[1].Holders))
	require.True(t, listing.Locks[1].Kept)
	l, err := redlock.Open([]string{c.URL(3)}, redlock.WithKeyPrefix("lock:"), pool.WithTimeout(time.Minute), pool.WithRestartGuard(long))
	require.NoError(t, err)
	defer l.Close()
	state, err := l.Inspect(t.Context(), "plain")
	require.NoError(t, err)
	require.Equal(t, 1, survey.AskPresence(t.Context(), nodesOf(t, c), "lock:", state, long).Waiting)

	tag, slot := slot(1)
	testredis.Subscribe(t, []*testredis.Process{c.Owner(slot)}, tag+form.OwnerChannel(token.Owner(held)))
	listing, err = survey.List(t.Context(), nodesOf(t, c), survey.Options{Prefix: "lock:", Timeout: long})
	require.NoError(t, err)
	require.False(t, listing.Locks[1].Kept)
}

// atWrite calls act before the n-th write.
type atWrite struct {
	net.Conn
	n   int
	act func()
}

func (c *atWrite) Write(p []byte) (int, error) {
	if c.n--; c.n == 0 {
		c.act()
	}
	return c.Conn.Write(p)
}

// The danger: keys that have moved away while they are listed are missing, and their locks look free.
func TestList_ASlotThatMovesMeanwhileIsNotListedCompletely(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	tag, moving := slot(0)
	_, other := slot(1)
	do(t, []*testredis.Process{c.Owner(moving)}, "EVAL", "for i = 1, 3000 do redis.call('SET', KEYS[1] .. i, 'token') end", 1, tag+"lock:")
	o := survey.Options{Prefix: "lock:", Timeout: long}
	servers := nodesOf(t, c)
	c.BeginMigration(moving, c.Owner(other))
	listing, err := survey.List(t.Context(), servers, o)
	require.NoError(t, err, "the other two are a majority")
	require.ErrorContains(t, listing.Nodes[0].Err, "the slot is being moved to another server of the cluster")
	do(t, []*testredis.Process{c.Owner(moving), c.Owner(other)}, "CLUSTER", "SETSLOT", moving, "STABLE")

	dial := servers[0].Dial
	servers[0].Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &atWrite{Conn: conn, n: 6, act: func() { c.Migrate(moving, c.Owner(other)) }}, err
	}
	listing, err = survey.List(t.Context(), servers, o)
	require.NoError(t, err)
	require.ErrorContains(t, listing.Nodes[0].Err, "another server of the cluster has the slot now")
	require.Less(t, listing.Nodes[0].Keys, 3000)
	require.Equal(t, 2, listing.Answered())

	servers[0].Dial = dial
	listing, err = survey.List(t.Context(), servers, o)
	require.NoError(t, err)
	same := listing.Nodes[0].Err
	if same == nil {
		same = listing.Nodes[1].Err
	}
	require.ErrorIs(t, same, nodeerr.ErrSameServer)
	require.Equal(t, 2, listing.Answered())
}

// A server is not believed that shows keys of other nodes, or that says nothing of the slot.
func TestList_OfAClusterTakesNoKeysWithoutTheTag(t *testing.T) {
	t.Parallel()
	slotReply := ":-2\r\n"
	addr := testredis.Listen(t, func(conn net.Conn) {
		_ = testredis.Answer(conn, func(words []string) (string, bool) {
			switch {
			case words[0] == "SCAN":
				keys := testredis.Bulk("{q}lock:a") + testredis.Bulk("lock:b") + testredis.Bulk("{r}lock:c") + testredis.Bulk("{q}x")
				return "*2\r\n" + testredis.Bulk("0") + "*4\r\n" + keys, true
			case words[0] == "PTTL" && strings.HasPrefix(words[1], "{q}lock:") && len(words[1]) > len("{q}lock:a"):
				return slotReply, true
			case words[0] == "PTTL":
				return ":60000\r\n", true
			case words[0] == "GETRANGE":
				return testredis.Bulk("token"), true
			}
			return testredis.Bulk("role:master"), true
		})
	})
	server := &node.Server{Network: "tcp", Address: addr, Tag: "{q}", Dial: new(net.Dialer).DialContext}
	o := survey.Options{Prefix: "lock:", Timeout: long}
	listing, err := survey.List(t.Context(), []*node.Server{server}, o)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, names(listing))
	for reply, want := range map[string]string{"-NOPERM no\r\n": "NOPERM", "+OK\r\n": "not an answer of Redis", "-CLUSTERDOWN x\r\n": "lacks servers"} {
		slotReply = reply
		listing, err = survey.List(t.Context(), []*node.Server{server}, o)
		require.Error(t, err)
		require.ErrorContains(t, listing.Nodes[0].Err, want)
	}
}
