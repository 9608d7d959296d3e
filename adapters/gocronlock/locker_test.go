package gocronlock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/adapters/gocronlock"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/redlocktest"
)

// told is what OnError has been told.
type told struct {
	mu   sync.Mutex
	errs []error
}

func (o *told) option() gocronlock.Option {
	return gocronlock.OnError(func(name string, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.errs = append(o.errs, err)
	})
}

func (o *told) all() []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.errs
}

func newLocker(t *testing.T, locker *redlock.Locker, opts ...gocronlock.Option) *gocronlock.Locker {
	t.Helper()
	l, err := gocronlock.New(locker, opts...)
	require.NoError(t, err)
	return l
}

// ended returns a context that has ended, as gocron has it when the scheduler stops.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestLocker_KeepsTheLockOfAShortJobForAtLeastAndThenReleasesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var errs told
		one := newLocker(t, cluster.Locker(), errs.option())
		other := newLocker(t, cluster.Locker(), errs.option())
		lock, err := one.Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ended()))
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrReleased)
		ctx, cancel := one.Context(t.Context(), "job")
		defer cancel()
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrNotHeld, "the job has ended")
		cluster.Advance(499 * time.Millisecond)
		_, err = other.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		_, err = one.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		cluster.Advance(2 * time.Millisecond)
		lock, err = other.Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, other.Wait(t.Context()))
		require.Empty(t, errs.all())
	})
}

func TestLocker_KeepsTheLockForAnAtLeastAboveTheTTLWithoutTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var errs told
		process := cluster.Locker()
		one := newLocker(t, process, gocronlock.AtLeast(time.Minute), errs.option())
		other := newLocker(t, cluster.Locker(), errs.option())
		lock, err := one.Lock(t.Context(), "job")
		require.NoError(t, err)
		cluster.Advance(20 * time.Second)
		require.NoError(t, lock.Unlock(ended()))
		require.NoError(t, one.Wait(ended()), "the process need not wait")
		require.NoError(t, process.Close())
		cluster.Advance(39 * time.Second)
		_, err = other.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		cluster.Advance(2 * time.Second)
		lock, err = other.Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(ended()))
		require.NoError(t, other.Wait(t.Context()))
		require.Empty(t, errs.all())
	})
}

func TestLocker_ReleasesTheLockOfAJobThatTookLongerThanAtLeastAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		one, other := newLocker(t, cluster.Locker()), newLocker(t, cluster.Locker())
		lock, err := one.Lock(t.Context(), "job")
		require.NoError(t, err)
		cluster.Advance(time.Hour)
		_, err = other.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrTaken, "it is renewed")
		require.NoError(t, lock.Unlock(ended()))
		lock, err = other.Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, other.Wait(t.Context()))
	})
}

// The danger: servers that fail at the moment when the job ends.
func TestLocker_KeepsTheLockForAtLeastIfTheServersFailWhenTheJobEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var errs told
		one := newLocker(t, cluster.Locker(), gocronlock.AtLeast(time.Minute), errs.option())
		other := newLocker(t, cluster.Locker(), errs.option())
		lock, err := one.Lock(t.Context(), "job")
		require.NoError(t, err)
		cluster.Advance(time.Second)
		cluster.Stop(0, 1)
		require.NoError(t, lock.Unlock(t.Context()))
		cluster.Start(0, 1)
		cluster.Advance(50 * time.Second)
		_, err = other.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.NoError(t, one.Wait(t.Context()))
		lock, err = other.Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, other.Wait(t.Context()))
		require.Empty(t, errs.all())
	})
}

func TestLocker_WaitReturnsTheErrorOfAContextThatEndsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newLocker(t, redlocktest.New(t).Locker())
		lock, err := one.Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		require.ErrorIs(t, one.Wait(ended()), context.Canceled)
		require.NoError(t, one.Wait(t.Context()))
	})
}

