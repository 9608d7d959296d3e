package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// permits takes all of n permits of a name one by one, so that each has the same slot on all servers. Their metadata are "of 0", "of 1" and so on.
func permits(t *testing.T, on []*testredis.Process, prefix, name string, n int) (locks []*redlock.Lock) {
	t.Helper()
	locker, err := redlock.Open(testredis.URLs(on), redlock.WithKeyPrefix(prefix), redlock.TTL(eternity), redlock.WithPoolOptions(pool.WithTimeout(time.Minute)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locker.Close()) })
	for i := range n {
		lock, err := locker.TryLock(t.Context(), name, redlock.Metadata(fmt.Sprint("of ", i)), redlock.Slots(n))
		require.NoError(t, err)
		locks = append(locks, lock)
		eventuallyShared(t, on, prefix+name, i+1)
	}
	return locks
}

func TestList_ShowsARowForPermits(t *testing.T) {
	on, flags := real5(t)
	permits(t, on, "lock:", "held", 2)
	do(t, on[:3], "SET", "lock:mixed", "|permits", "PX", eternity.Milliseconds())
	do(t, on[3:], "SET", "lock:mixed", "|readers", "PX", eternity.Milliseconds())
	do(t, on[:1], "SET", "lock:left", "|permits")
	for prefix, shown := range map[string]string{"lock:": " ", "": " lock:"} {
		out := steady(succeed(t, flags, "list", "--key-prefix="+prefix))
		require.Contains(t, out, shown+"held permits T 5/5 ")
		require.Contains(t, out, shown+"left permits no TTL 1/5 held by nobody, no TTL ")
		require.Contains(t, out, shown+"mixed permits T 3/5 ")
		require.Contains(t, out, "3 locks, 5 of 5 nodes answered.", "the keys beside them are none")
	}
	document := decoded[listJSON](t, succeed(t, flags, "list", "--json", "--key-prefix=lock:"))
	held, left, mixed := document.Locks[0], document.Locks[1], document.Locks[2]
	require.Equal(t, redlock.KindPermit, held.Kind)
	require.Empty(t, held.Token)
	require.Equal(t, redlock.VerdictHeld, held.Verdict)
	require.Equal(t, redlock.KindPermit, held.Nodes[0].Kind)
	require.Empty(t, held.Nodes[0].Token)
	require.Equal(t, redlock.KindPermit, left.Kind)
	require.Equal(t, redlock.VerdictNobody, left.Verdict)
	require.Equal(t, redlock.KindPermit, mixed.Kind)
	require.Equal(t, redlock.KindRead, mixed.Nodes[4].Kind)
}

func TestInspect_ShowsEachPermitWithItsSlot(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--key-prefix=lock:")
	locks := permits(t, on, "lock:", "name", 2)
	const sharers, slots = "{lock:name}:sharers", "{lock:name}:slots"
	for i, lock := range locks {
		do(t, on, "ZADD", slots, 7+i, lock.Token())
	}
	do(t, on[4:], "ZADD", slots, 9, locks[1].Token())
	do(t, on[3:4], "ZREM", slots, locks[1].Token())
	do(t, on[:1], "ZADD", sharers, time.Now().Add(eternity/2).UnixMilli(), "one's")
	out := steady(succeed(t, flags, "inspect", "name"))
	first, second := locks[0].Token()[:15], locks[1].Token()[:15]
	for _, text := range []string{
		on[0].Addr() + " 3 permits T ", on[4].Addr() + " 2 permits T ",
		"PERMIT SLOT TTL LEFT NODES METADATA ", first + "… 7 T 5/5 of 0 ", second + "… 8 T 3/5 of 1 ", second + "… 9 T 1/5 of 1 ", second + "… none T 1/5 of 1 ",
		"one's none T 1/5 ",
		"Held by 2 permits: each is on at least 3 of 5 nodes, the last one for T more. They keep writers and readers out, and who asks for a permit if",
		"On fewer nodes there are 1 more, who do not hold it.",
	} {
		require.Contains(t, out, steady(text)) // a part of a token may look like a time
	}
	require.NotContains(t, out, "READER")
	require.NotContains(t, out, "A writer waits")
	document := decoded[inspection](t, succeed(t, flags, "inspect", "name", "--json"))
	require.Equal(t, redlock.KindPermit, document.Kind)
	require.Empty(t, document.Readers)
	require.Len(t, document.Permits, 5)
	slices.SortFunc(document.Permits, func(a, b sharerJSON) int { return b.On - a.On }) // they are in the order of their TTLs
	slot := 7
	require.Equal(t, sharerJSON{locks[0].Token(), &slot, "of 0", document.Permits[0].TTL, 5}, document.Permits[0])
	require.Equal(t, 8, *document.Permits[1].Slot)
	require.Equal(t, []string{locks[0].Token(), locks[1].Token()}, document.Nodes[4].Permits)
	require.Empty(t, document.Nodes[4].Readers)

	require.Eventually(t, func() bool { // what a writer sets is soon over
		do(t, on, "SET", "{lock:name}:wanted", "|wanted", "PX", 3000)
		return strings.Contains(steady(succeed(t, flags, "inspect", "name")), "A writer waits, so no more permits come in.") &&
			decoded[inspection](t, succeed(t, flags, "inspect", "name", "--json")).Waits
	}, 20*time.Second, time.Millisecond)

	do(t, on, "SET", "lock:stray", "|permits")
	out = steady(succeed(t, flags, "inspect", "stray"))
	require.Contains(t, out, "Held by nobody: no token and no permit is on a majority (3). the mark of permits on 5. The mark of permits keeps writers out")
}

func TestUnlock_EndsPermits(t *testing.T) {
	on, flags := real5(t)
	locks := permits(t, on, "", "name", 3)
	succeed(t, flags, "unlock", "name", "--token="+locks[0].Token())
	eventuallyShared(t, on, "name", 2)
	require.Contains(t, refused(t, exitLost, flags, "unlock", "name", "--token="+locks[0].Token()), "lock is not held by this token. Held by 2 permits")
	require.NoError(t, locks[1].Extend(t.Context(), eternity))

	flags = append(flags, "--force", "--yes")
	code, out, record := call(t.Context(), with(flags, "unlock", "name")...)
	require.Zero(t, code, record)
	require.Equal(t, "redlock: forced unlock key=\"name\" removed=5 nodes=5 holder=\"2 permits\"\n", record)
	before, after, _ := strings.Cut(steady(out), "Removed:")
	for _, part := range []string{before, after} {
		require.Contains(t, part, on[4].Addr()+" 2 permits T")
	}
	for _, key := range []string{"name", "{name}:sharers", "{name}:slots"} {
		for _, s := range on {
			there, err := s.Do("EXISTS", key)
			require.NoError(t, err)
			require.Zero(t, there, key)
		}
	}
	do(t, on, "SET", "stray", "|permits")
	require.Contains(t, refused(t, 0, flags, "unlock", "stray"), "removed=5 nodes=5 holder=\"\"")
	require.Equal(t, make([]string, 5), values(t, on, "stray"))
}
