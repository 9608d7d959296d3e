package display_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestText_LeavesNoControlCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"plain text":            "plain text",
		"söngur 日本 e\u0301 😀":   "söngur 日本 e\u0301 😀",
		"\x1b[2J\x1b]0;title\a": `\x1b[2J\x1b]0;title\a`,
		"a\nb\tc\r":             `a\nb\tc\r`,
		"\x9b31m\xff":           `\x9b31m\xff`,
		"\u009b31m":             `\u009b31m`,
		"\u202egnp.exe":         `\u202egnp.exe`,
		"\x00":                  `\x00`,
		`back\slash "quoted"`:   `back\slash "quoted"`,
		"\xff\xfe":              `\xff\xfe`,
		"\u200b\ufeff\u2028":    `\u200b\ufeff\u2028`,
		"\ufffd":                "\ufffd",
	} {
		assert.Equal(t, want, display.Text(text))
	}
}

func TestError_LeavesNoControlCharactersOfAServer(t *testing.T) {
	assert.Equal(t, "two nodes\n  a: \\x1b[2J\n  b: no", display.Error(errors.New("redlock: two nodes\n\ta: pool: \x1b[2J\n\tb: no")))
}

// The danger: a person who reads why no lock was given repairs a healthy server.
func TestError_NamesOnlyTheNodesThatFailed(t *testing.T) {
	refusal := &redlock.QuorumError{Op: "acquire", Name: "job", Need: 3, Reason: redlock.ErrNoQuorum, Nodes: []redlock.NodeError{
		{Addr: "a"}, {Addr: "b", Err: nodeerr.ErrUnneeded}, {Addr: "c", Err: nodeerr.ErrTimeout},
		{Addr: "d", Err: &nodeerr.ServerError{Message: "ERR\nx"}}, {Addr: "e", Err: nodeerr.ErrUnneeded},
	}}
	const head, nodes = `acquire "job": no quorum of nodes: 1 of 5 nodes said yes, 3 needed`,
		"\n  c: no answer in time\n  d: ERR\\nx\n  2 other nodes: not waited for"
	assert.Equal(t, head+nodes, display.Error(refusal))
	assert.Equal(t, nodes, display.Nodes(refusal))
	assert.Equal(t, head+" (interrupt)"+nodes, display.Error(fmt.Errorf("%w (interrupt)", refusal)))
	refusal.Op, refusal.Nodes[1].Err, refusal.Nodes[4].Err = "inspect", nodeerr.ErrAbsent, nodeerr.ErrTimeout
	assert.Equal(t, "\n  c: no answer in time\n  d: ERR\\nx\n  e: no answer in time", display.Nodes(refusal))
	refusal = &redlock.QuorumError{Op: "acquire", Name: "job", Need: 1, Reason: redlock.ErrTaken, Nodes: []redlock.NodeError{
		{Addr: "a", Err: nodeerr.ErrQueued},
	}}
	assert.Equal(t, `acquire "job": lock is taken: other calls hold it, or are ahead`, display.Error(refusal))
}

func TestClipped_ShowsTheFirstCharacters(t *testing.T) {
	assert.Equal(t, "éé", display.Clipped("éé", 2))
	assert.Equal(t, "éé…", display.Clipped(strings.Repeat("é", 1<<20), 2))
	assert.Equal(t, `\x1bé…`, display.Clipped("\x1béé", 2))
	assert.Equal(t, `\xff`, display.Clipped("\xff", 1))
}

func TestJSON_LeavesNoControlCharacters(t *testing.T) {
	text := "a\x00\x1b[2J\x7f\u009b2J\u202egnp\u2028\ufeff\U000e0041 <日本> \"\\\n\u00a0😀"
	for _, indent := range []string{"", "  "} {
		var b bytes.Buffer
		require.NoError(t, display.JSON(&b, map[string]any{text: []string{text}}, indent))
		for _, r := range b.String() {
			require.True(t, unicode.IsPrint(r) || r == '\n', "%U in %s", r, b.String())
		}
		require.Contains(t, b.String(), `\u007f\u009b2J\u202egnp\u2028\ufeff\udb40\udc41 <日本>`)
		var back map[string][]string
		require.NoError(t, json.Unmarshal(b.Bytes(), &back))
		require.Equal(t, map[string][]string{text: {text}}, back)
	}
	require.Error(t, display.JSON(&bytes.Buffer{}, make(chan int), ""))
}

func TestJSON_IsALineUnlessIndented(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, display.JSON(&b, []int{1, 2}, ""))
	require.NoError(t, display.JSON(&b, []int{1}, "  "))
	require.Equal(t, "[1,2]\n[\n  1\n]\n", b.String())
}
