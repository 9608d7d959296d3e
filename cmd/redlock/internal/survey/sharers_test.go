package survey_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// share takes locks of a name one after the other, and returns when all servers have them. Their metadata are "of 0", "of 1" and so on.
func share(t *testing.T, on []*testredis.Process, urls []string, key string, n int, kind redlock.LockOption) (locks []*redlock.Lock) {
	t.Helper()
	l, err := redlock.Open(urls, pool.WithTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	for i := range n {
		lock, err := l.TryLock(t.Context(), key, kind, redlock.TTL(long), redlock.Metadata(fmt.Sprint("of ", i)))
		require.NoError(t, err)
		locks = append(locks, lock)
		for _, s := range on {
			require.Eventually(t, func() bool {
				count, err := redis.Int(s.Do("ZCARD", "{"+key+"}:sharers"))
				return err == nil && count == i+1
			}, 20*time.Second, time.Millisecond)
		}
	}
	return locks
}

// tokens returns the tokens of holders, each with its slot and the number of its nodes.
func tokens(all []survey.Holder) (texts []string) {
	for _, h := range all {
		texts = append(texts, fmt.Sprintf("%s in %d on %d", string(h.Token), h.Slot, h.Nodes))
	}
	return texts
}

// has returns the text of tokens for a lock.
func has(lock *redlock.Lock, slot, nodes int) string {
	return fmt.Sprintf("%s in %d on %d", string(lock.Token()), slot, nodes)
}

func TestList_ShowsWhoSharesALock(t *testing.T) {
	t.Parallel()
	for kind, option := range map[redlock.Kind]redlock.LockOption{redlock.KindShared: redlock.Shared(), redlock.KindSlot: redlock.Slots(3)} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			on := testredis.Real(t, 5)
			locks := share(t, on, testredis.URLs(on), "lock:name", 3, option)
			key, ends := "{lock:name}:sharers", time.Now().Add(long/2).UnixMilli()
			do(t, on[3:], "ZREM", key, string(locks[2].Token()))
			do(t, on[:2], "ZADD", key, ends, "left over")
			do(t, on, "ZADD", key, 1, "has ended")
			do(t, on, "ZADD", key, "XX", ends, string(locks[1].Token()))
			slots, first, none := [3]int{}, 5, 0
			if kind == redlock.KindSlot {
				slots, first, none = [3]int{5, 0, 1023}, 4, -1
				for i, lock := range locks {
					do(t, on, "ZADD", "{lock:name}:slots", slots[i], string(lock.Token()))
				}
				do(t, on[4:], "ZADD", "{lock:name}:slots", 7, string(locks[0].Token()))
			}
			listing, byName := list(t, on, survey.Options{Prefix: "lock:"})
			require.Equal(t, 5, listing.Answered())
			l := byName["name"]
			require.True(t, l.Held())
			require.Equal(t, kind, l.Kind)
			require.Empty(t, l.Token)
			require.False(t, l.More)
			require.Equal(t, 5, l.On)
			require.ElementsMatch(t, []string{has(locks[0], slots[0], first), has(locks[1], slots[1], 5), has(locks[2], slots[2], 3)}, tokens(l.Holders))
			require.Equal(t, locks[1].Token(), l.Holders[0].Token, "it ends first")
			require.Equal(t, "of 1", l.Holders[0].Metadata)
			require.LessOrEqual(t, l.Holders[0].TTL, long/2)
			require.Equal(t, l.TTL, l.Holders[2].TTL)
			require.Greater(t, l.TTL, long/2)
			require.LessOrEqual(t, l.TTL, long)
			others := []string{fmt.Sprintf("left over in %d on 2", none)}
			if kind == redlock.KindSlot {
				others = append(others, has(locks[0], 7, 1))
			}
			require.ElementsMatch(t, others, tokens(l.Others))
			state, err := lockStateOf(t, on, "lock:name")
			require.NoError(t, err)
			require.Len(t, state.Holders, 3, "as Inspect finds")
			require.Len(t, l.Views[0].Sharers, 4)
			require.Len(t, l.Views[4].Sharers, 2)

			on[4].Stop() // the third is on three nodes
			on[0].Stop()
			listing, err = survey.List(t.Context(), servers(t, on), survey.Options{Prefix: "lock:", Timeout: 2 * time.Second})
			require.NoError(t, err)
			require.Len(t, listing.Locks[0].Holders, 2)
			require.True(t, listing.Locks[0].Held())
		})
	}
}

