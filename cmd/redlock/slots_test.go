package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestInspect_ShowsEachSlotWithItsSlot(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--key-prefix=lock:")
	locks := shares(t, on, "lock:", "name", 2, redlock.Slots(2))
	const sharers, slots = "{lock:name}:sharers", "{lock:name}:slots"
	for i, lock := range locks {
		do(t, on, "ZADD", slots, 7+i, string(lock.Token()))
	}
	do(t, on[4:], "ZADD", slots, 9, string(locks[1].Token()))
	do(t, on[3:4], "ZREM", slots, string(locks[1].Token()))
	do(t, on[:1], "ZADD", sharers, time.Now().Add(eternity/2).UnixMilli(), "one's")
	out := steady(succeed(t, flags, "inspect", "name"))
	first, second := string(locks[0].Token())[:15], string(locks[1].Token())[:15]
	for _, text := range []string{
		on[0].Addr() + " 3 slots T ", on[4].Addr() + " 2 slots T ",
		"HOLDER SLOT TTL LEFT NODES METADATA ", first + "… 7 T 5/5 of 0 ", second + "… 8 T 3/5 of 1 ", second + "… 9 T 1/5 of 1 ", second + "… none T 1/5 of 1 ",
		"one's none T 1/5 ",
		"Held by 2 slots: each is on at least 3 of 5 nodes, the last one for T more. They keep writers and readers out, and who asks for one of as",
		"On fewer nodes there are 1 more, who do not hold it.",
	} {
		require.Contains(t, out, steady(text)) // a part of a token may look like a time
	}
	require.NotContains(t, out, "READER")
	require.NotContains(t, out, "A writer waits")
	document := decoded[inspection](t, succeed(t, flags, "inspect", "name", "--json"))
	require.Equal(t, redlock.KindSlot, document.Kind)
	require.Empty(t, document.Readers)
	require.Len(t, document.Slots, 5)
	slices.SortFunc(document.Slots, func(a, b sharerJSON) int { return b.On - a.On }) // they are in the order of their TTLs
	slot := 7
	require.Equal(t, sharerJSON{string(locks[0].Token()), &slot, "of 0", document.Slots[0].TTL, 5, true}, document.Slots[0])
	require.Equal(t, 8, *document.Slots[1].Slot)
	require.ElementsMatch(t, []string{string(locks[0].Token()), string(locks[1].Token())}, document.Nodes[4].Slots)
	require.Empty(t, document.Nodes[4].Readers)

	require.Eventually(t, func() bool { // what a writer sets is soon over
		do(t, on, "EVAL", form.Scripts["share_want"].Source, 1, "{lock:name}:wanted", "0|process", 3000)
		return strings.Contains(steady(succeed(t, flags, "inspect", "name")), "A writer waits, so nobody else comes in.") &&
			decoded[inspection](t, succeed(t, flags, "inspect", "name", "--json")).Waits
	}, 20*time.Second, time.Millisecond)

	do(t, on, "SET", "lock:stray", "|slots")
	out = steady(succeed(t, flags, "inspect", "stray"))
	require.Contains(t, out, "Held by nobody: no token and no slot is on a majority (3). a key left by slots on 5. The keys of slots keep writers out")
}

func TestUnlock_EndsSlots(t *testing.T) {
	on, flags := real5(t)
	locks := shares(t, on, "", "name", 3, redlock.Slots(3))
	succeed(t, flags, "unlock", "name", "--token="+string(locks[0].Token()))
	eventuallyShared(t, on, "name", 2)
	require.Contains(t, refused(t, exitLost, flags, "unlock", "name", "--token="+string(locks[0].Token())), "lock is not held by this token. Held by 2 slots")
	require.NoError(t, locks[1].Extend(t.Context(), eternity))

	flags = append(flags, "--force", "--yes")
	code, out, record := call(t.Context(), with(flags, "unlock", "name")...)
	require.Zero(t, code, record)
	require.Equal(t, "redlock: forced unlock key=\"name\" removed=5 nodes=5 holder=\"2 slots\"\n", record)
	before, after, _ := strings.Cut(steady(out), "Removed:")
	for _, part := range []string{before, after} {
		require.Contains(t, part, on[4].Addr()+" 2 slots T")
	}
	for _, key := range []string{"name", "{name}:sharers", "{name}:slots"} {
		for _, s := range on {
			there, err := s.Do("EXISTS", key)
			require.NoError(t, err)
			require.Zero(t, there, key)
		}
	}
	do(t, on, "SET", "stray", "|slots")
	require.Contains(t, refused(t, 0, flags, "unlock", "stray"), "removed=5 nodes=5 holder=\"\"")
	require.Equal(t, make([]string, 5), values(t, on, "stray"))
}
