package main

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/redlock"
)

// mute makes the servers refuse PUBSUB to a user, whom the tool is from then on.
func mute(t *testing.T, on []*testredis.Process) {
	t.Helper()
	do(t, on, "ACL", "SETUSER", "viewer", "on", ">secret", "~*", "&*", "+@all", "-pubsub")
	t.Setenv("REDLOCK_USERNAME", "viewer")
	t.Setenv("REDLOCK_PASSWORD", "secret")
}

func TestInspect_SaysWhoWaitsAndWhetherTheHolderListens(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--key-prefix=lock:")
	held := decoded[heldJSON](t, succeed(t, flags, "try", "name", "--ttl=2h", "--json")).Token
	eventuallyHeld(t, on, "lock:name", held)
	const kept = "Kept: no process listens for the holder."
	out := steady(succeed(t, flags, "inspect", "name"))
	require.Contains(t, out, kept+` "run --at-least" or "try" left the lock to its TTL`)
	require.NotContains(t, out, "wait for it")
	document := decoded[inspection](t, succeed(t, flags, "inspect", "name", "--json"))
	require.True(t, document.Kept)
	require.Zero(t, *document.Waiting)
	require.Contains(t, document.Text, kept)

	testredis.Subscribe(t, on[:4], form.WaitChannel("lock:name"))
	out = steady(succeed(t, flags, "inspect", "name"))
	require.Contains(t, out, "1 process waits for it. "+kept)
	testredis.Subscribe(t, on[:3], form.WaitChannel("lock:name"))
	testredis.Subscribe(t, on[4:], form.OwnerChannel(token.Owner(held)))
	out = steady(succeed(t, flags, "inspect", "name"))
	require.Contains(t, out, "2 processes wait for it.")
	require.NotContains(t, out, "Kept")
	document = decoded[inspection](t, succeed(t, flags, "inspect", "name", "--json"))
	require.Equal(t, 2, *document.Waiting)
	require.False(t, document.Kept)

	mute(t, on)
	out = steady(succeed(t, flags, "inspect", "name"))
	require.Contains(t, out, "Held by a majority: 5 of 5 nodes")
	require.NotContains(t, out, "wait for it")
	document = decoded[inspection](t, succeed(t, flags, "inspect", "name", "--json"))
	require.Nil(t, document.Waiting)
	require.False(t, document.Kept)
	require.Zero(t, decoded[inspection](t, succeed(t, flags, "inspect", "free", "--json")).Kept)
}

func TestInspect_SaysForWhichReadersNoProcessListens(t *testing.T) {
	on, flags := real5(t)
	locks := shares(t, on, "", "name", 2, redlock.Shared())
	gone := shares(t, on, "", "other", 1, redlock.Shared())[0]
	do(t, on, "ZADD", "{name}:sharers", "9007199254740991", string(gone.Token()))
	testredis.Subscribe(t, on, form.OwnerChannel(token.Owner(string(locks[0].Token()))))
	out := steady(succeed(t, flags, "inspect", "name"))
	require.Contains(t, out, "Kept: no process listens for 1 of the 3 readers.")
	require.Contains(t, out, "5/5 of 0 kept")
	require.NotContains(t, out, "5/5 of 1 kept")
	document := decoded[inspection](t, succeed(t, flags, "inspect", "name", "--json"))
	require.False(t, document.Kept)
	for _, r := range document.Readers {
		require.Equal(t, r.Token == string(gone.Token()), r.Kept)
	}
	on[4].Stop()
	on[3].Stop()
	out = steady(succeed(t, flags, "inspect", "name"))
	require.Contains(t, out, "Kept: no process listens for 1 of the 3 readers.", "a majority says so")
}

func TestList_ShowsWhoWaitsAndWhichLocksAreKept(t *testing.T) {
	on, flags := real5(t)
	held := decoded[heldJSON](t, succeed(t, flags, "try", "held", "--ttl=2h", "--json")).Token
	eventuallyHeld(t, on, "held", held)
	readers := shares(t, on, "", "readers", 3, redlock.Shared())
	shares(t, on, "", "slot", 1, redlock.Slots(4))
	testredis.Subscribe(t, on, form.WaitChannel("held"))
	require.Contains(t, steady(succeed(t, flags, "list", "held")), " T 5/5 1 waits, kept 1 lock,")
	testredis.Subscribe(t, on, form.WaitChannel("held"))
	do(t, on, "SET", "plain", "token", "PX", eternity.Milliseconds())
	do(t, on[:1], "SET", "few", "token", "PX", eternity.Milliseconds())
	out := steady(succeed(t, flags, "list"))
	require.Contains(t, out, " T 5/5 2 wait, kept plain token T 5/5 readers 3 readers: of ")
	require.Contains(t, out, ", +2 T 5/5 kept slot 1 slot: of 0 T 5/5 kept 5 locks")
	require.Equal(t, []string{"few", "held", "readers", "slot"}, firstCells(succeed(t, flags, "list", "--remarks")), "the rest of the column too")
	require.Equal(t, []string{"readers"}, firstCells(succeed(t, flags, "list", "--holder=of 2")))
	full := succeed(t, flags, "list", "--full", "readers")
	for _, lock := range readers {
		require.Contains(t, full, string(lock.Token()))
	}

	document := decoded[listJSON](t, succeed(t, flags, "list", "--json"))
	few, one, three, slot := document.Locks[0], document.Locks[1], document.Locks[3], document.Locks[4]
	require.Equal(t, []string{"2 wait", "kept"}, one.Remarks)
	require.Empty(t, few.Holders)
	require.False(t, few.Kept)
	require.Equal(t, 2, *one.Waiting)
	require.True(t, one.Kept)
	require.Equal(t, []sharerJSON{{Token: held, Metadata: one.Metadata, TTL: one.TTL, On: 5, Kept: true}}, one.Holders)
	require.Zero(t, *three.Waiting)
	require.Len(t, three.Holders, 3)
	require.Equal(t, three.TTL, three.Holders[2].TTL)
	require.Nil(t, three.Holders[0].Slot)
	require.NotNil(t, slot.Holders[0].Slot)
	require.Equal(t, "of 0", slot.Holders[0].Metadata)

	testredis.Subscribe(t, on[:1], form.OwnerChannel(token.Owner(string(readers[0].Token()))))
	require.Contains(t, steady(succeed(t, flags, "list", "readers")), ", +2 T 5/5 1 lock,")
	stranger := shares(t, on, "", "stranger", 1, redlock.Shared())[0]
	do(t, on, "ZADD", "{readers}:sharers", "9007199254740991", string(stranger.Token()))
	require.Contains(t, steady(succeed(t, flags, "list", "readers")), ", +3 T 5/5 1 kept 1 lock,")
	mute(t, on)
	out = succeed(t, flags, "list")
	require.NotContains(t, out, "kept")
	require.NotContains(t, out, "wait")
	require.Nil(t, decoded[listJSON](t, succeed(t, flags, "list", "--json")).Locks[1].Waiting)
}

func TestUnlock_ByForceShowsEachReaderBefore(t *testing.T) {
	on, flags := real5(t)
	locks := shares(t, on, "", "name", 2, redlock.Slots(2))
	code, out, _ := call(t.Context(), with(flags, "unlock", "name", "--force", "--yes")...)
	require.Zero(t, code)
	out = steady(out)
	for i, lock := range locks {
		begin := regexp.QuoteMeta(steady(fmt.Sprintf("%.15s…", string(lock.Token())))) // a part of a token may look like a time
		require.Regexp(t, fmt.Sprintf("%s [01] T 5/5 of %d kept", begin, i), out)
	}
}
