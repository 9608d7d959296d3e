package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// firstCells returns the first cell of each row of a table.
func firstCells(out string) (cells []string) {
	body, _, _ := strings.Cut(out, "\n\n")
	for _, row := range strings.Split(body, "\n")[1:] {
		cells = append(cells, strings.Fields(row)[0])
	}
	return cells
}

func TestList_ShowsAllLocksUnderThePrefix(t *testing.T) {
	on, flags := real5(t)
	require.Equal(t, "0 locks, 5 of 5 nodes answered.\n", succeed(t, flags, "list"))
	flags = append(flags, "--key-prefix=lock:*")
	taken := decoded[heldJSON](t, succeed(t, flags, "try", "backup", "--ttl=2h", "--fencing", "--metadata=web1:\u202e17", "--json"))
	eventuallyHeld(t, on, "lock:*backup", fmt.Sprintf("%s|%d", taken.Token, taken.Fence))
	ms := eternity.Milliseconds()
	do(t, on, "SET", "lock:*ever", "theirs")
	do(t, on[:2], "SET", "lock:*split", "tokenA", "PX", ms)
	do(t, on[2:3], "SET", "lock:*split", "tokenB", "PX", ms)
	do(t, on[:3], "SET", "lock:*日本\x1b[2J", strings.Repeat("t", 100), "PX", ms/2)
	do(t, on, "SET", "lock:*"+strings.Repeat("n", 200), "long", "PX", ms*3)
	do(t, on, "HSET", "lock:*hash", "field", "value")
	do(t, on[:1], "HSET", "lock:*mixed", "field", "value")
	do(t, on[1:], "SET", "lock:*mixed", "token", "PX", ms*3/4)
	do(t, on, "SET", "blocked", "", "PX", ms)
	require.Contains(t, steady(succeed(t, flags[:len(flags)-1], "list", "bl*")), `blocked "" T 5/5 empty value 1 lock`)
	require.Equal(t, redlock.VerdictHeld, decoded[listJSON](t, succeed(t, flags[:len(flags)-1], "list", "--json", "blocked")).Locks[0].Verdict)
	do(t, on, "SET", "lock:other", "value")

	out := succeed(t, flags, "list")
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "\u202e")
	for _, line := range []string{
		`backup web1:\u202e17 ` + fmt.Sprint(taken.Fence) + " T 5/5 ",
		"ever theirs no TTL 5/5 no TTL ",
		"split tokenA tokenB T 3/5 held by nobody ",
		`日本\x1b[2J ttttttttttttttttttt… T 3/5 `,
		strings.Repeat("n", 49) + "… long T 5/5 ",
		"mixed token T 4/5 data of another program on 1 ",
		"6 locks, 5 of 5 nodes answered. 1 name with data of another program: --all shows them.",
	} {
		require.Contains(t, steady(out)+" ", line)
	}
	long := strings.Repeat("n", 49) + "…"
	require.Equal(t, []string{"backup", "ever", "mixed", long, "split", `日本\x1b[2J`}, firstCells(out))
	require.Equal(t, []string{`日本\x1b[2J`, "mixed", "split", "backup", long, "ever"}, firstCells(succeed(t, flags, "list", "--sort=ttl")))
	require.Equal(t, []string{"split", `日本\x1b[2J`, "mixed", "backup", "ever", long}, firstCells(succeed(t, flags, "list", "--sort=nodes")))
	require.Equal(t, []string{"backup"}, firstCells(succeed(t, flags, "list", "--holder=web1")))
	require.Equal(t, []string{"split"}, firstCells(succeed(t, flags, "list", "--holder=enB")))
	require.Equal(t, []string{"backup", "ever", "mixed", "split"}, firstCells(succeed(t, flags, "list", "--remarks")))
	require.Equal(t, []string{"backup", "ever", "hash", "mixed", "split"}, firstCells(succeed(t, flags, "list", "--remarks", "--all")))
	require.Equal(t, []string{"mixed"}, firstCells(succeed(t, flags, "list", "mi*")))
	require.Equal(t, "0 locks, 5 of 5 nodes answered.\n", succeed(t, flags, "list", "nobody*"))
	require.Contains(t, succeed(t, flags, "list", "--limit=3"), "There are more names than --limit 3: these are some of them.")
	full := succeed(t, flags, "list", "--full")
	require.Contains(t, full, display.Text(taken.Token))
	require.Contains(t, full, strings.Repeat("n", 200))

	document := decoded[listJSON](t, succeed(t, flags, "list", "--json", "--sort=nodes"))
	require.Len(t, document.Locks, 6)
	require.Equal(t, 1, document.Hidden)
	require.Equal(t, 3, document.Need)
	require.False(t, document.Truncated)
	split, backup := document.Locks[0], document.Locks[3]
	require.Equal(t, "split", split.Name)
	require.Equal(t, redlock.VerdictNobody, split.Verdict)
	require.Equal(t, []string{"held by nobody"}, split.Remarks)
	require.Len(t, split.Nodes, 3)
	require.Equal(t, "tokenB", split.Nodes[2].Token)
	require.Equal(t, on[2].Addr(), split.Nodes[2].Addr)
	require.Equal(t, taken.Token, backup.Token)
	require.Equal(t, taken.Fence, backup.Fence)
	require.Equal(t, "web1:\u202e17", backup.Metadata)
	require.Equal(t, []string{"kept"}, backup.Remarks)
	require.NotContains(t, succeed(t, flags, "list", "--json"), "\u202e")
	require.EqualValues(t, -1, document.Locks[4].TTL)
	require.Equal(t, "ever", document.Locks[4].Name)
	document = decoded[listJSON](t, succeed(t, flags, "list", "--json", "--all", "hash"))
	require.True(t, document.Locks[0].Data)
	require.EqualValues(t, "foreign", document.Locks[0].Verdict)
	require.Zero(t, document.Hidden)
	document = decoded[listJSON](t, succeed(t, flags, "list", "--json", "nobody*"))
	require.NotNil(t, document.Locks)
}

