package clocktest_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/clocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// event is one run of a timer's function.
type event struct {
	name string
	at   time.Duration // since the clock's start
}

// recorder notes when functions run, on a clock that starts with it.
type recorder struct {
	fake   *clocktest.Fake
	start  time.Time
	events []event
}

func newRecorder() *recorder {
	fake := clocktest.New()
	return &recorder{fake: fake, start: fake.Now()}
}

func (r *recorder) note(name string) func() {
	return func() { r.events = append(r.events, event{name, r.now()}) }
}

func (r *recorder) now() time.Duration { return r.fake.Now().Sub(r.start) }

func TestFakeStartsAtAFixedTimeAndStandsStill(t *testing.T) {
	fake := clocktest.New()
	require.Equal(t, time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC), fake.Now())
	require.Equal(t, fake.Now(), fake.Now())
}

func TestAdvanceRunsTimersInOrderAtTheirTimeAndEndsAtItsOwn(t *testing.T) {
	r := newRecorder()
	r.fake.AfterFunc(3, r.note("c"))
	r.fake.AfterFunc(1, r.note("a"))
	r.fake.AfterFunc(2, r.note("b1"))
	r.fake.AfterFunc(2, r.note("b2"))
	r.fake.AfterFunc(6, r.note("not yet"))

	r.fake.Advance(5)
	require.Equal(t, []event{{"a", 1}, {"b1", 2}, {"b2", 2}, {"c", 3}}, r.events)
	require.EqualValues(t, 5, r.now())
}

func TestAdvanceRunsTimersThatItsFunctionsSetIfTheyAreDue(t *testing.T) {
	r := newRecorder()
	r.fake.AfterFunc(1, func() {
		r.fake.AfterFunc(2, r.note("within"))
		r.fake.AfterFunc(0, r.note("at once"))
		r.fake.AfterFunc(4, r.note("just within"))
		r.fake.AfterFunc(5, r.note("beyond"))
	})
	r.fake.Advance(5)
	require.Equal(t, []event{{"at once", 1}, {"within", 3}, {"just within", 5}}, r.events)
	require.EqualValues(t, 5, r.now())
}

func TestAdvanceLetsItsFunctionsStopAndResetTimers(t *testing.T) {
	r := newRecorder()
	var first, stopped, moved clock.Timer
	first = r.fake.AfterFunc(1, func() {
		require.False(t, first.Stop(), "a timer that runs is not pending")
		require.True(t, stopped.Stop())
		require.True(t, moved.Reset(3))
	})
	stopped = r.fake.AfterFunc(2, r.note("stopped"))
	moved = r.fake.AfterFunc(2, r.note("moved"))
	r.fake.Advance(5)
	require.Equal(t, []event{{"moved", 4}}, r.events)
}

func TestAdvanceMayBeNested(t *testing.T) {
	r := newRecorder()
	r.fake.AfterFunc(2, func() {
		r.fake.Advance(1)
		r.note("outer")()
	})
	r.fake.AfterFunc(3, r.note("inner"))
	r.fake.Advance(5)
	require.Equal(t, []event{{"inner", 3}, {"outer", 3}}, r.events)
	require.EqualValues(t, 5, r.now())
}

func TestATimerForNoTimeAtAllRunsInTheNextAdvance(t *testing.T) {
	for _, d := range []time.Duration{0, -time.Hour} {
		r := newRecorder()
		r.fake.AfterFunc(d, r.note("due"))
		require.Empty(t, r.events)
		next, ok := r.fake.Next()
		require.True(t, ok)
		require.Zero(t, next)

		r.fake.Advance(0)
		require.Equal(t, []event{{"due", 0}}, r.events)
	}
}

func TestStopAndResetTellWhetherATimerWasPending(t *testing.T) {
	r := newRecorder()
	timer := r.fake.AfterFunc(1, r.note("ran"))
	require.True(t, timer.Stop())
	require.False(t, timer.Stop())
	require.False(t, timer.Reset(2))
	require.True(t, timer.Reset(3))
	r.fake.Advance(5)
	require.Equal(t, []event{{"ran", 3}}, r.events)
	require.False(t, timer.Stop())
	require.False(t, timer.Reset(1))
	r.fake.Advance(1)
	require.Equal(t, []event{{"ran", 3}, {"ran", 6}}, r.events)
}

func TestResetPutsATimerBehindThoseDueAtTheSameTime(t *testing.T) {
	r := newRecorder()
	timer := r.fake.AfterFunc(1, r.note("reset"))
	r.fake.AfterFunc(1, r.note("set"))
	timer.Reset(1)
	r.fake.Advance(1)
	require.Equal(t, []event{{"set", 1}, {"reset", 1}}, r.events)
}

