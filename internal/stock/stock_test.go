package stock_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/stock"
	"github.com/quorumlock/quorumlock/redlock"
)

func skipUnsupported(t *testing.T) {
	t.Helper()
	if err := stock.Supported(); err != nil {
		t.Skip(err)
	}
}

// planOn is a sale on six servers, of which the last is the resource. The TTL only has to be long against a sale, or the story is
// another one: whatever it is, it must come out right.
func planOn(servers []redistest.Server, checked bool) stock.Plan {
	urls := redistest.URLs(servers)
	last := len(urls) - 1
	return stock.Plan{
		Nodes: urls[:last], Resource: urls[last], Checked: checked,
		Items: 50, Buyers: 200, Processes: 4, Pauses: 4, TTL: 300 * time.Millisecond, Timeout: 150 * time.Millisecond,
	}
}

// run carries out a sale, of which nothing may be left.
func run(t *testing.T, servers []redistest.Server, checked bool) *stock.Result {
	t.Helper()
	r, err := stock.Run(t.Context(), planOn(servers, checked))
	require.NoError(t, err)
	for _, pause := range r.Pauses {
		t.Logf("%+v", pause)
	}
	t.Logf("sold %d, unserved %d, refusals %+v", len(r.Sales), r.Unserved, r.Refusals)
	require.NoError(t, r.Err())
	requireNothingLeft(t, servers)
	return r
}

func requireNothingLeft(t *testing.T, servers []redistest.Server) {
	t.Helper()
	for _, server := range servers {
		keys, err := redis.Strings(server.Do("KEYS", "*"))
		require.NoError(t, err)
		assert.Empty(t, keys, server.Addr())
	}
}

func eachKind(t *testing.T, test func(t *testing.T, servers []redistest.Server)) {
	skipUnsupported(t)
	t.Run("embedded", func(t *testing.T) { test(t, redistest.Mini(t, 6)) })
	t.Run("real", func(t *testing.T) { test(t, redistest.Servers(redistest.Real(t, 6))) })
}

func TestWithoutACheckPausedHoldersOversell(t *testing.T) {
	eachKind(t, func(t *testing.T, servers []redistest.Server) {
		r := run(t, servers, false)
		require.Greater(t, len(r.Sales), 50)
		require.Equal(t, len(r.Sales)-50, r.Oversold())
		require.Empty(t, r.Refusals)
		require.Equal(t, 200, len(r.Sales)+r.Unserved)
		require.Len(t, r.Pauses, 4)
		for i, pause := range r.Pauses {
			require.False(t, pause.Refused)
			require.Equal(t, []int{5, 0}[i%2], pause.Others)
		}
	})
}

func TestWithTheCheckPausedHoldersAreRefusedAndNothingIsOversold(t *testing.T) {
	eachKind(t, func(t *testing.T, servers []redistest.Server) {
		r := run(t, servers, true)
		require.Zero(t, r.Oversold())
		require.Zero(t, r.Left)
		require.Len(t, r.Sales, 50, "as many records as items are gone")
		require.Equal(t, 150, r.Unserved)
		buyers := map[int]bool{}
		for i, sale := range r.Sales {
			require.Equal(t, 49-i, sale.Left, "each sale sells the next item")
			require.False(t, buyers[sale.Buyer], "a buyer buys once: %s", sale)
			buyers[sale.Buyer] = true
			if i > 0 {
				require.Greater(t, sale.Token, r.Sales[i-1].Token, "tokens rise from holder to holder")
			}
		}
		require.Len(t, r.Pauses, 4)
		refused := map[uint64]bool{}
		for _, refusal := range r.Refusals {
			require.Greater(t, refusal.Seen, refusal.Token)
			refused[refusal.Token] = true
		}
		for _, pause := range r.Pauses {
			require.True(t, pause.Refused)
			require.True(t, refused[pause.Token], "fence.ErrStale names the holder's token")
		}
		for _, sale := range r.Sales {
			require.False(t, refused[sale.Token], "nothing was written where a holder was refused: %s", sale)
		}
	})
}

func TestASaleThatIsInterruptedLeavesNothing(t *testing.T) {
	skipUnsupported(t)
	servers := redistest.Servers(redistest.Real(t, 6))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	plan := planOn(servers, true)
	plan.Paused = func(stock.Pause) { cancel() }
	_, err := stock.Run(ctx, plan)
	require.ErrorIs(t, err, context.Canceled)
	requireNothingLeft(t, servers)
}

func TestASaleWhoseStockGoesAwaySaysSoAndLeavesNothingOnTheNodes(t *testing.T) {
	skipUnsupported(t)
	servers := redistest.Servers(redistest.Real(t, 6))
	plan := planOn(servers, true)
	plan.Paused = func(stock.Pause) { servers[5].Stop() }
	_, err := stock.Run(t.Context(), plan)
	require.ErrorContains(t, err, ": exit status 1\nstock: buyer ")
	require.ErrorContains(t, err, "the keys on the resource are not deleted")
	requireNothingLeft(t, servers[:5])
}

func TestASaleThatCannotBeginSaysWhy(t *testing.T) {
	skipUnsupported(t)
	servers := redistest.Mini(t, 6)
	servers[5].Stop()
	_, err := stock.Run(t.Context(), planOn(servers, true))
	require.ErrorContains(t, err, "stock: the resource: ")
	servers[5].Start()
	for _, server := range servers[:3] {
		server.Stop()
	}
	_, err = stock.Run(t.Context(), planOn(servers, true))
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	requireNothingLeft(t, servers[3:])
}
