package redlock_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// aclSentinelRules returns the rules for a user of Sentinels that docs/failover.md shows.
func aclSentinelRules(tb testing.TB) []string {
	tb.Helper()
	text := must(os.ReadFile("../docs/failover.md"))(tb)
	found := regexp.MustCompile("(?s)\\*\\*ACL rules\\*\\* of a user of the Sentinels: `([^`]+)`").FindSubmatch(text)
	require.NotNil(tb, found)
	return strings.Fields(string(found[1]))
}

// watchedServer is a server that a Sentinel watches, which has a user that may do what some rules say.
type watchedServer struct {
	*cluster
	url string
}

func newWatchedServer(t *testing.T, rules []string) *watchedServer {
	server, c := testredis.Real(t, 1)[0], &cluster{tb: t, servers: []testredis.Server{testredis.Sentinel(t)}}
	host, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	c.do(0, "SENTINEL", "MONITOR", "group", host, port, 1)
	args := []any{"SETUSER", "watcher", "reset", "resetchannels", "on", ">secret"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	c.do(0, "ACL", args...)
	return &watchedServer{c, "redis+sentinel://" + c.servers[0].Addr() + "/group?sentinel_user=watcher&sentinel_password=secret"}
}

// follow takes a lock, and waits until the node is told of failovers and has asked whether the Sentinel is there.
func (w *watchedServer) follow(t *testing.T) error {
	if lock, err := lockerOver(t, openGuarded(t, []string{w.url}, 0)).TryLock(t.Context(), "name"); err != nil {
		return err
	} else if err := lock.Unlock(t.Context()); err != nil {
		return err
	}
	follows := regexp.MustCompile(` sub=1 .* cmd=ping user=watcher `)
	for begun := time.Now(); time.Since(begun) < 30*time.Second; pass(10 * time.Millisecond) {
		clients := fmt.Sprintf("%s", w.do(0, "CLIENT", "LIST"))
		if refused := must(redis.Values(w.servers[0].Do("ACL", "LOG")))(t); len(refused) > 0 {
			return fmt.Errorf("refused: %s", refused)
		}
		if follows.MatchString(clients) {
			return nil
		}
	}
	return errors.New("the node does not follow the Sentinel")
}

func TestACL_TheRulesForSentinelsAreEnoughAndNeeded(t *testing.T) {
	t.Parallel()
	rules := aclSentinelRules(t)
	require.NoError(t, newWatchedServer(t, rules).follow(t))
	for _, rule := range rules {
		t.Run(strings.NewReplacer("|", " ").Replace(rule), func(t *testing.T) {
			t.Parallel()
			w := newWatchedServer(t, slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule }))
			err := w.follow(t)
			require.Error(t, err)
			t.Log(err)
			require.NotContains(t, err.Error(), "does not follow", "it is refused")
		})
	}
}
