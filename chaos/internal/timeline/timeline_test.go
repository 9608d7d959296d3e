package timeline_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/chaos/internal/timeline"
)

func TestWrite_ShowsEveryOperationAndEscapesTexts(t *testing.T) {
	ops := []*history.Op{
		{Kind: history.Fault, What: "freeze", Nodes: []int{2, 3}, Start: 0, End: 5e6},
		{Kind: history.Fault, What: "stop-client", Clients: []string{"b"}, Start: 0, End: 5e6},
		{Kind: history.Fault, What: "other", Start: 0, End: 5e6},
		{Kind: history.Acquire, Client: "a", Worker: 1, Name: "<b>", Hold: "h", Start: 1e6, End: 2e6},
		{Kind: history.Proof, Client: "a", Worker: 1, Hold: "h", Start: 4e6, End: 4e6},
		{Kind: history.Unlock, Client: "a", Worker: 1, Hold: "h", Start: 4e6, End: history.Open},
	}
	var page strings.Builder
	require.NoError(t, timeline.Write(&page, "<title>", "<text>", ops))
	text := page.String()
	require.NotContains(t, text, "<b>")
	require.NotContains(t, text, "<text>")
	require.Contains(t, text, "&lt;text&gt;")
	require.Equal(t, 4, strings.Count(text, `class="fault"`))
	require.Equal(t, 2, strings.Count(text, `class="call"`))
	require.Equal(t, 1, strings.Count(text, `class="proof"`))
	require.Equal(t, 1, strings.Count(text, `class="hold"`))
	for _, name := range []string{"server 2", "server 3", "a / 1", "b", "all"} {
		require.Contains(t, text, ">"+name+"<")
	}
}

func TestWrite_NothingIsAPageToo(t *testing.T) {
	var page strings.Builder
	require.NoError(t, timeline.Write(&page, "title", "", nil))
	require.Contains(t, page.String(), "<svg")
}
