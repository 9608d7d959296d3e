package redlock_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// groupNames are the names of groups that sentinels watch.
var groupNames = []string{"a", "b", "c"}

// openGroups makes a node of each group. A guard of 0 means none, which no option can say.
func openGroups(t *testing.T, s *testredis.Sentinels, guard time.Duration, opts ...pool.Option) []*pool.Node {
	t.Helper()
	var urls []string
	for _, name := range groupNames {
		urls = append(urls, s.URL(name))
	}
	return openGuarded(t, urls, guard, opts...)
}

// openGuarded makes nodes whose servers change, with a guard of 0 too.
func openGuarded(t testing.TB, urls []string, guard time.Duration, opts ...pool.Option) []*pool.Node {
	t.Helper()
	nodes := open(t, urls, append(opts, pool.WithRestartGuard(max(guard, time.Minute)))...)
	for i, n := range nodes {
		config := (*node.Node)(n).Config()
		config.MaxTTL = guard
		nodes[i] = (*pool.Node)(node.New(config))
		t.Cleanup(func() { require.NoError(t, nodes[i].Close()) })
	}
	return nodes
}

// inUse has the primary of each group be in use for long, also for its replicas.
func inUse(t *testing.T, s *testredis.Sentinels) {
	t.Helper()
	for _, name := range groupNames {
		testredis.InUse(t, s.Group(name).Primary(), name, 24*time.Hour)
		for _, replica := range s.Group(name).Replicas() {
			eventually(t, func() bool {
				left, err := replica.Do("PTTL", testredis.Stamps+name)
				return err == nil && left.(int64) > 0
			}, "the stamp is replicated as well")
		}
	}
}

// Two of three groups fail over without the latest lock, and a program connects afterwards.
func TestGroup_AFailoverThatLosesTheLockGivesNoSecondHolder(t *testing.T) {
	t.Parallel()
	inTurn(t, map[string]bool{"with the guard": true, "without": false}, func(t *testing.T, guarded bool) {
		guard, ttl := time.Duration(0), time.Minute
		if guarded { // long enough for the failovers, so that the second holder can be found
			guard, ttl = 15*time.Second, 15*time.Second
		}
		s := testredis.NewSentinels(t, groupNames...)
		inUse(t, s)
		program := func() *redlock.Locker { return lockerOver(t, openGroups(t, s, guard), redlock.TTL(ttl)) }
		for _, name := range groupNames {
			s.Group(name).Lag()
		}
		first := take(t, program(), "name")
		s.Group("a").FailOverLate()
		s.Group("b").FailOverLate()
		require.NoError(t, first.Err(), "the failovers took longer than the lock")
		requireSecondHolder(t, first, program(), !guarded)
	})
}

// The danger: a primary that is cut off together with a program grants that program locks, beside its successor.
func TestGroup_APrimaryThatGrantsLocksWithoutReplicasIsInTheLogOnce(t *testing.T) {
	t.Parallel()
	s := testredis.NewSentinels(t, "a")
	primary := s.Group("a").Primary()
	const line = "a primary grants locks even if it is cut off from its replicas"
	nodes := open(t, []string{s.URL("a")}, pool.WithRestartGuard(time.Second))
	for _, replicas := range []int{2, 0} {
		_, err := primary.Do("CONFIG", "SET", "min-replicas-to-write", replicas)
		require.NoError(t, err)
		log := &logBuffer{}
		locker := lockerOver(t, nodes, redlock.TTL(time.Second), redlock.WithLogger(slog.New(slog.NewJSONHandler(log, nil))))
		unlock(t, won(t, lockBeside(t.Context(), locker, "name"))) // when it votes
		for range 2 {
			_, err := primary.Do("CLIENT", "KILL", "TYPE", "pubsub")
			require.NoError(t, err)
			unlock(t, won(t, lockBeside(t.Context(), locker, "name")))
		}
		locker.Drain()
		want := 0
		if replicas == 0 {
			want = 1
		}
		require.Equal(t, want, strings.Count(log.String(), line), log.String())
	}
}

// A failover of one of three groups stops nobody.
func TestGroup_TheOthersGrantLocksWhileOneFailsOver(t *testing.T) {
	t.Parallel()
	s := testredis.NewSentinels(t, groupNames...)
	inUse(t, s)
	groups := []string{s.URL("a"), s.URL("b"), s.URL("c")}
	locker, err := redlock.Open(groups, pool.WithRestartGuard(30*time.Second))
	require.NoError(t, err)
	defer locker.Close()
	lock := take(t, locker, "held", redlock.RenewFor(redlock.NoLimit))
	over := make(chan struct{})
	former := s.Group("b").Primary()
	former.Stop()
	go func() {
		defer close(over)
		s.Group("b").WaitForPrimary(former)
	}()
	for taken := 0; ; taken++ {
		unlock(t, take(t, locker, "name"))
		select {
		case <-over:
			require.Greater(t, taken, 10)
			unlock(t, lock)
			return
		default:
		}
	}
}

func TestGroup_AServerThatCannotNameAnotherIsCalledSo(t *testing.T) {
	t.Parallel()
	addr := testredis.Real(t, 1)[0].Addr()
	for url, want := range map[string][]string{
		"redis+sentinel://" + addr + "/group":   {"sentinel " + addr + ": ERR unknown command", ": it is no Sentinel"},
		"redis+cluster://" + addr + "/?nodes=1": {"cluster node " + addr + ": ERR", ": it is not in cluster mode"},
	} {
		l, err := redlock.Open([]string{url}, pool.WithRestartGuard(long), pool.WithTimeout(patient))
		require.NoError(t, err)
		_, err = l.TryLock(t.Context(), "name")
		require.NoError(t, l.Close())
		var refusal *redlock.QuorumError
		require.ErrorAs(t, err, &refusal)
		for _, text := range want {
			require.ErrorContains(t, refusal.Nodes[0].Err, text)
		}
	}
}
