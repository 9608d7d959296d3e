package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// shares takes locks of a name one by one, so that each has the same slot on all servers, if it is one. Their metadata are "of 0", "of 1" and
// so on.
func shares(t *testing.T, on []*testredis.Process, prefix, name string, n int, kind redlock.LockOption) (locks []*redlock.Lock) {
	t.Helper()
	locker, err := redlock.Open(testredis.URLs(on), redlock.WithKeyPrefix(prefix), redlock.TTL(eternity), pool.WithTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locker.Close()) })
	for i := range n {
		lock, err := locker.TryLock(t.Context(), name, redlock.Metadata(fmt.Sprint("of ", i)), kind)
		require.NoError(t, err)
		locks = append(locks, lock)
		eventuallyShared(t, on, prefix+name, i+1)
	}
	return locks
}

// eventuallyShared waits until each server has so many readers of a key.
func eventuallyShared(t *testing.T, on []*testredis.Process, key string, n int) {
	t.Helper()
	for _, s := range on {
		require.Eventually(t, func() bool {
			count, err := redis.Int(s.Do("ZCARD", "{"+key+"}:sharers"))
			return err == nil && count == n
		}, 20*time.Second, time.Millisecond, "%d readers on %s", n, s.Addr())
	}
}

func TestList_ShowsARowForThoseThatShare(t *testing.T) {
	for kind, test := range map[redlock.Kind]struct {
		option      redlock.LockOption
		mark, other string
		is          redlock.Kind // of a key that three nodes of five hold with the mark, or with the other value
		shown       string
	}{
		redlock.KindShared: {redlock.Shared(), "|shared", "token", redlock.KindExclusive, "token T 3/5 "},
		redlock.KindSlot:   {redlock.Slots(2), "|slots", "|shared", redlock.KindShared, "slots readers T 5/5 held by nobody "},
	} {
		t.Run(string(kind), func(t *testing.T) {
			on, flags := real5(t)
			shares(t, on, "lock:", "held", 2, test.option)
			do(t, on[:2], "SET", "lock:mixed", test.mark, "PX", eternity.Milliseconds())
			do(t, on[2:], "SET", "lock:mixed", test.other, "PX", eternity.Milliseconds())
			do(t, on[:1], "SET", "lock:left", test.mark)
			do(t, on[:1], "SET", "{lock:held}:wanted", "|wanted")
			do(t, on, "SET", "lock:odd", "|another's", "PX", eternity.Milliseconds()) // of a client that knows no marks
			many := display.Nouns(kind)
			for prefix, shown := range map[string]string{"lock:": " ", "": " lock:"} {
				out := steady(succeed(t, flags, "list", "--key-prefix="+prefix))
				require.Regexp(t, shown+"held 2 "+many+`: of [01], \+1 T 5/5 kept `, out)
				require.Contains(t, out, shown+"left "+many+" no TTL 1/5 held by nobody, no TTL ")
				require.Contains(t, out, shown+"mixed "+test.shown)
				require.Contains(t, out, "4 locks, 5 of 5 nodes answered.", "companion keys are none")
			}
			document := decoded[listJSON](t, succeed(t, flags, "list", "--json", "--key-prefix=lock:"))
			held, left, mixed, odd := document.Locks[0], document.Locks[1], document.Locks[2], document.Locks[3]
			require.Equal(t, kind, held.Kind)
			require.Empty(t, held.Token)
			require.Equal(t, redlock.VerdictHeld, held.Verdict)
			require.LessOrEqual(t, held.TTL, eternity.Milliseconds(), "the last sharer's, and not the mark's")
			require.Equal(t, kind, held.Nodes[0].Kind)
			require.Empty(t, held.Nodes[0].Token)
			require.Equal(t, kind, left.Kind)
			require.Equal(t, redlock.VerdictNobody, left.Verdict)
			require.Equal(t, test.is, mixed.Kind)
			require.Equal(t, kind, mixed.Nodes[0].Kind)
			require.Equal(t, test.is, mixed.Nodes[4].Kind)
			require.Equal(t, redlock.KindExclusive, odd.Kind)
			require.Equal(t, "|another's", odd.Token)
		})
	}
}

