//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// The danger: a command that runs is shown as gone, and somebody frees its lock by force.
func TestRun_ALockIsKeptOnlyWhenTheCommandHasEnded(t *testing.T) {
	servers := three(t)
	flags := []string{"--nodes=" + strings.Join(testredis.URLs(servers), ",")}
	kept := func() bool {
		all := decoded[listJSON](t, succeed(t, flags, "list", "--json")).Locks
		return len(all) == 1 && all[0].Kept
	}
	p := runTool(t, servers, "--ttl=1h", "--at-least=2h", "job", "cat") // it is not renewed during the test
	p.event("started")
	require.Eventually(t, func() bool { return !kept() }, 20*time.Second, 10*time.Millisecond)
	p.endsWith(0)
	require.Eventually(t, kept, 20*time.Second, 10*time.Millisecond)
}
