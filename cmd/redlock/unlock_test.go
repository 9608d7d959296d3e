package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestUnlock_FreesOnlyTheLockOfTheToken(t *testing.T) {
	on, flags := real5(t)
	taken := decoded[heldJSON](t, succeed(t, flags, "try", "name", "--ttl=1h", "--fencing", "--json"))
	eventuallyHeld(t, on, "name", fmt.Sprintf("%s|%d", taken.Token, taken.Fence))
	errors := refused(t, exitLost, flags, "unlock", "name", "--token=other")
	require.Contains(t, errors, "lock is not held by this token. Held by a majority: 5 of 5 nodes hold the token "+taken.Token[:15])
	eventuallyHeld(t, on, "name", fmt.Sprintf("%s|%d", taken.Token, taken.Fence))
	t.Setenv("REDLOCK_TOKEN", taken.Token)
	require.Empty(t, succeed(t, flags, "unlock", "name"))
	eventuallyHeld(t, on, "name", "")
	require.Contains(t, refused(t, exitLost, flags, "unlock", "name"), "Held by nobody")
}

func TestUnlock_FreesAKeyWithoutTTLByItsToken(t *testing.T) {
	on, flags := real5(t)
	do(t, on[:4], "SET", "name", "theirs")
	succeed(t, flags, "unlock", "name", "--token=theirs")
	eventuallyHeld(t, on, "name", "")

	do(t, on[:2], "SET", "name", "theirs")
	errors := refused(t, exitLost, flags, "unlock", "name", "--token=theirs")
	require.Contains(t, errors, "theirs on 2, nothing on 3.")
	require.Contains(t, errors, `removed by "redlock unlock name --force"`)
	require.Equal(t, []string{"theirs", "theirs", "", "", ""}, values(t, on, "name"), "a minority holds no lock")
}

func TestUnlock_ByForceSaysWhatItHasRemoved(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--key-prefix=lock:", "--force", "--yes")
	require.Equal(t, "There is nothing to remove. Held by nobody: nothing on 5.\n", succeed(t, flags, "unlock", "name"))

	do(t, on[:2], "SET", "lock:name", "token\x1b[2J", "PX", eternity.Milliseconds())
	do(t, on[2:3], "SET", "lock:name", "ever")
	do(t, on[3:4], "RPUSH", "lock:name", "data")
	code, out, record := call(t.Context(), with(flags, "unlock", "name")...)
	require.Zero(t, code, record)
	require.Equal(t, "redlock: forced unlock key=\"lock:name\" removed=3 nodes=5 holder=\"\"\n", record)
	out = steady(out)
	before, after, found := strings.Cut(out, "Removed:")
	require.True(t, found)
	for _, part := range []string{before, after} {
		require.Contains(t, part, on[0].Addr()+` token\x1b[2J T `)
		require.Contains(t, part, on[2].Addr()+" ever no TTL ")
		require.Contains(t, part, on[3].Addr()+" foreign data left alone")
		require.NotContains(t, part, "\x1b")
	}
	require.Contains(t, before, on[4].Addr()+" nothing")
	require.Contains(t, after, on[4].Addr()+" nothing was there")
	do(t, on[3:4], "LPOP", "lock:name")
	require.Equal(t, make([]string, 5), values(t, on, "lock:name"))

	taken := decoded[heldJSON](t, succeed(t, flags[:3], "try", "name", "--ttl=1h", "--fencing", "--json"))
	eventuallyHeld(t, on, "lock:name", fmt.Sprintf("%s|%d", taken.Token, taken.Fence))
	require.Contains(t, refused(t, 0, flags, "unlock", "name"), "forced unlock")
	eventuallyHeld(t, on, "lock:name", "")
}

func TestUnlock_ByForceLeavesDataOfAnotherProgramAlone(t *testing.T) {
	on, flags := real5(t)
	do(t, on, "SET", "name", strings.Repeat("x", 5000))
	require.Contains(t, refused(t, exitUsage, flags, "unlock", "name", "--force", "--yes"), display.Error(nodeerr.ErrForeign)+". It is left alone")
	do(t, on[:1], "SET", "name", "token", "PX", eternity.Milliseconds())
	require.Contains(t, refused(t, exitUsage, flags, "unlock", "name", "--force", "--yes"), inTheWay())
	held := values(t, on, "name")
	require.Empty(t, held[0], "this was a lock's")
	for _, value := range held[1:] {
		require.Len(t, value, 5000)
	}
}

func TestUnlock_ByForceSaysThatTheServersHaveRefusedIt(t *testing.T) {
	on, flags := real5(t)
	do(t, on, "SET", "name", "token", "PX", eternity.Milliseconds())
	do(t, on, "ACL", "SETUSER", "operator", "on", ">geheim", "~*", "&*", "+@all", "-del")
	t.Setenv("REDLOCK_USERNAME", "operator")
	t.Setenv("REDLOCK_PASSWORD", "geheim")
	code, out, errors := call(t.Context(), with(flags, "unlock", "name", "--force", "--yes")...)
	require.Equal(t, exitUnavailable, code)
	require.Contains(t, out, "Nothing was removed:")
	require.NotContains(t, out, "\nRemoved:")
	require.NotContains(t, errors, "forced unlock")
	require.Equal(t, "token", values(t, on, "name")[0])
}

func TestHoldings_SayWhereNothingWasRemoved(t *testing.T) {
	s := &redlock.LockState{Need: 3, Nodes: []redlock.NodeState{
		{Addr: "a:1", Kind: redlock.KindExclusive, Holders: []redlock.Holder{{Token: "token"}}, TTL: eternity},
		{Addr: "a:2", Err: nodeerr.ErrHeld},
		{Addr: "a:3", Err: nodeerr.ErrAbsent},
		{Addr: "a:4", Err: nodeerr.ErrForeign},
		{Addr: "a:5", Err: &nodeerr.ServerError{Code: "NOPERM", Message: "NOPERM \x1b[2J", Hint: "the ACL user may not do this"}},
		{Addr: "a:6"},
	}}
	var out strings.Builder
	paper{w: &out}.print(holdings(s, "nothing was there"))
	require.Equal(t, "NODE HELD BY TTL LEFT a:1 token T a:2 another has taken it meanwhile: left alone a:3 nothing was there it has ended meanwhile "+
		`a:4 foreign data left alone a:5 ? NOPERM \x1b[2J (the ACL user may not do this) a:6 nothing was there`, steady(out.String()))
}

func TestUnlock_ByForceLeavesALineInTheLog(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--key-prefix=lock:")
	do(t, on[:4], "SET", "lock:na\"me", "27BGTI5J.qgh6W0aaaaaaaaaaaaaaaaaaaaaa:web1\x1b", "PX", eternity.Milliseconds())
	code, _, problems := call(t.Context(), with(flags, "unlock", "na\"me", "--force", "--yes")...)
	require.Zero(t, code)
	require.Equal(t, `redlock: forced unlock key="lock:na\"me" removed=4 nodes=5 holder="web1\x1b"`+"\n", problems)
}

// It is the same sentence wherever somebody is about to free a lock by force.
func TestUnlock_TheDocumentationSaysWhatHappensToTheHolder(t *testing.T) {
	for _, page := range []string{"tool.md", "guide.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		require.NoError(t, err)
		plain := strings.ReplaceAll(strings.Join(strings.Fields(string(text)), " "), "`", "")
		require.Contains(t, plain, survey.Overlap, page)
	}
	_, help, _ := call(t.Context(), "unlock", "--help")
	require.Contains(t, strings.Join(strings.Fields(help), " "), survey.Overlap)
}
