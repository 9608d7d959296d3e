package redlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// kinds are the events of each kind.
var kinds = map[event.Kind][]event.Event{
	event.Calls:  {event.Acquire{}, event.Extend{}, event.Unlock{}},
	event.Ends:   {event.End{}},
	event.Rounds: {event.Round{}, event.Raise{}},
	event.Votes:  {event.Vote{}},
	event.Turns:  {event.Turn{}},
	event.Nodes:  {event.NodeUp{}, event.NodeDown{}},
	event.Keys:   {event.Stuck{}, event.Heal{}, event.ForceUnlock{}},
}

// types returns the types of events, each once, in order.
func types(events []event.Event) (all []string) {
	for _, e := range events {
		all = append(all, fmt.Sprintf("%T", e))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// all returns the events so far.
func (r *recorder) all() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func TestWithObserver_EachIsToldOfItsKindsAndOfWhatWasDropped(t *testing.T) {
	t.Parallel()
	opts, seen := []redlock.Option{}, map[event.Kind]*recorder{}
	for kind := range kinds {
		seen[kind] = &recorder{}
		opts = append(opts, redlock.WithObserver(seen[kind], kind))
	}
	two, all := &recorder{}, &recorder{}
	opts = append(opts, redlock.WithObserver(nil), redlock.WithObserver(two, event.Ends, event.Nodes, event.Ends), redlock.WithObserver(all))
	locker := lockerOver(t, untouched(t), opts...)
	everything := slices.Concat(slices.Collect(maps.Values(kinds))...)
	for _, e := range everything {
		locker.Emit(e)
	}
	locker.Emit(event.Drop{Count: 1})
	locker.Drain()
	drop := event.Event(event.Drop{Count: 1})
	for kind, of := range kinds {
		require.Equal(t, append(slices.Clone(of), drop), seen[kind].all(), "%s", kind)
	}
	require.ElementsMatch(t, append(slices.Concat(kinds[event.Ends], kinds[event.Nodes]), drop), two.all())
	require.Equal(t, append(everything, drop), all.all())
}

// A Locker does not put together what nobody wants, so each kind has to come without the others.
func TestWithObserver_EachKindComesWithoutTheOthers(t *testing.T) {
	t.Parallel()
	for kind, of := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c, seen := onReal(t, 3), &recorder{}
			want := types(of)
			if kind == event.Keys { // the other takes 10 s
				want = []string{"event.ForceUnlock", "event.Heal"}
			}
			locker := c.locker(redlock.WithObserver(seen, kind), prefixed, redlock.WithFencing(), redlock.WithHeal(time.Millisecond))
			now := time.Now().UnixMicro()
			for i, ahead := range []int64{900_000_000, 500, 100_000_000_000} {
				c.do(i, "SET", "{app:name}:fence", now+ahead)
			}
			lock := take(t, locker, "name")
			require.NoError(t, lock.Extend(t.Context(), 2*long))
			require.NoError(t, lock.Unlock(t.Context()))
			require.NoError(t, errOf(locker.TryLock(t.Context(), "forced")))
			require.NoError(t, errOf(locker.ForceUnlock(t.Context(), "forced")))
			c.leave("app:stuck", "somebody")
			require.NoError(t, waits(t, locker, "stuck").Unlock(t.Context()))
			if kind == event.Turns {
				other := c.locker(prefixed)
				for len(seen.all()) == 0 { // on a busy machine the other may come by itself
					takeTurns(t, locker, other)
				}
			}
			if kind == event.Nodes {
				eventually(t, func() bool { return len(eventsOf[event.NodeUp](seen)) == 3 }, "the connections")
			}
			require.NoError(t, locker.Close())
			eventually(t, func() bool { return len(types(seen.all())) >= len(want) }, "%s: %s", kind, want)
			require.Equal(t, want, types(seen.all()))
		})
	}
}

func TestWithObserver_EndsComeAlone(t *testing.T) {
	t.Parallel()
	c, seen := onMini(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen, event.Ends))
	ctx := context.WithValue(t.Context(), contextKey{}, "mine")
	lock := got(locker.TryLock(ctx, "released"))(t)
	require.NoError(t, lock.Unlock(ctx))
	end := waitFor[event.End](t, seen, 1)[0]
	require.ErrorIs(t, end.Err, redlock.ErrReleased)
	require.Equal(t, "mine", end.Context.Value(contextKey{}))
	require.NotZero(t, end.Call)
	take(t, locker, "expired", redlock.TTL(200*time.Millisecond)) // and nobody asks
	end = waitFor[event.End](t, seen, 2)[1]
	require.ErrorIs(t, end.Err, redlock.ErrExpired)
	require.Equal(t, "expired", end.Name)
}

func TestWithObserver_NumbersOfCallsComeWithoutTheCalls(t *testing.T) {
	t.Parallel()
	c, seen := onMini(t, 3), &recorder{}
	locker := c.locker(redlock.WithObserver(seen, event.Votes, event.Rounds))
	require.NoError(t, take(t, locker, "name").Unlock(t.Context()))
	calls := map[event.Op]uint64{}
	for _, v := range waitFor[event.Round](t, seen, 2) {
		require.NotZero(t, v.Call)
		calls[v.Op] = v.Call
	}
	require.NotEqual(t, calls[event.OpAcquire], calls[event.OpUnlock])
	for _, v := range waitFor[event.Vote](t, seen, 4) {
		require.Equal(t, calls[v.Op], v.Call)
	}
}

// The log is told of losses whatever the observers want.
func TestWithObserver_OfOtherKindsKeepsNoLossFromTheLog(t *testing.T) {
	t.Parallel()
	for kind := range kinds {
		c, log := onReal(t, 3), &logBuffer{}
		lock := c.everywhere(take(t, c.logsTo(log, slog.LevelWarn, redlock.WithObserver(&recorder{}, kind)), string(kind)))
		c.doAll("DEL", lock.Name())
		require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
		require.Equal(t, []string{"WARN a lock is lost " + lock.Name()}, lines(t, log, 1))
	}
}
