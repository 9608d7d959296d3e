package survey_test

import (
	"context"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// long is far above the time that any test takes.
const long = time.Hour

// servers returns how the processes are reached.
func servers(tb testing.TB, processes []*testredis.Process, opts ...pool.Option) []*node.Server {
	tb.Helper()
	return serversAt(tb, testredis.URLs(processes), opts...)
}

func serversAt(tb testing.TB, urls []string, opts ...pool.Option) (all []*node.Server) {
	tb.Helper()
	nodes, err := pool.Open(urls, opts...)
	require.NoError(tb, err)
	for _, n := range nodes {
		all = append(all, (*node.Node)(n).Config().Server)
		require.NoError(tb, n.Close())
	}
	return all
}

// do runs a command on some of the servers.
func do(t *testing.T, on []*testredis.Process, cmd string, args ...any) {
	t.Helper()
	for _, s := range on {
		_, err := s.Do(cmd, args...)
		require.NoError(t, err)
	}
}

// take takes a lock, and returns when all servers hold it.
func take(t *testing.T, on []*testredis.Process, prefix, name string, opts ...redlock.Option) *redlock.Lock {
	t.Helper()
	l, err := redlock.Open(testredis.URLs(on), append(opts, redlock.WithKeyPrefix(prefix), pool.WithTimeout(time.Minute))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	lock, err := l.TryLock(t.Context(), name, redlock.TTL(long), redlock.Metadata("of "+name))
	require.NoError(t, err)
	for _, s := range on {
		require.Eventually(t, func() bool {
			held, err := redis.String(s.Do("GET", prefix+name))
			return err == nil && strings.HasPrefix(held, string(lock.Token()))
		}, 20*time.Second, time.Millisecond)
	}
	return lock
}

// list lists, and returns the locks by name.
func list(t *testing.T, on []*testredis.Process, o survey.Options) (*survey.Listing, map[string]survey.Lock) {
	t.Helper()
	listing, err := survey.List(t.Context(), servers(t, on), o)
	require.NoError(t, err)
	byName := map[string]survey.Lock{}
	previous := ""
	for _, l := range listing.Locks {
		require.Less(t, previous, l.Name, "sorted, and each name once")
		previous = l.Name
		byName[l.Name] = l
	}
	return listing, byName
}

func TestList_MergesWhatTheNodesHoldByName(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 5)
	plain, fenced := take(t, on, "lock:", "plain"), take(t, on, "lock:", "fenced", redlock.WithFencing())
	ms := long.Milliseconds()
	do(t, on[:3], "SET", "lock:theirs", "another library's", "PX", ms)
	do(t, on[:2], "SET", "lock:minority", "few", "PX", ms)
	do(t, on[:2], "SET", "lock:split", "A", "PX", ms/2)
	do(t, on[2:4], "SET", "lock:split", "B", "PX", ms)
	do(t, on[:4], "SET", "lock:ever", "no ttl")
	do(t, on[4:], "SET", "lock:ever", "no ttl", "PX", ms)
	do(t, on, "HSET", "lock:hash", "field", "value")
	do(t, on[:1], "SETRANGE", "lock:mixed", 1024, "x")
	do(t, on[1:], "SET", "lock:mixed", "token", "PX", ms)
	do(t, on[:1], "SET", "lock:empty", "", "PX", ms)
	do(t, on[:3], "SET", "lock:blocked", "", "PX", ms)
	do(t, on, "SET", "other:name", "value")

	listing, locks := list(t, on, survey.Options{Prefix: "lock:"})
	require.Len(t, locks, 10)
	require.False(t, listing.Truncated)
	require.Equal(t, 3, listing.Need)
	require.Equal(t, 5, listing.Answered())
	for i, keys := range []int{10, 9, 8, 6, 5} {
		require.Equal(t, on[i].Addr(), listing.Nodes[i].Addr)
		require.Equal(t, keys, listing.Nodes[i].Keys)
		require.NoError(t, listing.Nodes[i].Err)
		require.Positive(t, listing.Nodes[i].Took)
	}
	for _, held := range []struct {
		lock  *redlock.Lock
		fence uint64
	}{{plain, 0}, {fenced, fenced.Fence()}} {
		l := locks[held.lock.Name()]
		require.True(t, l.Held())
		assert.Equal(t, string(held.lock.Token()), l.Token)
		assert.Equal(t, "of "+held.lock.Name(), l.Metadata)
		assert.Equal(t, held.fence, l.Fence)
		assert.Equal(t, 5, l.On)
		require.Len(t, l.Views, 5)
		for i, v := range l.Views {
			assert.Equal(t, i, v.Node)
			assert.Equal(t, string(held.lock.Token()), v.Token)
			assert.Equal(t, held.fence, v.Fence)
		}
	}
	for name, want := range map[string]survey.Lock{
		"theirs":   {Verdict: redlock.VerdictHeld, Token: "another library's", TTL: long, On: 3},
		"minority": {Verdict: redlock.VerdictNobody, TTL: long, On: 2},
		"split":    {Verdict: redlock.VerdictNobody, TTL: long, On: 4},
		"ever":     {Verdict: redlock.VerdictHeld, Token: "no ttl", TTL: redlock.NoLimit, On: 5},
		"hash":     {Verdict: redlock.VerdictForeign, TTL: redlock.NoLimit, On: 5, Other: true},
		"mixed":    {Verdict: redlock.VerdictHeld, Token: "token", TTL: long, On: 4},
		"empty":    {Verdict: redlock.VerdictNobody, TTL: long, On: 1},
		"blocked":  {Verdict: redlock.VerdictHeld, TTL: long, On: 3, Empty: true},
	} {
		l := locks[name]
		assert.Equal(t, want.Token, l.Token, name)
		assert.Equal(t, want.On, l.On, name)
		assert.Equal(t, want.Other, l.Other, name)
		assert.Equal(t, want.Empty, l.Empty, name)
		assert.Equal(t, want.Verdict, l.Verdict, name)
		if want.TTL == redlock.NoLimit {
			assert.EqualValues(t, redlock.NoLimit, l.TTL, name)
		} else {
			assert.LessOrEqual(t, l.TTL, want.TTL, name)
			assert.Greater(t, l.TTL, want.TTL*2/3, name)
		}
	}
	require.True(t, locks["mixed"].Views[0].Other)
	require.Empty(t, locks["mixed"].Views[0].Token)
	require.Len(t, locks["split"].Views, 4)
}

func TestList_CountsTheTTLThatAMajorityHas(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 3)
	do(t, on[:1], "SET", "name", "token")
	do(t, on[1:2], "SET", "name", "token", "PX", (2 * long).Milliseconds())
	do(t, on[2:], "SET", "name", "token", "PX", long.Milliseconds())
	_, locks := list(t, on, survey.Options{})
	require.Greater(t, locks["name"].TTL, long, "two nodes hold it for so long")
	require.LessOrEqual(t, locks["name"].TTL, 2*long)
	do(t, on[:1], "DEL", "name")
	_, locks = list(t, on, survey.Options{})
	require.LessOrEqual(t, locks["name"].TTL, long)
}