func TestList_NamesTheNodesThatFail(t *testing.T) {
	on, flags := real5(t)
	flags = append(flags, "--timeout=2s")
	do(t, on, "SET", "held", "token", "PX", eternity.Milliseconds())
	do(t, on[3:], "SET", "perhaps", "token", "PX", eternity.Milliseconds())
	do(t, on[4:], "SET", "few", "token", "PX", eternity.Milliseconds())
	do(t, on[1:2], "CONFIG", "SET", "requirepass", "secret")
	on[0].Freeze()
	code, out, errors := call(t.Context(), with(flags, "list")...)
	require.Zero(t, code)
	require.Contains(t, errors, "redlock: node "+on[0].Addr()+": no answer in time\n")
	require.Contains(t, errors, "redlock: node "+on[1].Addr()+": NOAUTH")
	require.Equal(t, 2, strings.Count(errors, "\n"))
	require.Contains(t, steady(out), "few perhaps token T 1/5 unknown held token T 3/5 perhaps perhaps token T 2/5 unknown 3 locks, 3 of 5 nodes answered.")

	on[2].Stop()
	code, out, errors = call(t.Context(), with(flags, "list", "--json")...)
	require.Equal(t, exitUnavailable, code)
	require.Contains(t, errors, "no quorum of nodes: 2 of 5 nodes listed all keys, 3 needed")
	document := decoded[listJSON](t, out)
	require.Len(t, document.Locks, 3)
	for _, l := range document.Locks {
		require.Equal(t, redlock.VerdictUnknown, l.Verdict)
	}
	require.NotEmpty(t, document.Nodes[2].Error)
}

// The danger: an outage, in which a name of the holder would tell whom to ask, and a token tells nobody.
func TestList_NamesWhoMayHoldALock(t *testing.T) {
	on, flags := real5(t)
	held := decoded[heldJSON](t, succeed(t, flags, "try", "a", "--ttl=2h", "--metadata=alice", "--json")).Token
	eventuallyHeld(t, on, "a", held)
	readers := shares(t, on, "", "b", 2, redlock.Shared())
	shares(t, on, "", "c", 1, redlock.Slots(4))
	const other = "AAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAA:bob"
	do(t, on[:1], "SET", "d", held, "PX", eternity.Milliseconds())
	do(t, on[1:2], "SET", "d", other, "PX", eternity.Milliseconds())
	do(t, on[:1], "SET", "e", held, "PX", eternity.Milliseconds())
	do(t, on[1:2], "HSET", "e", "field", "value")
	do(t, on[:2], "SET", "f", "|shared", "PX", eternity.Milliseconds())
	for _, s := range on[2:] {
		s.Stop()
	}
	code, out, _ := call(t.Context(), with(flags, "list")...)
	require.Equal(t, exitUnavailable, code)
	require.Contains(t, steady(out), "a perhaps alice T 2/5 unknown b perhaps 2 readers: of 0, +1 T 2/5 unknown c perhaps 1 slot: of 0 T 2/5 unknown "+
		"d perhaps alice or bob T 2/5 unknown e perhaps alice no TTL 1/5 unknown, data of another program on 1 f readers T 2/5 unknown 6 locks,")
	_, out, _ = call(t.Context(), with(flags, "list", "--full")...)
	require.Contains(t, out, "perhaps "+held)
	require.Contains(t, out, "perhaps "+held+" or "+other)
	require.Contains(t, out, "perhaps 2 readers: "+string(readers[0].Token())+" ")
	do(t, on[1:2], "ACL", "SETUSER", "default", "-zrange")
	on[0].Stop()
	_, out, _ = call(t.Context(), with(flags, "list")...)
	require.Contains(t, steady(out), "b perhaps readers T 1/5 unknown c perhaps slots T 1/5 unknown d perhaps bob T 1/5")
}

// The danger: a server that names keys for ever keeps list from ever ending.
func TestList_EndsIfANodeNamesKeysForEver(t *testing.T) {
	addr := testredis.Listen(t, func(conn net.Conn) {
		answer, buffer := "$0\r\n\r\n", make([]byte, 4096)
		for {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
			if _, err := conn.Write([]byte(answer)); err != nil {
				return
			}
			answer = "*2\r\n$1\r\n7\r\n*0\r\n$0\r\n\r\n" // a page, and the role
		}
	})
	errors := refused(t, exitUnavailable, nil, "list", "--nodes=redis://"+addr, "--timeout=10s", "--node-limit=3s")
	require.Contains(t, errors, "too many keys to be listed within 3s: give it more time with --node-limit")
	require.Contains(t, errors, "no quorum of nodes: 0 of 1 nodes listed all keys, 1 needed")
}
