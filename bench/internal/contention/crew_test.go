package contention_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/bench/internal/contention"
	"github.com/quorumlock/quorumlock/bench/internal/subject"
)

// turns is a lock that goes round. A release takes a while, for the i-th caller i+1 ms.
type turns struct {
	at      []chan struct{} // at[i] holds something when it is the i-th caller's turn
	made    int
	failing error // of the first caller's second release
}

func newTurns(callers int) *turns {
	t := &turns{}
	for range callers {
		t.at = append(t.at, make(chan struct{}, 1))
	}
	t.at[0] <- struct{}{}
	return t
}

func (t *turns) Caller(string) subject.Caller {
	t.made++
	return &turn{of: t, index: t.made - 1}
}

func (t *turns) Close() error { return nil }

// turn is one caller.
type turn struct {
	of              *turns
	index, released int
}

func (c *turn) Acquire(context.Context) error { return errors.ErrUnsupported }

func (c *turn) Wait(ctx context.Context) error {
	select {
	case <-c.of.at[c.index]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *turn) Release(context.Context) error {
	<-time.After(time.Duration(c.index+1) * time.Millisecond)
	c.released++
	c.of.at[(c.index+1)%len(c.of.at)] <- struct{}{}
	if c.index == 0 && c.released == 2 {
		return c.of.failing
	}
	return nil
}

// work lets a crew want the lock for some time.
func work(t *testing.T, client subject.Client, n int, d time.Duration) (*contention.Shift, error) {
	t.Helper()
	crew, err := contention.NewCrew(client, oneName, n, contention.NewGuard(1), 1)
	require.NoError(t, err)
	require.NoError(t, crew.WarmUp(t.Context()))
	crew.Start(t.Context())
	<-time.After(d)
	return crew.Stop()
}

func TestEachWaitersAcquisitionsAndWaitsAreItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A round takes 1 + 2 + 3 ms. The end comes in the 10th, while the first holds the lock: the second waits then for the
		// rest of 1 ms and gets it, and the third for 2 ms more.
		shift, err := work(t, newTurns(3), 3, 54500*time.Microsecond)
		require.NoError(t, err)
		assert.Equal(t, 54500*time.Microsecond, shift.Elapsed)
		result := contention.Result{shift}
		for i, acquired := range []int64{10, 9, 9} {
			w := shift.Waiters[i]
			assert.Equal(t, acquired, w.Acquired)
			assert.Equal(t, int64(10), w.Waits.TotalCount(), "one more was under way")
			assert.InDelta(t, 6-float64(i+1), w.Waits.At(50).Seconds()*1000, 0.1)
		}
		assert.InDelta(t, 28/0.0545, result.Rate(), 0.01)
		assert.InDelta(t, 5, result.Waits().At(100).Seconds()*1000, 0.1)
		least, most := result.Range(50)
		assert.InDelta(t, 3, least.Seconds()*1000, 0.1)
		assert.InDelta(t, 5, most.Seconds()*1000, 0.1)
		assert.InDelta(t, 10.0/9, result.LuckOfWaiters(), 0.001)
		assert.InDelta(t, 1, result.LuckOfProcesses(), 0)
		assert.InDelta(t, 2, contention.Result{shift, {Elapsed: shift.Elapsed, Waiters: append(shift.Waiters, shift.Waiters...)}}.LuckOfProcesses(), 0)
	})
}

func TestAWaiterThatNeverGotTheLockCountsAsIfItHadOnce(t *testing.T) {
	lucky, unlucky := &contention.Record{Acquired: 40}, &contention.Record{}
	shift := &contention.Shift{Elapsed: time.Second, Waiters: []*contention.Record{lucky, unlucky}}
	assert.InDelta(t, 40, contention.Result{shift}.LuckOfWaiters(), 0)
}

func TestTwoHoldersAtOnceAreAnErrorAlreadyInTheWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crew, err := contention.NewCrew(open{}, oneName, 2, contention.NewGuard(1), 7)
		require.NoError(t, err)
		err = crew.WarmUp(t.Context())
		assert.ErrorContains(t, err, "got the lock, but another one holds it too")
		assert.Regexp(t, "waiter [78] got", err)
	})
}

// named remembers the names that were asked for.
type named struct {
	open
	names []string
}

func (n *named) Caller(name string) subject.Caller {
	n.names = append(n.names, name)
	return open{}
}

func TestWaitersAreDealtOutToTheNamesByTheirNumbers(t *testing.T) {
	client := &named{}
	_, err := contention.NewCrew(client, []string{"a", "b", "c"}, 4, contention.NewGuard(3), 6)
	require.NoError(t, err)
	assert.Equal(t, []string{"c", "a", "b", "c"}, client.names)
}

func TestOnlyHoldersOfTheSameLockMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for waiters, message := range map[int]string{2: "", 3: "another one holds it too"} {
			crew, err := contention.NewCrew(open{}, []string{"a", "b"}, waiters, contention.NewGuard(2), 1)
			require.NoError(t, err)
			if err := crew.WarmUp(t.Context()); message == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, message)
			}
		}
	})
}

func TestAFailureEndsTheWorkOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := newTurns(3)
		lock.failing = errors.New("no majority")
		shift, err := work(t, lock, 3, time.Second)
		assert.Nil(t, shift)
		assert.ErrorContains(t, err, "waiter 1 after 0s: no majority")
	})
}

func TestALockThatDoesNotComeBackIsAnErrorInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := newTurns(2)
		crew, err := contention.NewCrew(lock, oneName, 1, contention.NewGuard(1), 1)
		require.NoError(t, err)
		require.NoError(t, crew.WarmUp(t.Context()))
		crew.Start(t.Context()) // the other one's turn never ends
		<-time.After(time.Second)
		_, err = crew.Stop()
		assert.ErrorContains(t, err, "waiter 1 after 31s")
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestWhoCannotWaitIsNoWaiter(t *testing.T) {
	for _, s := range subject.Named("bsm-redislock") {
		client, err := s.Open(subject.Setup{Addrs: []string{"127.0.0.1:1"}})
		require.NoError(t, err)
		_, err = contention.NewCrew(client, oneName, 1, contention.NewGuard(1), 1)
		assert.ErrorContains(t, err, "cannot wait")
		assert.NoError(t, client.Close())
	}
}

func TestAGuardIsSharedThroughItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "guard")
	var crews []*contention.Crew
	for i := range 2 {
		guard, err := contention.OpenGuard(file, 1)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, guard.Close()) })
		crew, err := contention.NewCrew(open{}, oneName, 1, guard, uint64(1+i))
		require.NoError(t, err)
		require.NoError(t, crew.WarmUp(t.Context()), "alone")
		crews = append(crews, crew)
	}
	var noticed error
	for range 100 { // one may be through before the other begins
		both := make(chan error, 2)
		for _, crew := range crews {
			go func() { both <- crew.WarmUp(context.Background()) }()
		}
		if noticed = errors.Join(<-both, <-both); noticed != nil {
			break
		}
	}
	assert.ErrorContains(t, noticed, "another one")
}
