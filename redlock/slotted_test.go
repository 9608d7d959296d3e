package redlock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	slots "github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// slotted is a Redis Cluster that makes three nodes.
type slotted struct {
	*testredis.Cluster
	tb    testing.TB
	guard time.Duration
}

// newSlotted starts a cluster whose masters vote at once. The masters after them do not.
func newSlotted(tb testing.TB, guard time.Duration, args ...string) *slotted {
	tb.Helper()
	s := &slotted{testredis.NewCluster(tb, args...), tb, guard}
	for i := range 3 {
		found := slots.New(nil).Node(i, 3)
		stamp := testredis.OwnStamp(tb, s.owner(i))
		left := 60*24*time.Hour - 2*guard
		require.NoError(tb, errOf(s.owner(i).Do("SET", s.key(i, testredis.Stamps+found.Name()), stamp, "PX", left.Milliseconds())))
	}
	return s
}

// slot returns the slot of a node.
func (s *slotted) slot(node int) int { return slots.New(nil).Node(node, 3).Slot() }

// owner returns the server of a node.
func (s *slotted) owner(node int) *testredis.Process { return s.Owner(s.slot(node)) }

// key returns a key of a node.
func (s *slotted) key(node int, key string) string { return slots.New(nil).Node(node, 3).Tag() + key }

// locker returns a Locker with connections of its own, as another program would have.
func (s *slotted) locker(opts ...redlock.Option) *redlock.Locker {
	s.tb.Helper()
	nodes := openGuarded(s.tb, []string{s.URL(3)}, s.guard)
	return lockerOver(s.tb, nodes, append([]redlock.Option{redlock.TTL(s.guard)}, opts...)...)
}

// holding returns how many nodes hold a value under a key.
func (s *slotted) holding(key, value string) (n int) {
	for i := range 3 {
		if held, _ := redis.String(s.owner(i).Do("GET", s.key(i, key))); held == value {
			n++
		}
	}
	return n
}

// ours returns the keys of ours but counters and stamps.
func (s *slotted) ours() (all []string) {
	for i := range 3 {
		keys, err := redis.Strings(s.owner(i).Do("CLUSTER", "GETKEYSINSLOT", s.slot(i), 1000))
		require.NoError(s.tb, err)
		for _, key := range keys {
			if !isKept(key) {
				all = append(all, key)
			}
		}
	}
	return all
}

// The danger: a hash tag in a name or a prefix takes a key to another slot, or is taken for that of the node.
func TestSlotted_NamesMayHaveHashTagsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newSlotted(t, long)
	one, other := s.locker(redlock.WithKeyPrefix("{x}")), s.locker(redlock.WithKeyPrefix("{x}"))
	for _, locker := range []*redlock.Locker{one, s.locker(redlock.WithFencing())} {
		locks := all(locker.LockAll(t.Context(), []string{"a", "b", "{c}"}))(t)
		require.ErrorIs(t, errOf(locker.TryLock(t.Context(), "{c}")), redlock.ErrTaken)
		require.NoError(t, locks.Unlock(t.Context()))
	}
	lock := take(t, one, "{c}")
	eventually(t, func() bool { return s.holding("{x}{c}", string(lock.Token())) == 3 }, "on all")
	unlock(t, lock)
	for _, share := range []redlock.LockOption{redlock.Shared(), redlock.Slots(2)} {
		first, second := take(t, one, "shared", share), take(t, other, "shared", share)
		writer := queue(t, t.Context(), other, "shared")
		unlock(t, first, second)
		unlock(t, won(t, writer))
	}
	eventually(t, func() bool { return len(s.ours()) == 0 }, "nothing is left")
}

// isKept reports whether a key stays without a lock.
func isKept(key string) bool {
	for i := range 3 {
		if name := slots.New(nil).Node(i, 3).Name(); key == "{"+name+"}"+testredis.Stamps+name {
			return true
		}
	}
	return strings.HasSuffix(key, "}:fence")
}

// A failover of one of three masters stops nobody.
func TestSlotted_TheOthersGrantLocksWhileOneFailsOver(t *testing.T) {
	t.Parallel()
	s := newSlotted(t, 10*time.Second, "--cluster-require-full-coverage", "no")
	locker := s.locker()
	lock := take(t, locker, "held", redlock.RenewFor(redlock.NoLimit))
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.Kill(s.slot(1))
	}()
	for taken := 0; ; taken++ {
		unlock(t, take(t, locker, "name"))
		select {
		case <-over:
			require.Greater(t, taken, 10)
			eventually(t, func() bool {
				last := take(t, locker, "name")
				defer unlock(t, last)
				<-time.After(10 * time.Millisecond)
				return s.holding("name", string(last.Token())) == 3
			}, "the next master votes when its guard is over")
			unlock(t, lock)
			return
		default:
		}
	}
}

// By default no server of a cluster does anything while any slot has no master.
func TestSlotted_AllWaitWhileAClusterThatNeedsAllSlotsFailsOver(t *testing.T) {
	t.Parallel()
	s := newSlotted(t, long)
	locker := s.locker()
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.Kill(s.slot(1))
	}()
	for taken := 0; ; taken++ {
		lock := receive(t, lockBeside(t.Context(), locker, fmt.Sprint("name", taken)), "the lock")
		require.NoError(t, lock.err)
		if err := lock.lock.Unlock(t.Context()); err != nil {
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.NotContains(t, err.Error(), "is not sent again")
		}
		select {
		case <-over:
			require.Greater(t, taken, 10)
			eventually(t, func() bool { return len(s.ours()) == 0 }, "each was released: %v", s.ours())
			return
		default:
		}
	}
}

// Two of three masters are replaced by replicas without the latest lock, and a program connects afterwards.
func TestSlotted_AFailoverThatLosesTheLockGivesNoSecondHolder(t *testing.T) {
	t.Parallel()
	inTurn(t, map[string]bool{"with the guard": true, "without": false}, func(t *testing.T, guarded bool) {
		const ttl = 20 * time.Second // long enough for the failovers, so that the second holder can be found
		s := newSlotted(t, ttl)
		if !guarded {
			s.guard = 0
		}
		program := func() *redlock.Locker { return s.locker(redlock.TTL(ttl)) }
		replicas := [2]*testredis.Process{s.Lag(s.slot(0)), s.Lag(s.slot(1))}
		first := take(t, program(), "name")
		for i, replica := range replicas {
			s.FailOverLate(s.slot(i), replica)
		}
		require.NoError(t, first.Err(), "the failovers took longer than the lock")
		requireSecondHolder(t, first, program(), !guarded)
	})
}

// The danger: a master votes for two nodes, and so a majority of the nodes is no majority of the masters.
func TestSlotted_AMasterOfTwoNodesVotesOnce(t *testing.T) {
	t.Parallel()
	s := newSlotted(t, time.Minute)
	s.Migrate(s.slot(1), s.owner(0))
	s.Migrate(s.slot(2), s.owner(0))
	s.guard = 0 // it votes at once
	locker := s.locker(redlock.TTL(time.Minute))
	eventually(t, func() bool { // all are connected
		_, err := locker.TryLock(t.Context(), "name")
		same := 0
		for _, n := range as[*redlock.QuorumError](t, err).Nodes {
			if errors.Is(n.Err, nodeerr.ErrSameServer) {
				same++
			}
		}
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		return same == 2
	}, "the server is known")
}
