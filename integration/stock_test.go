package integration_test

import (
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	dc "github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// resource returns a Redis container beside the cluster, which goes with the test.
func (c *cluster) resource(t *testing.T) *node {
	t.Helper()
	last, err := netip.ParseAddr(c.nodes[size-1].ip)
	require.NoError(t, err)
	n := &node{cluster: c, ip: last.Next().String()}
	t.Cleanup(func() {
		if n.id != "" {
			assert.NoError(t, c.docker.Client.RemoveContainer(dc.RemoveContainerOptions{ID: n.id, Force: true}))
		}
	})
	require.NoError(t, n.create(size))
	return n
}

func TestExampleStock_IsOversoldWithoutTheCheckAndNeverWithIt(t *testing.T) {
	c := five(t)
	resource := c.resource(t)
	program := filepath.Join(t.TempDir(), "stock")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/quorumlock/quorumlock/examples/stock")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	urls := make([]string, 0, size)
	for _, addr := range c.addrs() {
		urls = append(urls, "redis://"+addr)
	}
	sales := exec.CommandContext(t.Context(), program,
		"-nodes="+strings.Join(urls, ","), "-stock=redis://"+resource.addr(), "-ttl=500ms")
	out, err = sales.CombinedOutput()
	require.NoError(t, err, "a sale went otherwise than it should:\n%s", out)
	require.Contains(t, string(out), "50 items in stock, 50 sold: oversold by 0.")
	require.Equal(t, 4, strings.Count(string(out), "Its late write is refused"))
	keys, err := redis.Strings(resource.do("KEYS", "*"))
	require.NoError(t, err)
	require.Empty(t, keys)
}
