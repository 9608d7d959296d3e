package cluster_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is how long a test waits for what has to happen.
const bound = 30 * time.Second

// at returns how to reach servers.
func at(addrs ...string) (servers []node.Server) {
	for _, addr := range addrs {
		servers = append(servers, node.Server{Network: "tcp", Address: addr, Dial: new(net.Dialer).DialContext})
	}
	return servers
}

func find(t *testing.T, n *cluster.Node) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	address, err := n.Find(ctx)
	require.NoError(t, err)
	return address
}