func lockStateOf(t *testing.T, on []*testredis.Process, name string) (*redlock.LockState, error) {
	t.Helper()
	l, err := redlock.Open(testredis.URLs(on), pool.WithTimeout(time.Minute))
	require.NoError(t, err)
	defer l.Close()
	return l.Inspect(t.Context(), name)
}

// The danger: a mark that remained, with nobody behind it, is shown as a lock that is held.
func TestList_AMarkAloneIsHeldByNobody(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 3)
	do(t, on, "SET", "stray", "|shared", "PX", long.Milliseconds())
	do(t, on, "ZADD", "{split}:sharers", time.Now().Add(long).UnixMilli(), "reader")
	do(t, on[:1], "SET", "split", "|shared", "PX", long.Milliseconds())
	do(t, on[1:], "SET", "split", "|slots", "PX", long.Milliseconds())
	_, locks := list(t, on, survey.Options{})
	require.Equal(t, redlock.VerdictNobody, locks["stray"].Verdict)
	require.Equal(t, redlock.KindShared, locks["stray"].Kind)
	require.Equal(t, 3, locks["stray"].On)
	require.Equal(t, redlock.VerdictNobody, locks["split"].Verdict)
	require.Equal(t, []string{"reader in -1 on 2"}, tokens(locks["split"].Others))
}

func TestList_ShowsTheSharersThatEndLastOfVeryMany(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 3)
	const script = `for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1] , ARGV[2] + i, 'reader ' .. i) end`
	ends := time.Now().Add(long).UnixMilli()
	for name, n := range map[string]int{"most": form.MostSharers, "more": form.MostSharers + 100} {
		do(t, on, "EVAL", script, 1, form.SharersKey(name), n, ends)
		do(t, on, "SET", name, "|shared", "PX", 2*long.Milliseconds())
	}
	for i := range 100 { // so that it takes some messages
		do(t, on, "EVAL", script, 1, form.SharersKey(fmt.Sprint("n", i)), 2, ends)
		do(t, on, "SET", fmt.Sprint("n", i), "|shared", "PX", 2*long.Milliseconds())
	}
	_, locks := list(t, on, survey.Options{})
	require.Len(t, locks, 102)
	require.False(t, locks["most"].More)
	require.Equal(t, redlock.Token("reader 1"), locks["most"].Holders[0].Token)
	require.True(t, locks["more"].More)
	require.Len(t, locks["more"].Holders, form.MostSharers)
	require.Equal(t, redlock.Token("reader 101"), locks["more"].Holders[0].Token)
	require.LessOrEqual(t, locks["more"].TTL, long+time.Second)
	for i := range 100 {
		require.Len(t, locks[fmt.Sprint("n", i)].Holders, 2)
	}
}

// The danger: servers with very many sharers fill the memory of the tool, which lists only how many locks there are otherwise.
func TestList_BoundsTheSharersOfAllLocks(t *testing.T) {
	t.Parallel()
	const names, most = 300, 64 << 20
	on := testredis.Real(t, 1)
	do(t, on, "EVAL", `
		for i = 1, ARGV[1] do
			redis.call('SET', 'name' .. i, '|shared', 'PX', 3600000)
			for j = 1, ARGV[2] do redis.call('ZADD', '{name' .. i .. '}:sharers', ARGV[3] + j, ARGV[4] .. j) end
		end`, 0, names, form.MostSharers, time.Now().Add(long).UnixMilli(), strings.Repeat("r", 960))
	listing, err := survey.List(t.Context(), servers(t, on), survey.Options{Timeout: time.Minute})
	require.NoError(t, err)
	require.Len(t, listing.Locks, names)
	size, marks := 0, 0
	for _, l := range listing.Locks {
		require.True(t, l.Held())
		require.Equal(t, redlock.KindShared, l.Kind)
		if len(l.Holders) == 0 {
			marks++
		}
		for _, h := range l.Holders {
			size += len(h.Token)
		}
	}
	require.Positive(t, marks)
	require.Less(t, marks, names)
	require.Less(t, size, most)
	require.Greater(t, size, most/2)
}

