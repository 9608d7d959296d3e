package nodemetrics_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/nodemetrics"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/promtest"
)

func TestText_HasABoundedVisibleLabelForEachAddress(t *testing.T) {
	addrs := []string{
		"a:6379", "/run/redis.sock", `"} 1`, `\`, "\\n", "\n", "a\x1b[2J", "a\\x1b[2J", "\xff", "ü", "\u202e",
		strings.Repeat("x", 1000), strings.Repeat("x", 1001), strings.Repeat("x", 300) + "…",
	}
	m := nodemetrics.Metrics{At: time.Unix(1, 0), Labels: []string{"nodes", nodemetrics.Label(strings.Join(addrs, ","))}}
	for _, addr := range addrs {
		m.Nodes = append(m.Nodes, nodemetrics.Node{Addr: addr, Up: true, Latency: -1, Uptime: -1})
		require.LessOrEqual(t, utf8.RuneCountInString(nodemetrics.Label(addr)), 350)
	}
	require.Equal(t, "a:6379", nodemetrics.Label("a:6379"), "as other metrics have it")
	text := string(m.Text())
	promtest.Check(t, text)
	require.Len(t, promtest.Samples(t, text), 1+len(addrs), "no two are one")
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	for _, unknown := range []string{"latency", "uptime", "master", "quarantined", "listing", "doctor"} {
		require.NotContains(t, text, unknown)
	}
}
