package integration_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	dc "github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/stock"
)

const (
	stockItems  = 50
	stockBuyers = 200
	stockPauses = 4
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

// sellStock has processes of buyers sell a stock on the resource under a lock over the cluster, while holders are stopped.
func sellStock(t *testing.T, checked bool) *stock.Result {
	t.Helper()
	c := five(t)
	resource := c.resource(t)
	plan := stock.Plan{
		Resource: "redis://" + resource.addr(), Checked: checked,
		Items: stockItems, Buyers: stockBuyers, Processes: 4, Pauses: stockPauses,
		TTL: 500 * time.Millisecond, Timeout: 250 * time.Millisecond,
	}
	for _, addr := range c.addrs() {
		plan.Nodes = append(plan.Nodes, "redis://"+addr)
	}
	r, err := stock.Run(t.Context(), plan) // which ends where nothing happens for long
	require.NoError(t, err)
	require.Len(t, r.Pauses, stockPauses)
	for _, pause := range r.Pauses {
		t.Logf("%+v", pause)
		require.Equal(t, checked, pause.Refused, "the late write of buyer %d", pause.Buyer)
	}
	t.Logf("%d sold, %d told that nothing is left, refused: %+v", len(r.Sales), r.Unserved, r.Refusals)
	require.Equal(t, stockBuyers, len(r.Sales)+r.Unserved)
	require.NoError(t, r.Err())
	c.requireNoKey(t)
	keys, err := redis.Strings(resource.do("KEYS", "*"))
	require.NoError(t, err)
	require.Empty(t, keys)
	return r
}

func TestHoldersThatWereStoppedOversellAStockThatDoesNotCheckTheirTokens(t *testing.T) {
	r := sellStock(t, false)
	require.Greater(t, len(r.Sales), stockItems)
	require.Empty(t, r.Refusals)
	late := 0
	for i, sale := range r.Sales[1:] {
		if sale.Token < r.Sales[i].Token {
			late++
		}
	}
	require.NotZero(t, late, "no write came after that of a later holder")
}

func TestHoldersThatWereStoppedSellNothingTwiceWhereTheirTokensAreChecked(t *testing.T) {
	r := sellStock(t, true)
	require.Zero(t, r.Left)
	require.Len(t, r.Sales, stockItems, "as many sales are recorded as items are gone")
	for i, sale := range r.Sales {
		require.Equal(t, stockItems-1-i, sale.Left, "each sale sells the next item: %s", sale)
		if i > 0 {
			require.Greater(t, sale.Token, r.Sales[i-1].Token, "tokens rise from holder to holder: %s", sale)
		}
	}
	seen := map[uint64]uint64{}
	for _, refusal := range r.Refusals {
		require.Greater(t, refusal.Seen, refusal.Token)
		seen[refusal.Token] = refusal.Seen
	}
	for _, pause := range r.Pauses {
		require.Contains(t, seen, pause.Token, "fence.ErrStale with the token of a holder that was stopped")
	}
	for _, sale := range r.Sales {
		require.NotContains(t, seen, sale.Token, "a holder that was refused has sold nothing: %s", sale)
	}
}