// userOf returns how servers are reached as a user, whom they get with these rights.
func userOf(t *testing.T, on []*testredis.Process, rights ...any) pool.Option {
	t.Helper()
	do(t, on, "ACL", append([]any{"SETUSER", "viewer", "reset", "on", ">secret", "+scan", "+pttl", "+getrange"}, rights...)...)
	return pool.WithCredentials(func(context.Context, string) (string, string, error) { return "viewer", "secret", nil })
}

func TestList_OfAUserWithoutRightsHasTheRest(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 3)
	share(t, on, testredis.URLs(on), "lock:name", 2, redlock.Shared())
	share(t, on, testredis.URLs(on), "lock:slots", 2, redlock.Slots(2))
	plain := take(t, on, "lock:", "plain")
	for name, test := range map[string]struct {
		rights    []any
		who, says bool
	}{
		"all":                   {[]any{"~lock:*", "~{lock:*", "+zrange", "+time", "+pubsub|numsub"}, true, true},
		"no ZRANGE":             {[]any{"~lock:*", "~{lock:*", "+time", "+pubsub|numsub"}, false, true},
		"no TIME":               {[]any{"~lock:*", "~{lock:*", "+zrange", "+pubsub|numsub"}, false, true},
		"no keys of sharers":    {[]any{"~lock:*", "+zrange", "+time", "+pubsub|numsub"}, false, true},
		"no PUBSUB":             {[]any{"~lock:*", "~{lock:*", "+zrange", "+time"}, true, false},
		"no more than was once": {[]any{"~lock:*"}, false, false},
	} {
		listing, err := survey.List(t.Context(), servers(t, on, userOf(t, on, test.rights...)), survey.Options{Prefix: "lock:"})
		require.NoError(t, err, name)
		require.Equal(t, 3, listing.Answered(), name)
		require.Len(t, listing.Locks, 3)
		for i, kind := range []redlock.Kind{redlock.KindShared, redlock.KindExclusive, redlock.KindSlot} {
			l := listing.Locks[i]
			require.True(t, l.Held(), name)
			require.Equal(t, kind, l.Kind, name)
			require.Equal(t, 3, l.On, name)
			require.Equal(t, test.says && len(l.Holders) > 0, l.Kept, "%s: %s", name, l.Name)
			require.Equal(t, test.says, l.Waiting == 0, name)
			require.Equal(t, !test.says, l.Waiting == -1, name)
			switch {
			case kind == redlock.KindExclusive:
				require.Equal(t, plain.Token(), l.Holders[0].Token, name)
			case test.who:
				require.Len(t, l.Holders, 2, name)
				require.LessOrEqual(t, l.TTL, long)
			default:
				require.Empty(t, l.Holders, name)
				require.Greater(t, l.TTL, long, "%s: the mark's", name)
			}
		}
	}
}

// A node that does not show the sharers is as one that does not answer, unless it decides. Then its mark counts.
func TestList_CountsTheMarkOnlyIfTheSharersThatAreShownDoNotDecide(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 3)
	locks := share(t, on, testredis.URLs(on), "lock:name", 2, redlock.Shared())
	rights := []any{"~lock:*", "~{lock:*", "+zrange", "+time"}
	as := userOf(t, on, rights...)
	do(t, on[:1], "ACL", "SETUSER", "viewer", "-zrange")
	do(t, on[2:], "ZREM", "{lock:name}:sharers", string(locks[1].Token()))
	listing, err := survey.List(t.Context(), servers(t, on, as), survey.Options{Prefix: "lock:"})
	require.NoError(t, err)
	require.Equal(t, []string{has(locks[0], 0, 2)}, tokens(listing.Locks[0].Holders))
	do(t, on[1:2], "DEL", "{lock:name}:sharers")
	do(t, on[1:2], "SET", "{lock:name}:sharers", "data of another program")
	listing, err = survey.List(t.Context(), servers(t, on, as), survey.Options{Prefix: "lock:"})
	require.NoError(t, err)
	require.True(t, listing.Locks[0].Held())
	require.Empty(t, listing.Locks[0].Holders)
	require.Equal(t, 3, listing.Locks[0].On)
}

