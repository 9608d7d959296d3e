package main

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/survey"
	"github.com/quorumlock/quorumlock/redlock"
)

var spaces = regexp.MustCompile(` +`)

func TestInspect_ShowsWhatEachNodeHoldsAndTheVerdict(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--key-prefix=lock:")
	taken := decoded[heldJSON](t, succeed(t, flags, "try", "held", "--ttl=1h", "--fencing", "--metadata=cron\u202e of web1", "--json"))
	eventuallyHeld(t, on, "lock:held", fmt.Sprintf("%s|%d", taken.Token, taken.Fence))
	ms := eternity.Milliseconds()
	do(t, on[:2], "SET", "lock:split", "tokenA", "PX", ms)
	do(t, on[2:4], "SET", "lock:split", "token\x1b[31mB", "PX", ms)
	do(t, on[:1], "SET", "lock:leftover", "tokenA", "PX", ms)
	do(t, on, "SET", "lock:ever", strings.Repeat("token", 20))
	do(t, on[:2], "HSET", "lock:data", "field", "value")
	do(t, on[2:3], "SETRANGE", "lock:data", 1024, "x")
	do(t, on[:1], "SET", "lock:empty", "", "PX", ms)
	do(t, on[:4], "SET", "lock:blocked", "", "PX", ms)

	for name, test := range map[string]struct {
		verdict redlock.Verdict
		shows   []string
	}{
		"held": {redlock.VerdictHeld, []string{
			`cron\u202e of web1 `, taken.Token[:15] + "… ", "T ", "Held by a majority: 5 of 5 nodes hold the token " + taken.Token[:15] + "…, metadata cron",
			"more. A holder that has died shows until then, which is up to one TTL after frozen nodes have thawed.",
		}},
		"free":  {redlock.VerdictNobody, []string{" nothing ", "Held by nobody: nothing on 5."}},
		"split": {redlock.VerdictNobody, []string{`token\x1b[31mB `, `Held by nobody: no token is on a majority (3). tokenA on 2, token\x1b[31mB on 2, nothing on 1. Nobody can take the lock before`}},
		"leftover": {redlock.VerdictNobody, []string{
			"Held by nobody, and free to be taken: no token is on a majority (3). tokenA on 1, nothing on 4.",
		}},
		"blocked": {redlock.VerdictHeld, []string{`""`, `Held by an empty value: 4 of 5 nodes hold a key without a token.`, `"" on 4, nothing on 1`}},
		"empty":   {redlock.VerdictNobody, []string{`""`, `"" on 1, nothing on 4`}},
		"ever": {redlock.VerdictHeld, []string{
			"tokentokentokentoke… no TTL", `On 5 of 5 nodes the key has no TTL: it stays there until it is released, or removed by "redlock unlock ever --force".`,
		}},
		"data": {redlock.VerdictForeign, []string{
			"foreign data", "not a string", "a string of more than 1024 bytes", "Data of another program: 3 of 5 nodes hold a key under this name that is no lock.",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			out := succeed(t, flags, "inspect", name)
			for _, text := range test.shows {
				assert.Contains(t, timesLeft.ReplaceAllString(spaces.ReplaceAllString(out, " "), "T"), timesLeft.ReplaceAllString(text, "T"), "in one line")
			}
			assert.NotContains(t, out, "\x1b")
			for _, s := range on {
				assert.Contains(t, out, s.Addr())
			}
			assert.Regexp(t, `LATENCY.*\n127.*[0-9.]+ (µs|ms|s)`, out)
			document := decoded[inspection](t, succeed(t, flags, "inspect", name, "--json"))
			assert.Equal(t, test.verdict, document.Verdict)
			assert.Len(t, document.Nodes, 5)
		})
	}
	full := succeed(t, flags, "inspect", "held", "--full")
	require.Contains(t, full, display.Text(taken.Token))

	document := decoded[inspection](t, succeed(t, flags, "inspect", "held", "--json"))
	require.Equal(t, taken.Token, document.Token)
	require.Equal(t, "cron\u202e of web1", document.Metadata)
	require.NotContains(t, succeed(t, flags, "inspect", "held", "--json"), "\u202e")
	require.Equal(t, taken.Fence, document.Fence)
	require.Greater(t, document.TTL, ms/2)
	require.Equal(t, 3, document.Need)
	for i, n := range document.Nodes {
		require.Equal(t, on[i].Addr(), n.Addr)
		require.Equal(t, taken.Token, n.Token)
		require.Equal(t, taken.Fence, n.Fence)
		require.Positive(t, n.Latency)
		require.True(t, n.Answered)
	}
	document = decoded[inspection](t, succeed(t, flags, "inspect", "ever", "--json"))
	require.EqualValues(t, -1, document.TTL)
	require.NotContains(t, succeed(t, flags, "inspect", "free", "--json"), "ttl_ms")
	document = decoded[inspection](t, succeed(t, flags, "inspect", "data", "--json"))
	require.EqualValues(t, "foreign", document.Verdict)
	require.True(t, document.Nodes[2].Data)
	require.True(t, document.Nodes[2].Answered)
	require.False(t, document.Nodes[3].Data)
}