func TestInspect_ShowsEachReader(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--key-prefix=lock:")
	locks := shares(t, on, "lock:", "name", 2, redlock.Shared())
	do(t, on[3:], "ZREM", "{lock:name}:sharers", string(locks[1].Token()))
	do(t, on[:1], "ZADD", "{lock:name}:sharers", time.Now().Add(eternity/2).UnixMilli(), "one's\x1b[2J")
	out := succeed(t, flags, "inspect", "name")
	require.NotContains(t, out, "\x1b")
	out = steady(out)
	for _, text := range []string{
		on[0].Addr() + " 3 readers T ", on[4].Addr() + " 1 reader T ",
		"READER TTL LEFT NODES METADATA ", string(locks[0].Token())[:15] + "… T 5/5 of 0 ", string(locks[1].Token())[:15] + "… T 3/5 of 1 ", `one's\x1b[2J T 1/5 `,
		"Held by 2 readers: each is on at least 3 of 5 nodes, the last one for T more. They keep writers out, and nobody else. On fewer nodes there are 1 more",
	} {
		require.Contains(t, out, steady(text)) // a part of a token may look like a time
	}
	require.Contains(t, succeed(t, flags, "inspect", "name", "--full"), string(locks[0].Token()))
	document := decoded[inspection](t, succeed(t, flags, "inspect", "name", "--json"))
	require.Equal(t, redlock.KindShared, document.Kind)
	require.Empty(t, document.Token)
	require.Len(t, document.Readers, 3)
	slices.SortFunc(document.Readers, func(a, b sharerJSON) int { return b.On - a.On }) // they are in the order of their TTLs
	require.Equal(t, sharerJSON{string(locks[0].Token()), nil, "of 0", document.Readers[0].TTL, 5, true}, document.Readers[0])
	require.Equal(t, sharerJSON{string(locks[1].Token()), nil, "of 1", document.Readers[1].TTL, 3, true}, document.Readers[1])
	require.Equal(t, 1, document.Readers[2].On)
	require.Greater(t, document.Readers[0].TTL, eternity.Milliseconds()/2)
	require.Equal(t, redlock.KindShared, document.Nodes[4].Kind)
	require.Equal(t, []string{string(locks[0].Token())}, document.Nodes[4].Readers)

	do(t, on, "SET", "lock:stray", "|shared")
	out = steady(succeed(t, flags, "inspect", "stray"))
	require.Contains(t, out, "Held by nobody: no token and no reader is on a majority (3). a key left by readers on 5. The keys of readers keep writers out of these nodes until they expire")
	require.Contains(t, out, `removed by "redlock unlock stray --force"`)
	require.Empty(t, decoded[inspection](t, succeed(t, flags, "inspect", "free", "--json")).Kind)

	do(t, on[:2], "DEL", "lock:stray")
	do(t, on[2:4], "ZADD", "{lock:stray}:sharers", time.Now().Add(eternity/2).UnixMilli(), "one")
	out = steady(succeed(t, flags, "inspect", "stray"))
	require.Contains(t, out, " readers on 2, a key left by readers on 1, nothing on 2. The keys of readers keep")
}

// The danger: the time that is left of a key, which stays after its readers, seems to be when a writer may come.
func TestInspect_ShowsWhenTheLastReaderOfANodeEnds(t *testing.T) {
	on, flags := real5(t)
	do(t, on, "SET", "name", "|shared", "PX", (100 * eternity).Milliseconds())
	do(t, on[1:], "ZADD", "{name}:sharers", time.Now().Add(2*eternity).UnixMilli(), "one")
	do(t, on[1:], "ZADD", "{name}:sharers", time.Now().Add(10*eternity).UnixMilli(), "two")
	do(t, on[4:], "PERSIST", "name")
	inspected := succeed(t, flags, "inspect", "name")
	_, removed, _ := call(t.Context(), with(flags, "unlock", "name", "--force", "--yes")...)
	before, _, _ := strings.Cut(removed, "Removed:")
	for _, out := range []string{inspected, before} {
		require.Regexp(t, on[0].Addr()+` +0 readers +(100|99)h`, out, "only the key is there")
		require.Regexp(t, on[1].Addr()+` +2 readers +(10|9)h`, out)
		require.Regexp(t, on[4].Addr()+` +2 readers +no TTL`, out)
	}
}

func TestUnlock_EndsOneReaderByItsToken(t *testing.T) {
	on, flags := real5(t)
	locks := shares(t, on, "", "name", 2, redlock.Shared())
	succeed(t, flags, "unlock", "name", "--token="+string(locks[0].Token()))
	eventuallyShared(t, on, "name", 1)
	errors := refused(t, exitLost, flags, "unlock", "name", "--token="+string(locks[0].Token()))
	require.Contains(t, errors, "lock is not held by this token. Held by 1 reader: each is on at least 3 of 5 nodes")
	require.NoError(t, locks[1].Extend(t.Context(), eternity))
}

func TestUnlock_ByForceEndsTheReadersThatItHasShown(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--key-prefix=lock:", "--force", "--yes")
	locks := shares(t, on, "lock:", "name", 300, redlock.Shared())
	do(t, on[:2], "ZREM", "{lock:name}:sharers", string(locks[0].Token()))
	code, out, record := call(t.Context(), with(flags, "unlock", "name")...)
	require.Zero(t, code, record)
	require.Equal(t, "redlock: forced unlock key=\"lock:name\" removed=5 nodes=5 holder=\"300 readers\"\n", record)
	before, after, _ := strings.Cut(steady(out), "Removed:")
	for _, part := range []string{before, after} {
		require.Contains(t, part, on[0].Addr()+" 299 readers T ")
		require.Contains(t, part, on[4].Addr()+" 300 readers T")
	}
	require.Equal(t, make([]string, 5), values(t, on, "lock:name"))
	require.ErrorIs(t, locks[1].Unlock(t.Context()), redlock.ErrNotHeld)

	do(t, on, "SET", "lock:stray", "|shared")
	require.Contains(t, refused(t, 0, flags, "unlock", "stray"), "removed=5 nodes=5 holder=\"\"")
	require.Equal(t, make([]string, 5), values(t, on, "lock:stray"))
}