func TestList_FindsThePrefixAndThePatternOnly(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 1)
	const prefix = `a*[b]?\^{é`
	names := []string{"job-1", "job-2", "x", "*", `[job]`, `back\slash`, "söngur", "日本"}
	for _, name := range names {
		do(t, on, "SET", prefix+name, "token")
	}
	do(t, on, "SET", prefix, "no name")
	do(t, on, "SET", "axxbz^{éjob-1", "token")
	do(t, on, "SET", `a*b?\^{éjob-1`, "token")
	do(t, on, "SET", "{"+prefix+"job-1}:fence", "5")
	for pattern, want := range map[string][]string{
		"":          names,
		"*":         names,
		"job-*":     {"job-1", "job-2"},
		"job-?":     {"job-1", "job-2"},
		"job-[2]":   {"job-2"},
		"job":       nil,
		`\*`:        {"*"},
		`\[*`:       {"[job]"},
		`back\\*`:   {`back\slash`},
		"s*gur":     {"söngur"},
		"日*":        {"日本"},
		`trailing\`: nil,
		"[":         nil,
	} {
		_, locks := list(t, on, survey.Options{Prefix: prefix, Pattern: pattern})
		var found []string
		for name := range locks {
			found = append(found, name)
		}
		assert.ElementsMatch(t, want, found, "%q", pattern)
	}
	_, err := survey.List(t.Context(), servers(t, on), survey.Options{Pattern: strings.Repeat("*a", 300)})
	require.ErrorContains(t, err, "at most 512")
}

func TestList_LeavesOutTheCountersOfFencing(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 3)
	take(t, on, "", "name", redlock.WithFencing())
	take(t, on, "{", "other", redlock.WithFencing())
	for _, s := range on {
		keys, err := redis.Strings(s.Do("KEYS", "*"))
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"name", "{other", "{name}:fence", "{{other}:fence"}, keys)
	}
	_, locks := list(t, on, survey.Options{})
	require.Len(t, locks, 2)
	require.Contains(t, locks, "name")
	require.Contains(t, locks, "{other")
	_, locks = list(t, on, survey.Options{Prefix: "{"})
	require.Len(t, locks, 1)
	require.Contains(t, locks, "other")
}

func TestList_IsCompleteAboutTheNamesWithinTheLimit(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 3)
	fill(t, on, 3000, 100)
	listing, locks := list(t, on, survey.Options{Prefix: "lock:", Limit: 700})
	require.True(t, listing.Truncated)
	require.Len(t, locks, 700)
	for _, l := range locks {
		require.Equal(t, 3, l.On, "the servers have their keys in different orders")
	}
	listing, locks = list(t, on, survey.Options{Prefix: "lock:", Limit: 3000})
	require.False(t, listing.Truncated)
	require.Len(t, locks, 3000)
}

var sent = regexp.MustCompile(`total_net_output_bytes:(\d+)`)

func TestList_TransfersNoMoreOfAValueThanATokenMayHave(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 1)
	do(t, on, "SETRANGE", "big", 64<<20, "x")
	output := func() int {
		stats, err := redis.String(on[0].Do("INFO", "stats"))
		require.NoError(t, err)
		n, err := strconv.Atoi(sent.FindStringSubmatch(stats)[1])
		require.NoError(t, err)
		return n
	}
	before := output()
	_, locks := list(t, on, survey.Options{})
	require.True(t, locks["big"].Other)
	require.Less(t, output()-before, 64<<10)
}

func TestList_GoesOnWithoutTheNodesThatFail(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 5)
	do(t, on, "SET", "name", "token")
	on[0].Freeze()
	on[1].Stop()
	o := survey.Options{Timeout: 2 * time.Second}
	listing, locks := list(t, on, o)
	require.Equal(t, 3, listing.Answered())
	require.ErrorIs(t, listing.Nodes[0].Err, nodeerr.ErrTimeout)
	require.ErrorAs(t, listing.Nodes[1].Err, new(*nodeerr.ConnectError))
	require.True(t, locks["name"].Held())
	require.Equal(t, 3, locks["name"].On)

	on[2].Stop()
	listing, err := survey.List(t.Context(), servers(t, on), o)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "2 of 5 nodes listed all keys, 3 needed")
	require.Equal(t, 2, listing.Answered())
	require.Len(t, listing.Locks, 1)
	require.Equal(t, redlock.VerdictUnknown, listing.Locks[0].Verdict)
	require.Equal(t, 2, listing.Locks[0].On)
}

// The danger: a replica that holds nothing seems to show that nobody holds the lock, and one of a node that nobody else does.
func TestList_AReplicaHasNotAnswered(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 3, "--repl-diskless-sync-delay", "0")
	do(t, on, "SET", "name", "token")
	host, port, err := net.SplitHostPort(on[0].Addr())
	require.NoError(t, err)
	do(t, on[2:], "REPLICAOF", host, port)
	listing, locks := list(t, on, survey.Options{})
	var refusal *nodeerr.ServerError
	require.ErrorAs(t, listing.Nodes[2].Err, &refusal)
	require.Equal(t, "READONLY", refusal.Code)
	require.Equal(t, 2, listing.Answered())
	require.Equal(t, 2, locks["name"].On)
	require.Zero(t, listing.Nodes[2].Keys)
	do(t, on[1:2], "DEL", "name")
	_, locks = list(t, on, survey.Options{})
	require.Equal(t, redlock.VerdictUnknown, locks["name"].Verdict)
	do(t, on[2:], "REPLICAOF", "NO", "ONE")
	listing, _ = list(t, on, survey.Options{})
	require.Equal(t, 3, listing.Answered())
}

func TestList_ASentinelIsNamed(t *testing.T) {
	t.Parallel()
	sentinel := testredis.Sentinel(t)
	for _, url := range []string{sentinel.URL(), "redis://:secret@" + sentinel.Addr(), sentinel.URL() + "/1"} {
		listing, err := survey.List(t.Context(), serversAt(t, []string{url}), survey.Options{Timeout: long})
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, listing.Nodes[0].Err, nodeerr.ErrSentinel)
	}
}

func TestList_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 3)
	for _, s := range on {
		s.Freeze()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	listing, err := survey.List(ctx, servers(t, on), survey.Options{Timeout: long})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.Empty(t, listing.Locks)
	require.Zero(t, listing.Answered())
}

func TestList_CountsAServerUnderTwoNamesOnce(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 1)
	do(t, on, "SET", "name", "token")
	_, port, err := net.SplitHostPort(on[0].Addr())
	require.NoError(t, err)
	listing, err := survey.List(t.Context(), serversAt(t, []string{on[0].URL(), "redis://localhost:" + port}), survey.Options{})
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.Equal(t, 1, listing.Answered())
	require.Len(t, listing.Locks, 1)
	require.Equal(t, 1, listing.Locks[0].On)
	for _, n := range listing.Nodes {
		if n.Err != nil {
			require.ErrorIs(t, n.Err, nodeerr.ErrSameServer)
		}
	}
}

func TestList_NamesWhatAServerRefuses(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 1, "--requirepass", "hunter2")
	listing, err := survey.List(t.Context(), servers(t, on), survey.Options{})
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, listing.Nodes[0].Err, "NOAUTH")
	password := pool.WithCredentials(func(context.Context, string) (string, string, error) { return "", "hunter2", nil })
	_, err = survey.List(t.Context(), servers(t, on, password), survey.Options{})
	require.NoError(t, err)

	do(t, on, "SET", "lock:name", "token")
	do(t, on, "ACL", "SETUSER", "viewer", "on", ">secret", "~lock:*", "+scan", "+pttl")
	viewer := pool.WithCredentials(func(context.Context, string) (string, string, error) { return "viewer", "secret", nil })
	listing, err = survey.List(t.Context(), servers(t, on, viewer), survey.Options{Prefix: "lock:"})
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, listing.Nodes[0].Err, "'getrange'")
	do(t, on, "ACL", "SETUSER", "viewer", "+getrange")
	listing, err = survey.List(t.Context(), servers(t, on, viewer), survey.Options{Prefix: "lock:"})
	require.NoError(t, err, "INFO is not needed")
	require.Len(t, listing.Locks, 1)
}

// pretender starts a server that answers each command with the next one of the replies, and the last one for ever.
func pretender(t *testing.T, replies ...string) *node.Server {
	t.Helper()
	addr := testredis.Listen(t, func(c net.Conn) {
		for buffer := make([]byte, 1<<20); ; replies = replies[min(1, len(replies)-1):] {
			if _, err := c.Read(buffer); err != nil {
				return
			}
			if _, err := io.WriteString(c, replies[0]); err != nil {
				return
			}
		}
	})
	return serversAt(t, []string{"redis://" + addr})[0]
}

func TestList_SurvivesWhatIsNoAnswerOfRedis(t *testing.T) {
	t.Parallel()
	const info, role = "$0\r\n\r\n", "$0\r\n\r\n"
	const page = "*2\r\n$1\r\n0\r\n*1\r\n$4\r\nname\r\n" + role
	for name, replies := range map[string][]string{
		"a page that is a number":     {info, ":1\r\n" + role},
		"a page of one part":          {info, "*1\r\n$1\r\n0\r\n" + role},
		"a cursor that is a number":   {info, "*2\r\n:0\r\n*0\r\n" + role},
		"keys that are a text":        {info, "*2\r\n$1\r\n0\r\n$1\r\nx\r\n" + role},
		"a key that is a number":      {info, "*2\r\n$1\r\n0\r\n*1\r\n:1\r\n" + role},
		"a key that is null":          {info, "*2\r\n$1\r\n0\r\n*1\r\n$-1\r\n" + role},
		"a TTL that is a text":        {info, page, "+x\r\n+y\r\n" + role},
		"a value that is a number":    {info, page, ":1000\r\n:1\r\n" + role},
		"a page that is an error":     {info, "-ERR no\r\n" + role},
		"an introduction too large":   {"$99999999999\r\n"},
		"a page that is too large":    {info, "*99999999999\r\n"},
		"an end of the connection":    {info, "x"},
		"keys that nobody asked for":  {info, "*2\r\n$1\r\n0\r\n*1\r\n$5\r\nother\r\n" + role},
		"a key that has expired":      {info, page, ":-2\r\n$0\r\n\r\n" + role},
		"a TTL of thousands of years": {info, page, ":9223372036854775807\r\n$5\r\ntoken\r\n" + role},
	} {
		t.Run(name, func(t *testing.T) {
			listing, err := survey.List(t.Context(), []*node.Server{pretender(t, replies...)}, survey.Options{Prefix: "n", Timeout: 10 * time.Second})
			switch name {
			case "keys that nobody asked for", "a key that has expired":
				require.NoError(t, err)
				require.Empty(t, listing.Locks)
			case "a TTL of thousands of years":
				require.NoError(t, err)
				require.Greater(t, listing.Locks[0].TTL, 1000*long)
			default:
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				require.Empty(t, listing.Locks)
			}
		})
	}
}

// The danger: one server that names keys for ever, or has too many of them, keeps the list from ever being shown.
func TestList_BoundsANodeAsAWhole(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 2)
	do(t, on, "SET", "name", "token")
	const keys, values = "*2\r\n$1\r\n7\r\n*1\r\n$4\r\nname\r\n$0\r\n\r\n", ":1000000\r\n$5\r\ntoken\r\n"
	endless := pretender(t, "$0\r\n\r\n", keys, values+keys)
	listing, err := survey.List(t.Context(), append(servers(t, on), endless), survey.Options{Timeout: long, NodeLimit: 5 * time.Second})
	require.NoError(t, err)
	require.Equal(t, 2, listing.Answered())
	require.ErrorIs(t, listing.Nodes[2].Err, survey.ErrTooManyKeys)
	require.ErrorContains(t, listing.Nodes[2].Err, "too many keys to be listed within 5s")
	require.Len(t, listing.Locks, 1)
	require.Equal(t, 3, listing.Locks[0].On, "what it has said counts")
}

func TestList_SaysThatANodeWithoutAnswerIsTooLate(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 1)
	on[0].Freeze()
	for _, o := range []survey.Options{{Timeout: long, NodeLimit: 100 * time.Millisecond}, {Timeout: 100 * time.Millisecond}} {
		listing, err := survey.List(t.Context(), servers(t, on), o)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, nodeerr.ErrTimeout, listing.Nodes[0].Err)
	}
}