func TestLocker_TellsOfALossWhileTheJobRunsAndEndsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var errs told
		one := newLocker(t, cluster.Locker(), errs.option())
		lock, err := one.Lock(t.Context(), "job")
		require.NoError(t, err)
		ctx, cancel := one.Context(t.Context(), "job")
		defer cancel()
		require.NoError(t, ctx.Err())
		cluster.Steal(gocronlock.NamePrefix + "job")
		cluster.Advance(10 * time.Second)
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrGone)
		require.Len(t, errs.all(), 1)
		require.ErrorIs(t, errs.all()[0], redlock.ErrGone)
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrGone)
		require.Len(t, errs.all(), 1, "each loss is told once")
	})
}

func TestLocker_TellsOfALossThatOnlyTheReleaseFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var errs told
		one := newLocker(t, cluster.Locker(), errs.option())
		lock, err := one.Lock(t.Context(), "job")
		require.NoError(t, err)
		cluster.Advance(time.Second)
		cluster.Steal(gocronlock.NamePrefix + "job")
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		require.Len(t, errs.all(), 1)
		require.ErrorIs(t, errs.all()[0], redlock.ErrNotHeld)
	})
}

func TestLocker_TellsThatTooFewServersAnswerAndNotThatAnotherInstanceRunsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var errs told
		one := newLocker(t, cluster.Locker(), errs.option())
		release := cluster.Hold(gocronlock.NamePrefix + "job")
		_, err := one.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.Empty(t, errs.all())
		release()
		cluster.Stop(0, 1)
		_, err = one.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, []error{err}, errs.all())
	})
}

func TestLocker_ContextOfAJobThatDoesNotRunHereHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newLocker(t, redlocktest.New(t).Locker())
		ctx, cancel := one.Context(t.Context(), "job")
		defer cancel()
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrNotHeld)
	})
}

// gocron starts a job again while it runs. The earlier run would have the context of the later one.
func TestLocker_AJobRunsOnceInAProcessAlsoAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t)
		var errs told
		l := newLocker(t, cluster.Locker(), errs.option())
		other := newLocker(t, cluster.Locker())
		lock, err := l.Lock(t.Context(), "job")
		require.NoError(t, err)
		_, err = l.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.Empty(t, errs.all())
		cluster.Delete(gocronlock.NamePrefix + "job")
		cluster.Advance(time.Minute)
		require.Len(t, errs.all(), 1)

		_, err = l.Lock(t.Context(), "job")
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorContains(t, err, `still runs the job "job"`)
		require.Len(t, errs.all(), 2)
		ctx, cancel := l.Context(t.Context(), "job")
		defer cancel()
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrGone)
		elsewhere, err := other.Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, elsewhere.Unlock(t.Context()))

		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrGone)
		cluster.Advance(time.Minute)
		lock, err = l.Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Unlock(t.Context()))
		require.NoError(t, l.Wait(t.Context()))
		require.NoError(t, other.Wait(t.Context()))
	})
}

// The danger: a tick that no instance runs, as each has some of the servers. The keys of those who are gone end soon.
func TestLocker_TriesAgainWhileNobodyHasAMajority(t *testing.T) {
	t.Parallel()
	servers := testredis.Real(t, 5)
	locker, err := redlock.Open(testredis.URLs(servers), pool.WithTimeout(10*time.Second), pool.WithDialTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, locker.Close()) })
	l := newLocker(t, locker, gocronlock.AtLeast(10*time.Millisecond))
	lock, err := l.Lock(t.Context(), "connects")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
	for i, s := range servers[:4] {
		_, err := s.Do("SET", gocronlock.NamePrefix+"job", []string{"one", "other"}[i/2], "PX", 40)
		require.NoError(t, err)
	}
	lock, err = l.Lock(t.Context(), "job")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
}

// splits has two Lockers that are gone take a lock, each on two of five nodes. It is free after a minute.
func splits(t *testing.T, cluster *redlocktest.Cluster, name string) {
	for _, others := range [][]int{{3, 4}, {0, 1}} {
		cluster.Stop(others...)
		_, err := cluster.Locker(redlock.TTL(time.Minute)).TryLock(t.Context(), name)
		require.NoError(t, err)
		cluster.Wipe(2)
		cluster.Start(others...)
	}
}

