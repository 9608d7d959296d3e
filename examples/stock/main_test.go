package main

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-seller" { // this program is a seller's process
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// requireSales checks what is printed of the two sales.
func requireSales(t *testing.T, out string) {
	t.Helper()
	t.Log(out)
	first, second, found := strings.Cut(out, "\n2  ")
	require.True(t, found)
	require.Regexp(t, `50 items in stock, \d+ sold: oversold by [1-9]`, first)
	require.Equal(t, pauses, strings.Count(first, "is stopped: it holds the lock, and has read a stock of "))
	require.Equal(t, pauses, strings.Count(first, "5 others buy; "))
	require.Equal(t, pauses, strings.Count(first, "Then it goes on and writes "))

	require.Contains(t, second, "50 items in stock, 50 sold: oversold by 0.")
	require.Equal(t, pauses, strings.Count(second, "Its late write is refused"))
}

func skipWithoutSignals(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be stopped")
	}
}

func TestStock_IsOversoldWithoutTheCheckAndNeverWithIt(t *testing.T) {
	skipWithoutSignals(t)
	t.Run("miniredis", func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), task{ttl: 300 * time.Millisecond}, &out))
		requireSales(t, out.String())
	})
	t.Run("redis-server", func(t *testing.T) {
		urls := testredis.URLs(testredis.Real(t, 6))
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), task{nodes: strings.Join(urls[:5], ","), stock: urls[5], ttl: 300 * time.Millisecond}, &out))
		requireSales(t, out.String())
		conn, err := redis.DialURL(urls[5])
		require.NoError(t, err)
		defer conn.Close()
		keys, err := redis.Strings(conn.Do("KEYS", "*"))
		require.NoError(t, err)
		require.Empty(t, keys)
	})
}

// canceller ends a context when something is printed.
type canceller struct {
	bytes.Buffer
	text   string
	cancel func()
}

func (c *canceller) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.text) {
		c.cancel()
	}
	return c.Buffer.Write(p)
}

func TestStock_EndsWhenItIsInterrupted(t *testing.T) {
	skipWithoutSignals(t)
	for _, text := range []string{"is stopped", "goes on", "oversold by", "late write"} {
		t.Run(text, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			out := &canceller{text: text, cancel: cancel}
			err := run(ctx, task{ttl: 300 * time.Millisecond}, out)
			require.ErrorIs(t, err, context.Canceled)
			require.NotContains(t, out.String(), "oversold by 0")
		})
	}
}
