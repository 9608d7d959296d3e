package sentinel_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/sentinel"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is how long a test waits for what has to happen.
const bound = 30 * time.Second

// at returns how to reach sentinels.
func at(addrs ...string) (sentinels []node.Server) {
	for _, addr := range addrs {
		sentinels = append(sentinels, node.Server{Network: "tcp", Address: addr, Dial: new(net.Dialer).DialContext})
	}
	return sentinels
}

func find(t *testing.T, g *sentinel.Group) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	address, err := g.Find(ctx)
	require.NoError(t, err)
	return address
}

func TestFind_AnswersWithThePrimaryAlsoAfterAFailover(t *testing.T) {
	t.Parallel()
	s := testredis.NewSentinels(t, "mymaster")
	g := sentinel.New("mymaster", at(s.Addrs()...))
	require.Equal(t, s.Group("mymaster").Primary().Addr(), find(t, g))
	s.Group("mymaster").FailOver()
	require.Equal(t, s.Group("mymaster").Primary().Addr(), find(t, g))
}

func TestFind_GoesOnWithSentinelsThatAreThere(t *testing.T) {
	t.Parallel()
	s := testredis.NewSentinels(t, "mymaster")
	g := sentinel.New("mymaster", at(s.Addrs()...))
	s.Processes()[0].Freeze()
	s.Processes()[1].Stop()
	for range 4 { // in random order
		require.Equal(t, s.Group("mymaster").Primary().Addr(), find(t, g))
	}
}