// The dangers: a pause in which another instance takes the lock and releases it, and a tick that runs nowhere without a word.
func TestLocker_LooksForALockThatNobodyHasOftenerThanAtLeastAndTellsWhenItGivesUp(t *testing.T) {
	for _, atLeast := range []time.Duration{10 * time.Millisecond, 500 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			cluster := redlocktest.New(t, redlocktest.WithNodes(5))
			splits(t, cluster, gocronlock.NamePrefix+"job")
			var errs told
			var tries []time.Time // of the bubble
			l := newLocker(t, cluster.Locker(), errs.option(), gocronlock.AtLeast(atLeast),
				gocronlock.LockOptions(redlock.TokenSource(func() (string, error) {
					tries = append(tries, time.Now())
					return fmt.Sprint("try ", len(tries)), nil
				})))
			_, err := l.Lock(t.Context(), "job")
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.Equal(t, []error{err}, errs.all())
			for i := range tries[1:] {
				require.LessOrEqual(t, tries[i+1].Sub(tries[i]), max(20*time.Millisecond, min(atLeast/2, time.Second)))
			}
			require.GreaterOrEqual(t, tries[len(tries)-1].Sub(tries[0]), 5*time.Second)
			cluster.Advance(time.Minute)
			lock, err := l.Lock(t.Context(), "job")
			require.NoError(t, err)
			require.NoError(t, lock.Unlock(t.Context()))
			require.NoError(t, l.Wait(t.Context()))
		})
	}
}

func TestLocker_GocronSkipsTheJobThatAnotherInstanceRuns(t *testing.T) {
	t.Parallel()
	cluster := redlocktest.New(t)
	release := cluster.Hold(gocronlock.NamePrefix + "job")
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(newLocker(t, cluster.Locker())))
	require.NoError(t, err)
	skipped, ran := make(chan error, 1), make(chan struct{})
	job, err := scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() { close(ran) }), gocron.WithName("job"),
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { skipped <- err })))
	require.NoError(t, err)
	scheduler.Start()
	require.ErrorIs(t, <-skipped, redlock.ErrTaken)
	select {
	case <-ran:
		require.Fail(t, "the job ran")
	default:
	}
	release()
	require.NoError(t, job.RunNow())
	<-ran
	require.NoError(t, scheduler.Shutdown())
}

func TestNew_RefusesWhatIsOutOfRange(t *testing.T) {
	t.Parallel()
	locker := redlocktest.New(t).Locker()
	for text, opts := range map[string][]gocronlock.Option{
		"nil option": {nil},
		"AtLeast must be above zero, and is -1ns": {gocronlock.AtLeast(-1)},
		"AtLeast must be above zero, and is 0s":   {gocronlock.AtLeast(0)},
		"AtLeast: a lock cannot stay for 25h0m0s": {gocronlock.AtLeast(25 * time.Hour)},
		"LockOptions": {gocronlock.LockOptions(redlock.MaxWait(time.Second))},
		"must have the lock: redlock: acquire \"gocron:check\": Shared":    {gocronlock.LockOptions(redlock.Shared())},
		"must have the lock: redlock: acquire \"gocron:check\": Slots(1)":  {gocronlock.LockOptions(redlock.Slots(1))},
		"must have the lock: redlock: acquire \"gocron:check\": Reentrant": {gocronlock.LockOptions(redlock.Reentrant())},
	} {
		_, err := gocronlock.New(locker, opts...)
		require.ErrorIs(t, err, redlock.ErrInvalid)
		require.ErrorContains(t, err, text)
	}
	_, err := gocronlock.New(nil)
	require.ErrorIs(t, err, redlock.ErrInvalid)
	var errs told
	_, err = newLocker(t, locker, errs.option(), gocronlock.OnError(nil)).Lock(t.Context(), strings.Repeat("x", 600))
	require.ErrorIs(t, err, redlock.ErrInvalid)
}