func TestInspect_GoesOnWithoutTheNodesThatFail(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--timeout=2s")
	do(t, on, "SET", "held", "token", "PX", eternity.Milliseconds())
	do(t, on[3:], "SET", "perhaps", "token", "PX", eternity.Milliseconds())
	on[0].Freeze()
	on[1].Stop()
	out := succeed(t, flags, "inspect", "held")
	require.Contains(t, out, "no answer in time")
	require.Contains(t, out, "connection refused")
	require.Contains(t, out, "Held by a majority: 3 of 5 nodes hold the token token,")

	on[0].Stop() // such a node is not waited for
	out = succeed(t, flags, "inspect", "perhaps")
	require.Contains(t, out, "Unknown: the nodes that did not answer decide. token on 2, nothing on 1, no answer on 2.")

	on[2].Stop()
	code, out, errors := call(t.Context(), with(flags, "inspect", "held")...)
	require.Equal(t, exitUnavailable, code)
	require.Contains(t, out, "Unknown: 2 of 5 nodes answered, 3 are needed. token on 2, no answer on 3.")
	require.Contains(t, errors, "no quorum of nodes")
	code, out, _ = call(t.Context(), with(flags, "inspect", "held", "--json")...)
	require.Equal(t, exitUnavailable, code)
	document := decoded[inspection](t, out)
	require.Equal(t, redlock.VerdictUnknown, document.Verdict)
	require.False(t, document.Nodes[0].Answered)
	require.Zero(t, document.Nodes[0].Latency)
	require.NotEmpty(t, document.Nodes[1].Error)
}

func TestInspect_PrintsWhatItsDocumentationShows(t *testing.T) {
	content, err := os.ReadFile("../../docs/tool.md")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(content), "$ redlock inspect nightly-backup\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")
	const token = "27BGTI5J.qgh6W0gdV9MuJDR0x1M8oR8XvaaOE:web1:4711"
	holder := redlock.Holder{Token: token, Metadata: "web1:4711", TTL: 9*time.Minute + 43*time.Second, Nodes: 1}
	nodes := make([]redlock.NodeState, 3)
	for i := range nodes {
		nodes[i] = redlock.NodeState{
			Addr: fmt.Sprintf("redis%d:6379", i+1), Kind: redlock.KindExclusive, TTL: holder.TTL, Holders: []redlock.Holder{holder},
		}
	}
	nodes[2] = redlock.NodeState{Addr: nodes[2].Addr, Err: syscall.ECONNREFUSED}
	trips := &roundTrips{latest: map[string]time.Duration{nodes[0].Addr: 270 * time.Microsecond, nodes[1].Addr: 152 * time.Microsecond}}
	c := inspectCmd{Name: "nightly-backup", serverFlags: serverFlags{KeyPrefix: "lock:"}}
	var out strings.Builder
	kept := survey.Presence{} // no node has said that a process listens, and none is needed to know it
	paper{w: &out}.print(c.lines(survey.State(c.Name, nodes), kept, trips, 100))
	clock := regexp.MustCompile(`at \d\d:\d\d:\d\d`)
	require.Equal(t, clock.ReplaceAllString(example, "at T"), clock.ReplaceAllString(out.String(), "at T"))
}

func TestRoundTrips_BeginWithTheWriteAndEndWithTheAnswer(t *testing.T) {
	const pause = 20 * time.Millisecond
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	trips := &roundTrips{latest: map[string]time.Duration{}}
	conn := &measuredConn{Conn: near, address: "node", to: trips}
	require.Zero(t, trips.of("node"))
	buffer := make([]byte, 10)
	go func() {
		b := make([]byte, 10)
		_, _ = far.Read(b)
		<-time.After(pause)
		_, _ = far.Write([]byte("answer"))
		<-time.After(pause)
		_, _ = far.Write([]byte("push"))
	}()
	_, err := conn.Write([]byte("question"))
	require.NoError(t, err)
	_, err = conn.Read(buffer)
	require.NoError(t, err)
	first := trips.of("node")
	require.GreaterOrEqual(t, first, pause)
	_, err = conn.Read(buffer)
	require.NoError(t, err)
	require.Equal(t, first, trips.of("node"), "nobody asked for this")
}
