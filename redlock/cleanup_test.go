package redlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

func TestNothingIsSentOnAContextThatHasEndedAlready(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		var dials atomic.Int64
		nodes := c.nodes(throughWires(func(string, *wire) { dials.Add(1) }))
		locker := lockerOver(t, nodes)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("tired"))
		for _, call := range []func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error){locker.TryLock, locker.Lock} {
			_, err := call(ctx, "name")
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, "tired")
			for _, node := range c.refused(err).Nodes {
				require.ErrorIs(t, node.Err, context.Canceled)
			}
		}
		require.NoError(t, locker.Close())
		for _, node := range nodes {
			require.NoError(t, node.Close()) // waits for a dial that has begun
		}
		require.Zero(t, dials.Load(), "not even the release of what was never asked for")
	})
}

// Trap 27: rounds that pile up clean-up on nodes that are down, where nothing of them can be.
func TestRoundsWithoutAnyNodeDoNotPileUpReleases(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		for _, s := range c.servers {
			s.Stop()
		}
		var releases atomic.Int64
		seen := &recorder{}
		locker := lockerOver(t, c.nodes(counting("\r\nEVAL", &releases)), redlock.WithObserver(seen))
		isDown := func(err error) bool {
			down := 0
			for _, node := range c.refused(err).Nodes {
				if connect := (*pool.ConnectError)(nil); errors.As(node.Err, &connect) {
					down++
				}
			}
			return down == 5
		}
		eventually(t, func() bool {
			_, err := locker.TryLock(t.Context(), "name")
			return isDown(err)
		}, "all nodes are known to be down")
		for range 100 {
			_, err := locker.TryLock(t.Context(), "name")
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		}
		for _, s := range c.servers {
			s.Start()
		}
		seen.connect(t, locker, 5)
		rounds := len(seen.verdictsOn("acquire")) - 100
		require.Less(t, releases.Load(), int64(5*rounds+50), "more than the rounds before and after may have sent")
	})
}

// cancelsLate is an observer that ends a context when a round has been lost, and then holds up the goroutine that lost it.
type cancelsLate struct {
	cancel func()
	no     atomic.Int64
}

func (o *cancelsLate) Vote(v redlock.Vote) {
	if v.Answer == pool.No && o.no.Add(1) == 2 {
		o.cancel()
		<-time.After(20 * time.Millisecond) // without the wait for it, the call returns and all is closed by then
	}
}

func (o *cancelsLate) Verdict(redlock.Verdict) {}

// Trap 1: who closes everything right after the call takes nothing away from what the call has to clean up.
func TestACallDoesNotReturnBeforeItsReleasesAreHandedOver(t *testing.T) {
	c := onMini(t, 3)
	c.do(0, "SET", "name", "other")
	c.do(1, "SET", "name", "other")
	ctx, cancel := context.WithCancel(t.Context())
	nodes := c.nodes()
	locker, err := redlock.New(nodes, redlock.WithTTL(long), redlock.WithObserver(&cancelsLate{cancel: cancel}))
	require.NoError(t, err)
	_, err = locker.TryLock(ctx, "name")
	require.Error(t, err)
	require.NoError(t, locker.Close())
	for _, i := range []int{2, 1, 0} {
		require.NoError(t, nodes[i].Close())
	}
	require.Empty(t, c.value(2, "name"))
}