// odd starts a server with one key that has the mark of a kind. It answers commands about it with replies that a test
// chooses.
func odd(t *testing.T, mark string, replies map[string]string) *node.Server {
	t.Helper()
	addr := testredis.Listen(t, func(conn net.Conn) {
		_ = testredis.Answer(conn, func(words []string) (string, bool) {
			command := words[0]
			if command == "ZRANGE" && strings.HasSuffix(words[1], ":slots") {
				command = "slots"
			}
			if reply, has := replies[command]; has {
				return reply, true
			}
			switch words[0] {
			case "SCAN":
				return "*2\r\n" + testredis.Bulk("0") + "*1\r\n" + testredis.Bulk("name"), true
			case "PTTL":
				return ":60000\r\n", true
			case "GETRANGE":
				return testredis.Bulk(mark), true
			case "TIME":
				return array("1764529713", "123456"), true
			case "ZRANGE":
				return array("reader", "1764529799123"), true
			}
			return "-ERR no\r\n", true
		})
	})
	return serversAt(t, []string{"redis://" + addr})[0]
}

// array returns an array of texts in the form of the protocol.
func array(texts ...string) string {
	reply := "*" + strconv.Itoa(len(texts)) + "\r\n"
	for _, text := range texts {
		reply += testredis.Bulk(text)
	}
	return reply
}

// The danger: what a server says of sharers that are none ends the list, or is shown.
func TestList_BelievesNoOddAnswerAboutSharers(t *testing.T) {
	t.Parallel()
	const good = "1764529799123"
	for name, test := range map[string]struct {
		replies map[string]string
		slots   bool
		want    []string // nil: the mark counts
	}{
		"as it should be":              {want: []string{"reader in 0 on 1"}},
		"a time that is a number":      {replies: map[string]string{"TIME": ":1\r\n"}},
		"a time of one part":           {replies: map[string]string{"TIME": array("1764529713")}},
		"a time that is negative":      {replies: map[string]string{"TIME": array("-1764529713", "0")}},
		"a time of numbers":            {replies: map[string]string{"TIME": "*2\r\n:1764529713\r\n:0\r\n"}},
		"sharers that are a text":      {replies: map[string]string{"ZRANGE": "$1\r\nx\r\n"}},
		"sharers that are null":        {replies: map[string]string{"ZRANGE": "$-1\r\n"}},
		"a sharer without an end":      {replies: map[string]string{"ZRANGE": array("reader")}},
		"a sharer that is a number":    {replies: map[string]string{"ZRANGE": "*2\r\n:1\r\n" + testredis.Bulk(good)}},
		"an end that is no time":       {replies: map[string]string{"ZRANGE": array("reader", "1.5")}},
		"an end that is infinite":      {replies: map[string]string{"ZRANGE": array("reader", "inf")}},
		"an end that is too large":     {replies: map[string]string{"ZRANGE": array("reader", "9007199254740992")}},
		"an end that is a number":      {replies: map[string]string{"ZRANGE": "*2\r\n" + testredis.Bulk("reader") + ":1764529799123\r\n"}},
		"a token that is too long":     {replies: map[string]string{"ZRANGE": array(strings.Repeat("t", 1025), good)}},
		"a sharer that is there twice": {replies: map[string]string{"ZRANGE": array("reader", good, "reader", good)}},
		"no sharers":                   {replies: map[string]string{"ZRANGE": "*0\r\n"}, want: []string{}},
		"sharers that have ended":      {replies: map[string]string{"ZRANGE": array("reader", "1764529713122")}, want: []string{}},
		"a slot": {
			replies: map[string]string{"slots": array("reader", "1023")}, slots: true, want: []string{"reader in 1023 on 1"},
		},
		"a slot that is none":      {replies: map[string]string{"slots": array("reader", "1024")}, slots: true, want: []string{}},
		"a slot that is no number": {replies: map[string]string{"slots": array("reader", "x")}, slots: true},
		"slots that are a text":    {replies: map[string]string{"slots": "+OK\r\n"}, slots: true},
	} {
		t.Run(name, func(t *testing.T) {
			mark := map[bool]string{false: "|shared", true: "|slots"}[test.slots]
			listing, err := survey.List(t.Context(), []*node.Server{odd(t, mark, test.replies)}, survey.Options{Timeout: 10 * time.Second})
			require.NoError(t, err)
			require.Len(t, listing.Locks, 1)
			l := listing.Locks[0]
			require.Equal(t, test.want == nil || len(test.want) > 0, l.Held())
			require.Equal(t, test.want != nil, l.Views[0].Shown)
			require.Equal(t, len(test.want), len(l.Holders))
			require.ElementsMatch(t, test.want, tokens(l.Holders))
		})
	}
}

