package redlock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// outages are the ways in which a node may fail and come back.
var outages = []struct {
	name        string
	begin, end  func(*testredis.Process)
	forgetsKeys bool
}{

	{"stopped", (*testredis.Process).Stop, (*testredis.Process).Start, true},
	{"frozen", (*testredis.Process).Freeze, (*testredis.Process).Thaw, false},
}

// onOutages runs a test for each kind of outage of 1, 2 ... n-1 of n servers. Short timeouts let the nodes come
// back quickly; on a busy machine they only cost repetitions.
func onOutages(t *testing.T, n, first, last int, test func(t *testing.T, c *cluster, broken int, begin, end func())) {
	for _, outage := range outages {
		for broken := first; broken <= last; broken++ {
			t.Run(fmt.Sprintf("%d of %d %s", broken, n, outage.name), func(t *testing.T) {
				c := onReal(t, n)
				test(t, c, broken,
					func() {
						for _, p := range c.processes[:broken] {
							outage.begin(p)
						}
					},
					func() {
						for _, p := range c.processes[:broken] {
							outage.end(p)
						}
					})
			})
		}
	}
}

func TestLock_IsTakenExtendedAndReleasedWhileAMinorityIsAway(t *testing.T) {
	t.Parallel()
	onOutages(t, 5, 1, 2, func(t *testing.T, c *cluster, broken int, begin, end func()) {
		// Nothing waits for the nodes that are away: a call that did would outlive the test.
		locker := lockerOver(t, c.nodes(pool.WithTimeout(long)))
		before := take(t, locker, "before")
		c.eventuallyHeld("before", before.Token())
		begin()
		during := take(t, locker, "during")
		for _, lock := range []*redlock.Lock{before, during} {
			require.NoError(t, lock.Extend(t.Context(), 2*long))
		}
		_, err := locker.TryLock(t.Context(), "during")
		require.ErrorIs(t, err, redlock.ErrTaken)
		for _, lock := range []*redlock.Lock{before, during} {
			require.NoError(t, lock.Unlock(t.Context()))
		}
		end()
		c.eventuallyEmpty()
		require.NoError(t, take(t, locker, "after").Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestQuorumError_NamesExactlyTheNodesThatAreAway(t *testing.T) {
	t.Parallel()
	onOutages(t, 5, 3, 5, func(t *testing.T, c *cluster, broken int, begin, end func()) {
		seen := &recorder{}
		locker := lockerOver(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(50*time.Millisecond)), redlock.WithObserver(seen))
		connected := seen.takeOnAll(t, locker, 5)
		begin()
		namesThem := func(err error) {
			t.Helper()
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.NotErrorIs(t, err, redlock.ErrTaken)
			for i, node := range c.refused(err).Nodes {
				if i < broken {
					require.Error(t, node.Err)
				} else if node.Err != nil {
					require.ErrorIs(t, node.Err, nodeerr.ErrPending, "it had nothing to blame on it")
				}
			}
		}
		_, err := locker.TryLock(t.Context(), "during")
		namesThem(err)
		namesThem(connected.Extend(t.Context(), 2*long))
		require.NoError(t, connected.Err(), "it is held until its deadline")
		namesThem(connected.Unlock(t.Context()))
		end()

		// The nodes that are back are found to be so one by one.
		after, err := locker.Lock(t.Context(), "after")
		require.NoError(t, err)
		require.NoError(t, after.Unlock(t.Context()))
		c.eventuallyEmpty()
	})
}

func TestTryLock_AfterAnOutageEveryNodeTakesPartAgain(t *testing.T) {
	t.Parallel()
	onOutages(t, 3, 1, 3, func(t *testing.T, c *cluster, _ int, begin, end func()) {
		seen := &recorder{}
		locker := lockerOver(t, c.nodes(pool.WithTimeout(brief), pool.WithMaxOverdue(50*time.Millisecond)), redlock.WithObserver(seen))
		begin()
		for range 3 {
			lock, err := locker.TryLock(t.Context(), "during")
			if err == nil {
				err = lock.Unlock(t.Context())
			}
			if err != nil {
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
			}
		}
		end()
		seen.connect(t, locker, 3)
		c.eventuallyEmpty()
	})
}

// The danger: a majority of the nodes that answer, instead of a majority of all.
func TestTryLock_TwoOfFiveAreNeverAMajorityThoughTheOthersAreDead(t *testing.T) {
	t.Parallel()
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		for _, s := range c.servers[:3] {
			s.Stop()
		}
		locker := c.locker()
		for range 10 {
			_, err := locker.TryLock(t.Context(), "name")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			refusal := c.refused(err)
			require.Equal(t, 3, refusal.Need)
			for _, node := range refusal.Nodes[:3] {
				var down *nodeerr.ConnectError
				require.True(t, errors.As(node.Err, &down), "%v", node.Err)
			}
		}
		for i := 3; i < 5; i++ {
			eventually(t, func() bool { return c.value(i, "name") == "" }, "server %d", i)
		}
	})
}
