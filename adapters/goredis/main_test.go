package goredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/adapters/goredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// bound is how long a test waits for what has to happen: far above what it takes.
	bound = 20 * time.Second
	tick  = 2 * time.Millisecond
)

// open makes a Locker over nodes of the options. All of it ends with the test.
func open(t *testing.T, servers ...*redis.Options) *redlock.Locker {
	t.Helper()
	nodes, err := goredis.Open(servers, pool.WithTimeout(bound), pool.WithDialTimeout(bound))
	require.NoError(t, err)
	locker, err := redlock.New(nodes, redlock.WithMaxTTL(time.Hour), redlock.TTL(time.Hour))
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, locker.Close())
		for _, n := range nodes {
			assert.NoError(t, n.Close())
		}
	})
	return locker
}

// within returns a context that ends only if what is waited for does not happen.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	t.Cleanup(cancel)
	return ctx
}

// client makes a client that is closed with the test.
func client(t *testing.T, o *redis.Options) *redis.Client {
	c := redis.NewClient(o)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}
