package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/clock/clocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSleepReturnsOnceTheTimeHasGoneBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := clocktest.New()
		slept := make(chan error, 1)
		go func() { slept <- clock.Sleep(t.Context(), fake, time.Minute) }()
		synctest.Wait()

		fake.Advance(time.Minute - 1)
		synctest.Wait()
		require.Empty(t, slept)

		fake.Advance(1)
		require.NoError(t, <-slept)
	})
}

func TestSleepReturnsTheErrorOfAContextThatEndsFirstAndLeavesNoTimer(t *testing.T) {
	fake := clocktest.New()
	ctx, cancel := context.WithCancelCause(t.Context())
	slept := make(chan error)
	go func() { slept <- clock.Sleep(ctx, fake, time.Minute) }()
	require.NoError(t, fake.WaitForTimers(t.Context(), 1))

	cancel(errors.New("a cause is not the error"))
	require.Equal(t, context.Canceled, <-slept)
	_, pending := fake.Next()
	require.False(t, pending)
}

func TestSleepLooksAtTheContextFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, d := range []time.Duration{-1, 0, time.Minute} {
		require.ErrorIs(t, clock.Sleep(ctx, clocktest.New(), d), context.Canceled)
	}
}

func TestSleepReturnsAtOnceForNoTimeAtAll(t *testing.T) {
	for _, d := range []time.Duration{-time.Hour, 0} {
		require.NoError(t, clock.Sleep(t.Context(), clocktest.New(), d))
	}
}

func TestSleepWorksOnTheSystemClock(t *testing.T) {
	require.NoError(t, clock.Sleep(t.Context(), clock.System(), time.Millisecond))
}
