package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/web"
	slots "github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
)

func TestCluster_ThePageShowsLocksWithoutTagsAndFreesThem(t *testing.T) {
	t.Parallel()
	c := testredis.NewCluster(t)
	node := func(i int) (tag string, owner *testredis.Process) {
		n := slots.New(nil).Node(i, size)
		return n.Tag(), c.Owner(n.Slot())
	}
	for i := range size {
		tag, owner := node(i)
		name := strings.Trim(tag, "{}")
		do(t, []*testredis.Process{owner}, "SET", tag+"lock:name", "token", "PX", 600_000)
		do(t, []*testredis.Process{owner}, "SET", tag+testredis.Stamps+name, testredis.OwnStamp(t, owner), "PX", (59 * 24 * time.Hour).Milliseconds())
		do(t, []*testredis.Process{owner}, "SET", "x"+tag, "data")
	}
	s := over(t, nil, []string{c.URL(size)}, func(config *web.Config) {
		config.AllowUnlock, config.RestartGuard = true, time.Hour
	}, pool.WithRestartGuard(time.Hour))
	page := s.see("/", "name</a>")
	require.Contains(t, page, "q0/3.111@")
	require.NotContains(t, page, "{q")
	require.Equal(t, size, strings.Count(page, ">1 key<"), page)
	require.NotContains(t, page, "stamp")
	page, f := s.confirm("name")
	require.Equal(t, size, strings.Count(page, "will be removed"))
	s.unlock(f, http.StatusOK)
	for i := range size {
		tag, owner := node(i)
		left, err := owner.Do("EXISTS", tag+"lock:name")
		require.NoError(t, err)
		require.Zero(t, left)
	}

	_, next := node(1)
	c.Migrate(slots.New(nil).Node(0, size).Slot(), next)
	page = s.see("/", "do not ask it for locks for") // by the stamp of the former server, or by the one that the pool has set since
	require.NotContains(t, page, "MOVED")
}
