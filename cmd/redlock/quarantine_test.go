package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// stamped gives a server a stamp of its own of an age.
func stamped(t *testing.T, server *testredis.Process, age time.Duration) {
	t.Helper()
	testredis.Stamp(t, server, server.Addr(), testredis.OwnStamp(t, server), age)
}

// The danger: all servers have restarted, and "0 locks" seems to mean that a lock can be taken.
func TestListAndInspect_SayThatTooManyNodesAreQuarantined(t *testing.T) {
	on, flags := real5(t)
	for _, command := range [][]string{{"list"}, {"inspect", "name"}} {
		says := func(text string, more ...string) {
			t.Helper()
			out := succeed(t, append(flags, more...), command...)
			if text == "" {
				require.NotContains(t, out, "quarantined")
				return
			}
			require.Contains(t, steady(out), text)
		}
		const guard = "--restart-guard=1h"
		do(t, on, "FLUSHALL")
		says("")
		says("5 of 5 nodes are quarantined: no lock can be taken for T more, from when a program connects.", guard)
		for i, age := range []time.Duration{2 * time.Hour, 2 * time.Hour, 10 * time.Minute, 40 * time.Minute, 20 * time.Minute} {
			stamped(t, on[i], age)
		}
		says("3 of 5 nodes are quarantined: no lock can be taken for T more.", guard)
		require.Regexp(t, `be taken for 20m\d+s more\.`, succeed(t, append(flags, guard), command...), "the first one decides")
		says("2 of 5 nodes are quarantined for T more.", guard, "--durable="+on[2].Addr())
		says("", guard, "--durable=all")
		document := succeed(t, append(flags, guard), append(command, "--json")...)
		require.Equal(t, 3, strings.Count(document, `"quarantine_ms":`))
		require.NotContains(t, succeed(t, flags, append(command, "--json")...), "quarantine_ms")

		do(t, on[:1], "ACL", "SETUSER", "default", "resetkeys", "~lock:*", "~name")
		says("3 of 5 nodes are quarantined: no lock can be taken for T more. "+
			"Of 1 node the stamp cannot be read, so whether it is quarantined is not known: ", guard, "--key-prefix=lock:")
		do(t, on[:1], "ACL", "SETUSER", "default", "~*", "-info")
		says("Of 1 node the stamp cannot be read, so whether it is quarantined is not known: INFO is refused", guard)
		document = succeed(t, append(flags, guard), append(command, "--json")...)
		require.Equal(t, 1, strings.Count(document, `"quarantine_error":"INFO is refused"`))
		do(t, on[:1], "ACL", "SETUSER", "default", "+info")
		require.Contains(t, refused(t, exitUsage, flags, append(command, "--restart-guard=-1s")...), "--restart-guard must be between 0s and 336h")
		require.Contains(t, refused(t, exitUsage, flags, append(command, "--durable=none")...), `--durable: "none" is not the address of a node`)
	}
	on[0].Stop()
	on[1].Stop()
	code, out, _ := call(t.Context(), with(flags, "list", "--restart-guard=1h")...)
	require.Zero(t, code)
	require.Contains(t, steady(out), "0 locks, 3 of 5 nodes answered. 3 of 5 nodes are quarantined: no lock can be taken for T more.")
	require.Regexp(t, `be taken for 50m\d+s more\.`, out, "all three are needed")
}

// The danger: nodes that vote count as away, as the user may not list or read what they hold, and "no lock can be taken" is wrong.
func TestListAndInspect_CountNodesThatOnlyTheUserMayNotRead(t *testing.T) {
	on, flags := real5(t)
	for i, age := range []time.Duration{time.Minute, 2 * time.Hour, time.Minute, 2 * time.Hour, 2 * time.Hour} {
		stamped(t, on[i], age)
	}
	for command, rule := range map[string][]any{"list": {"-scan"}, "inspect": {"resetkeys", "~quorumlock:*"}} {
		do(t, on[:2], "ACL", append([]any{"SETUSER", "default"}, rule...)...)
		args := map[string][]string{"list": {command}, "inspect": {command, "name"}}[command]
		code, out, _ := call(t.Context(), with(flags, append(args, "--restart-guard=1h")...)...)
		require.Zero(t, code, out)
		require.Contains(t, steady(out), "2 of 5 nodes are quarantined for T more.", command)
		do(t, on[:2], "ACL", "SETUSER", "default", "+@all", "~*")
	}
}

func TestExplainQuarantines_CountsTheNodesThatAnswer(t *testing.T) {
	t.Parallel()
	const second, ever = time.Second, redlock.NoLimit
	unread := errors.New("NOPERM no")
	in := func(left time.Duration) quarantine { return quarantine{left: left} }
	for _, test := range []struct {
		nodes []quarantine
		away  int // the last ones
		want  string
	}{
		{[]quarantine{{}, {}, {}}, 0, ""},
		{[]quarantine{{}, {}, in(3 * second)}, 0, "1 of 3 nodes is quarantined for 3s more."},
		{[]quarantine{{}, {}, in(3 * second)}, 1, ""},
		{[]quarantine{{}, in(4 * second), in(3 * second)}, 0, "2 of 3 nodes are quarantined: no lock can be taken for 3s more."},
		{[]quarantine{in(4 * second), in(3 * second), {}}, 1, "2 of 3 nodes are quarantined: no lock can be taken for 4s more."},
		{[]quarantine{in(4 * second), {}, {}}, 2, "1 of 3 nodes is quarantined: no lock can be taken."},
		{[]quarantine{in(ever), in(3 * second), in(ever)}, 0, "3 of 3 nodes are quarantined: no lock can be taken."},
		{[]quarantine{in(ever), {}, {}}, 0, "1 of 3 nodes is quarantined."},
		{
			[]quarantine{in(second), {left: 3 * second, unbegun: true}, {left: 3 * second, unbegun: true}}, 0,
			"3 of 3 nodes are quarantined: no lock can be taken for 3s more, from when a program connects.",
		},
		{[]quarantine{{unread: unread}, {unread: unread}, {}}, 0, "Of 2 nodes the stamp cannot be read, so whether it is quarantined is not known: NOPERM no"},
	} {
		var texts []string
		for _, l := range explainQuarantines(test.nodes, func(node int) bool { return node < len(test.nodes)-test.away }) {
			texts = append(texts, l.text)
		}
		require.Equal(t, test.want, strings.Join(texts, " "))
	}
}