func TestList_CountsWhoWaitsByTheMedianOfTheNodes(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 5)
	take(t, on, "lock:", "name")
	do(t, on, "SET", "lock:"+strings.Repeat("n", 2000), "token")
	for i, waiting := range []int{2, 2, 2, 3, 0} {
		for range waiting {
			testredis.Subscribe(t, on[i:][:1], form.WaitChannel("lock:name"))
		}
	}
	_, locks := list(t, on, survey.Options{Prefix: "lock:"})
	require.Equal(t, 2, locks["name"].Waiting)
	require.Equal(t, -1, locks[strings.Repeat("n", 2000)].Waiting, "no process waits for such a name")
}

func TestList_ShowsThatNoProcessListensForALock(t *testing.T) {
	t.Parallel()
	on := testredis.Real(t, 5)
	plain := take(t, on, "lock:", "plain")
	readers := share(t, on, testredis.URLs(on), "lock:readers", 2, redlock.Shared())
	gone := token.WithMetadata(token.Random(token.NewOwner()), "gone")
	do(t, on, "ZADD", "{lock:readers}:sharers", time.Now().Add(long).UnixMilli(), gone)
	do(t, on, "SET", "lock:theirs", "another client's", "PX", long.Milliseconds())
	do(t, on, "SET", "lock:few", gone, "PX", long.Milliseconds())
	do(t, on[2:], "SET", "lock:few", "another's", "PX", long.Milliseconds())
	_, locks := list(t, on, survey.Options{Prefix: "lock:"})
	require.True(t, locks["plain"].Kept)
	require.True(t, locks["plain"].Holders[0].Kept)
	require.True(t, locks["readers"].Kept)
	require.False(t, locks["theirs"].Kept, "it may not know of channels")
	require.False(t, locks["few"].Kept)

	testredis.Subscribe(t, on[4:][:1], form.OwnerChannel(token.Owner(string(plain.Token()))))
	testredis.Subscribe(t, on[0:][:1], form.OwnerChannel(token.Owner(string(readers[0].Token()))))
	_, locks = list(t, on, survey.Options{Prefix: "lock:"})
	require.False(t, locks["plain"].Kept, "a node knows of the process")
	require.False(t, locks["readers"].Kept)
	for _, h := range locks["readers"].Holders {
		require.Equal(t, string(h.Token) == gone, h.Kept)
	}
}

func TestReadSubscribers_BelievesOnlyAnAnswerToTheQuestion(t *testing.T) {
	t.Parallel()
	channels := []string{"a", "b"}
	require.Equal(t, []string{"PUBSUB", "NUMSUB", "{q}a", "{q}b"}, survey.AskSubscribers("{q}", channels))
	require.Equal(t, []int{0, 2}, survey.ReadSubscribers("{q}", channels, []any{"{q}a", int64(0), "{q}b", int64(2)}))
	require.Equal(t, []int{0, 1<<31 - 1}, survey.ReadSubscribers("", channels, []any{"a", int64(0), "b", int64(1 << 60)}))
	for name, reply := range map[string]any{
		"a text": "OK", "null": nil, "too few": []any{"a", int64(0)}, "too many": []any{"a", int64(0), "b", int64(0), "c", int64(0)},
		"another channel": []any{"a", int64(0), "c", int64(0)}, "another order": []any{"b", int64(0), "a", int64(0)},
		"a negative number": []any{"a", int64(0), "b", int64(-1)}, "a text as number": []any{"a", int64(0), "b", "1"},
		"a channel that is a number": []any{int64(0), int64(0), "b", int64(1)},
	} {
		require.Nil(t, survey.ReadSubscribers("", channels, reply), name)
	}
	require.Nil(t, survey.ReadSubscribers("{q}", channels, []any{"a", int64(0), "b", int64(2)}))
}
