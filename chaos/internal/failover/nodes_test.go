package failover_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/chaos/internal/failover"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// start starts nodes that end with the test.
func start(t *testing.T, k failover.Kind) *failover.Nodes {
	t.Helper()
	if _, err := testredis.Program(); errors.Is(err, testredis.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip("tests on such servers are left out: " + err.Error())
	}
	var log strings.Builder
	n, err := k.Start(&log)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, n.Close())
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return n
}

// serverOf returns the run_id of the server that a node is, which has to be a primary.
func serverOf(t *testing.T, n *failover.Nodes, node int) string {
	t.Helper()
	c, err := n.Conn(node)
	require.NoError(t, err)
	defer c.Close()
	role, err := redis.Values(c.Do("ROLE"))
	require.NoError(t, err)
	require.Equal(t, []byte("master"), role[0])
	info, err := redis.String(c.Do("INFO", "server"))
	require.NoError(t, err)
	_, id, _ := strings.Cut(info, "run_id:")
	return id[:40]
}

// requirePicked picks all nodes that are different servers.
func requirePicked(t *testing.T, n *failover.Nodes, dice *rand.Rand, count int) {
	t.Helper()
	picked, err := n.Pick(dice, failover.Count)
	require.NoError(t, err)
	require.Len(t, picked, count)
}

func TestNodes_FailOverAndTellOfLostWrites(t *testing.T) {
	late := failover.Result{FailedOver: 1, Lost: 1}
	expected := map[string][]struct {
		fault string
		failover.Result
	}{
		"groups":  {{"fail-over", failover.Result{FailedOver: 1}}, {"late-kill", late}, {"late-freeze", late}},
		"cluster": {{"late-kill", late}, {"late-freeze-take-over", late}, {"migrate", failover.Result{Moved: 1}}},
	}
	for _, k := range failover.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			n, dice := start(t, k), rand.New(rand.NewPCG(1, 2))
			requirePicked(t, n, dice, failover.Count)
			for _, e := range expected[k.Name] {
				i := slices.IndexFunc(k.Faults, func(f failover.Fault) bool { return f.What == e.fault })
				former, other := serverOf(t, n, 1), serverOf(t, n, 2)
				result, err := n.Strike(k.Faults[i], 1, dice)
				require.NoError(t, err, e.fault)
				require.Equal(t, e.Result, result, e.fault)
				require.NotEqual(t, former, serverOf(t, n, 1), e.fault)
				require.Equal(t, other, serverOf(t, n, 2), e.fault)
			}
			if k.Name == "cluster" {
				requirePicked(t, n, dice, failover.Count-1) // the slot has moved to the server of another node
			}
		})
	}
}