func TestAdvanceToNextGoesFromTimerToTimer(t *testing.T) {
	r := newRecorder()
	r.fake.AfterFunc(2, r.note("a1"))
	r.fake.AfterFunc(2, r.note("a2"))
	r.fake.AfterFunc(5, r.note("b"))
	for within, want := range map[time.Duration]int{1: 0, 2: 2, 4: 2, 5: 3} {
		require.Equal(t, want, r.fake.Pending(within))
	}

	for _, want := range []time.Duration{2, 3} {
		next, ok := r.fake.Next()
		require.True(t, ok)
		require.Equal(t, want, next)
		d, ok := r.fake.AdvanceToNext()
		require.True(t, ok)
		require.Equal(t, want, d)
	}
	require.Equal(t, []event{{"a1", 2}, {"a2", 2}, {"b", 5}}, r.events)

	_, ok := r.fake.Next()
	require.False(t, ok)
	d, ok := r.fake.AdvanceToNext()
	require.False(t, ok)
	require.Zero(t, d)
	require.EqualValues(t, 5, r.now())
}

func TestJumpMovesTheClockAndMakesTimersLate(t *testing.T) {
	r := newRecorder()
	r.fake.AfterFunc(2, r.note("late 2"))
	r.fake.AfterFunc(1, r.note("late 1"))
	r.fake.AfterFunc(12, r.note("in time"))

	r.fake.Jump(10)
	require.EqualValues(t, 10, r.now())
	require.Empty(t, r.events)
	next, ok := r.fake.Next()
	require.True(t, ok)
	require.Zero(t, next)

	r.fake.Advance(0)
	require.Equal(t, []event{{"late 1", 10}, {"late 2", 10}}, r.events)
	r.fake.Advance(2)
	require.Equal(t, event{"in time", 12}, r.events[2])
}

func TestJumpWithinAdvanceIsPartOfIt(t *testing.T) {
	r := newRecorder()
	r.fake.AfterFunc(1, func() { r.fake.Jump(3) })
	r.fake.AfterFunc(2, r.note("late"))
	r.fake.Advance(5)
	require.Equal(t, []event{{"late", 4}}, r.events)
	require.EqualValues(t, 5, r.now())
}

func TestTimeDoesNotGoBack(t *testing.T) {
	const message = "clocktest: a clock cannot go back by 1ns"
	require.PanicsWithValue(t, message, func() { clocktest.New().Advance(-1) })
	require.PanicsWithValue(t, message, func() { clocktest.New().Jump(-1) })
}

func TestTimeHasAnEnd(t *testing.T) {
	r := newRecorder()
	r.fake.Advance(1)
	r.fake.AfterFunc(math.MaxInt64, r.note("the end"))
	r.fake.Advance(math.MaxInt64)
	r.fake.Jump(math.MaxInt64)
	require.Equal(t, []event{{"the end", math.MaxInt64}}, r.events)
	require.Equal(t, time.Duration(math.MaxInt64), r.now())
}

func TestWaitForTimersBlocksUntilEnoughArePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := clocktest.New()
		waited := make(chan error, 1)
		go func() { waited <- fake.WaitForTimers(t.Context(), 2) }()

		fake.AfterFunc(1, func() {}).Stop()
		second := fake.AfterFunc(1, func() {})
		second.Stop()
		fake.AfterFunc(1, func() {})
		synctest.Wait()
		require.Empty(t, waited, "a stopped timer is not pending")

		second.Reset(1)
		require.NoError(t, <-waited)
	})
}

func TestWaitForTimersReturnsTheErrorOfAContextThatEndsFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fake := clocktest.New()
	require.ErrorIs(t, fake.WaitForTimers(ctx, 1), context.Canceled)
	require.NoError(t, fake.WaitForTimers(ctx, 0), "what is there already needs no waiting")
	require.NoError(t, fake.WaitForTimers(ctx, -1))
	fake.AfterFunc(1, func() {})
	require.NoError(t, fake.WaitForTimers(ctx, 1))
}

func TestFakeMayBeUsedByManyAtOnce(t *testing.T) {
	const goroutines, rounds = 8, 100
	fake := clocktest.New()
	var all, ran sync.WaitGroup
	ran.Add(goroutines * rounds)
	for range goroutines {
		all.Go(func() {
			for range rounds {
				fake.AfterFunc(3, func() { fake.Now(); ran.Done() })
				timer := fake.AfterFunc(1, func() {})
				timer.Reset(2)
				timer.Stop()
				fake.Advance(1)
				fake.Jump(1)
				fake.AdvanceToNext()
			}
		})
	}
	all.Wait()
	fake.Advance(3)
	ran.Wait()
	_, pending := fake.Next()
	require.False(t, pending)
}
