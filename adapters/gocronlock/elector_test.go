package gocronlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/gocronlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/redlocktest"
)

func newElector(t *testing.T, locker *redlock.Locker, opts ...gocronlock.Option) *gocronlock.Elector {
	t.Helper()
	e, err := gocronlock.NewElector(t.Context(), locker, "leader", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func TestElector_OneInstanceIsTheLeaderUntilItResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var errs told
		one := newElector(t, cluster.Locker(), errs.option())
		synctest.Wait()
		other := newElector(t, cluster.Locker(), errs.option())
		cluster.Advance(time.Minute)
		require.NoError(t, one.IsLeader(t.Context()))
		require.ErrorIs(t, other.IsLeader(t.Context()), gocronlock.ErrNotLeader)
		term, cancel := one.Context(t.Context())
		defer cancel()
		none, cancel := other.Context(t.Context())
		defer cancel()
		require.ErrorIs(t, context.Cause(none), gocronlock.ErrNotLeader)
		require.NoError(t, term.Err())
		require.NoError(t, one.Close())
		require.NoError(t, one.Close())
		require.ErrorIs(t, context.Cause(term), redlock.ErrReleased)
		require.ErrorIs(t, one.IsLeader(t.Context()), gocronlock.ErrNotLeader)
		cluster.Advance(time.Second) // the servers of the test announce nothing
		require.NoError(t, other.IsLeader(t.Context()))
		require.Empty(t, errs.all())
	})
}

func TestElector_ResignsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		one, err := gocronlock.NewElector(ctx, cluster.Locker(), "leader")
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, one.IsLeader(ctx))
		cancel()
		synctest.Wait()
		require.ErrorIs(t, one.IsLeader(ctx), gocronlock.ErrNotLeader)
		other := newElector(t, cluster.Locker())
		synctest.Wait()
		require.NoError(t, other.IsLeader(t.Context()))
	})
}

func TestElector_ALeaderThatLosesItsLockIsNoLeaderAndCampaignsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var errs told
		one := newElector(t, cluster.Locker(), errs.option())
		synctest.Wait()
		term, cancel := one.Context(t.Context())
		defer cancel()
		release := cluster.Steal(gocronlock.NamePrefix + "leader")
		cluster.Advance(10 * time.Second)
		require.ErrorIs(t, one.IsLeader(t.Context()), gocronlock.ErrNotLeader)
		require.ErrorIs(t, context.Cause(term), redlock.ErrGone)
		require.Len(t, errs.all(), 1)
		require.ErrorIs(t, errs.all()[0], redlock.ErrGone)
		release()
		cluster.Advance(2 * time.Second)
		require.NoError(t, one.IsLeader(t.Context()))
	})
}

// The danger: a leader that cannot reach the servers any more, while another is elected.
func TestElector_ALeaderThatReachesNoServerIsNoLeaderAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var errs told
		one := newElector(t, cluster.Locker(), errs.option())
		synctest.Wait()
		cluster.Stop(0, 1, 2)
		cluster.Advance(10 * time.Second)
		require.ErrorIs(t, one.IsLeader(t.Context()), gocronlock.ErrNotLeader)
		require.Len(t, errs.all(), 1)
		require.ErrorIs(t, errs.all()[0], redlock.ErrExpired)
		cluster.Start(0, 1, 2)
		cluster.Advance(15 * time.Second)
		require.NoError(t, one.IsLeader(t.Context()))
	})
}

func TestElector_TellsThatTooFewServersAnswerAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		cluster.Stop(0, 1, 2)
		var errs told
		one := newElector(t, cluster.Locker(), errs.option())
		cluster.Advance(time.Minute)
		require.NotEmpty(t, errs.all())
		require.Less(t, len(errs.all()), 8)
		require.ErrorIs(t, errs.all()[0], redlock.ErrNoQuorum)
		cluster.Start(0, 1, 2)
		cluster.Advance(15 * time.Second)
		require.NoError(t, one.IsLeader(t.Context()))
	})
}

func TestElector_EndsWithItsLockerAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		cluster.Hold(gocronlock.NamePrefix + "leader")
		var errs told
		locker := cluster.Locker()
		one := newElector(t, locker, errs.option())
		synctest.Wait()
		require.NoError(t, locker.Close())
		cluster.Advance(time.Minute)
		require.Len(t, errs.all(), 1)
		require.ErrorIs(t, errs.all()[0], redlock.ErrClosed)
		require.ErrorIs(t, one.IsLeader(t.Context()), gocronlock.ErrNotLeader)
	})
}

func TestNewElector_RefusesWhatIsOutOfRange(t *testing.T) {
	t.Parallel()
	locker := redlocktest.New(t).Locker()
	for name, opt := range map[string]gocronlock.Option{
		"":                      gocronlock.OnError(nil),
		"with AtLeast":          gocronlock.AtLeast(time.Second),
		"with nil":              nil,
		"with a TTL of nothing": gocronlock.LockOptions(redlock.TTL(0)),
		"with {x}:fence\n":      gocronlock.OnError(nil),
		"of readers":            gocronlock.LockOptions(redlock.Shared()),
		"of two":                gocronlock.LockOptions(redlock.Slots(2)),
		"again":                 gocronlock.LockOptions(redlock.Owner("me"), redlock.Reentrant()),
	} {
		_, err := gocronlock.NewElector(t.Context(), locker, name, opt)
		require.ErrorIs(t, err, redlock.ErrInvalid, "%q", name)
	}
	_, err := gocronlock.NewElector(t.Context(), nil, "leader")
	require.ErrorIs(t, err, redlock.ErrInvalid)
}
