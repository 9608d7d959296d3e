package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/internal/stock"
	"github.com/quorumlock/quorumlock/redlock"
)

// requireStock checks what is said of the two sales.
func requireStock(t *testing.T, code int, out, failure string) {
	t.Helper()
	require.Zero(t, code, failure+out)
	assert.Empty(t, failure)
	assert.NotContains(t, out, "\x1b", "colours where there is no terminal")
	step := steps(out)
	require.Len(t, step, 3, out)
	assert.Contains(t, step[0], "50 items in stock, and 200 buyers in 4 processes")

	stopped := regexp.MustCompile(`Process \d+ is stopped: it holds the lock, and has read a stock of \d+\.`)
	assert.Len(t, stopped.FindAllString(step[1], -1), stockPauses, step[1])
	assert.Equal(t, 2, strings.Count(step[1], "5 others sell, down to "), step[1])
	assert.Equal(t, stockPauses, strings.Count(step[1], "then it goes on and writes "), step[1])
	assert.Regexp(t, `50 items in stock, \d+ sold: oversold by [1-9]`, step[1])
	assert.Contains(t, step[1], "4 holders were paused, 0 sales refused")

	assert.Len(t, stopped.FindAllString(step[2], -1), stockPauses, step[2])
	assert.Equal(t, stockPauses, strings.Count(step[2], "its late write is refused."), step[2])
	assert.Contains(t, step[2], "50 items in stock, 50 sold: oversold by 0.")
	// On a slow machine a lock may end in the middle of a sale without a pause, too.
	assert.Regexp(t, `4 holders were paused, ([4-9]|\d\d+) sales refused \(fence.ErrStale\)`, step[2])
	assert.Regexp(t, `✔ Oversold by [1-9]\d* without the check, and by nothing with it`, step[2])
	fits(t, out)
}

// needsPauses skips a test where processes cannot be stopped.
func needsPauses(t *testing.T) {
	t.Helper()
	if err := stock.Supported(); err != nil {
		t.Skip(err)
	}
}

func TestTheStockIsOversoldWithoutTheCheckAndNeverWithItOnEmbeddedNodes(t *testing.T) {
	needsPauses(t)
	code, out, failure := call(t.Context(), "stock")
	requireStock(t, code, out, failure)
	assert.Contains(t, out, "Nodes: inside this program (miniredis)")
}

func TestTheStockIsSoldUnderALockOnRealServersWithoutLeavingAnythingThere(t *testing.T) {
	needsPauses(t)
	servers := redistest.Real(t, 5)
	code, out, failure := call(t.Context(), "stock", "--nodes="+strings.Join(redistest.URLs(servers), ","))
	requireStock(t, code, out, failure)
	assert.Contains(t, out, "Nodes: your own")
	nothingLeft(t, servers)
}

func TestAStockSaleThatIsInterruptedEndsAndCleansUp(t *testing.T) {
	needsPauses(t)
	for name, at := range map[string]string{
		"before the first sale":  "Nodes: your own",
		"in the first sale":      "goes on and writes",
		"between the two":        "oversold by",
		"before the second sale": "2  Each write",
		"in the second sale":     "late write is refused",
	} {
		t.Run(name, func(t *testing.T) {
			servers := redistest.Real(t, 3)
			ctx, cancel := context.WithCancelCause(t.Context())
			out := &trigger{text: at, do: func() { cancel(errMeant) }}
			var stderr bytes.Buffer
			code := run(ctx, []string{"stock", "--ttl=200ms", "--nodes=" + strings.Join(redistest.URLs(servers), ",")}, streams{out, &stderr})
			require.Nil(t, out.do, "never came to %q:\n%s", at, out)
			nothingLeft(t, servers)
			assert.Equal(t, 1, code)
			assert.Contains(t, stderr.String(), "interrupted in sale ")
			assert.NotContains(t, out.String(), "✔")
		})
	}
}

func TestAStockSaleFailsSoonWhereNoNodeAnswers(t *testing.T) {
	needsPauses(t)
	servers := redistest.Real(t, 3)
	for _, server := range servers {
		server.Stop()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code, _, failure := call(ctx, "stock", "--nodes="+strings.Join(redistest.URLs(servers), ","))
	assert.Equal(t, 1, code)
	assert.Contains(t, failure, "sale 1 failed")
	assert.Contains(t, failure, redlock.ErrNoQuorum.Error())
	for _, server := range servers {
		assert.Contains(t, failure, server.Addr())
	}
}
