package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// sighting is what Watch has yielded.
type sighting struct {
	*redlock.LockState
	err error
}

// watch has a Locker watch the lock "name". What it yields comes on the channel, which is closed when it ends.
func watch(tb testing.TB, locker *redlock.Locker) (<-chan sighting, context.CancelFunc) {
	ctx, cancel := context.WithCancel(tb.Context())
	all := make(chan sighting, 100)
	go func() {
		defer close(all)
		for state, err := range locker.Watch(ctx, "name") {
			all <- sighting{state, err}
		}
	}()
	tb.Cleanup(cancel)
	return all, cancel
}

// becomes waits until a verdict is yielded, of which the state is returned.
func becomes(tb testing.TB, all <-chan sighting, verdict redlock.Verdict) *redlock.LockState {
	tb.Helper()
	for {
		w := receive(tb, all, "a state")
		require.NoError(tb, w.err)
		if w.Verdict == verdict {
			return w.LockState
		}
	}
}

// The clock stands, so that nothing but what the servers push makes Watch look again.
func TestWatch_IsToldOfEachHolder(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker(redlock.WithClock(clocktest.New()))
	for _, holder := range []*redlock.Locker{c.locker(redlock.WithFencing()), locker} {
		all, stop := watch(t, locker)
		require.Equal(t, redlock.VerdictNobody, receive(t, all, "the first").Verdict)
		c.eventuallyTracked()
		for range 3 {
			lock := take(t, holder, "name", redlock.TTL(time.Hour), redlock.Metadata("me"))
			state := becomes(t, all, redlock.VerdictHeld)
			holder := only(t, state.Holders)
			require.Equal(t, lock.Token(), holder.Token)
			require.Equal(t, "me", holder.Metadata)
			require.NoError(t, lock.Extend(t.Context(), 2*time.Hour))
			unlock(t, lock)
			becomes(t, all, redlock.VerdictNobody)
		}
		stop()
		for w := range all {
			require.Equal(t, redlock.VerdictNobody, w.Verdict, "an extension is no change")
		}
		c.eventuallyFree("name")
	}
}

// Who shares a lock is in no key that changes with each of them.
func TestWatch_LooksEachSecondWhileALockIsShared(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	fake, readers := clocktest.New(), c.locker()
	all, _ := watch(t, c.locker(redlock.WithClock(fake)))
	becomes(t, all, redlock.VerdictNobody)
	c.eventuallyTracked()
	first := got(readers.Lock(t.Context(), "name", redlock.Shared()))(t)
	require.Len(t, becomes(t, all, redlock.VerdictHeld).Holders, 1)
	second := got(readers.Lock(t.Context(), "name", redlock.Shared()))(t)
	nextAt(t, fake, time.Second)
	require.Len(t, becomes(t, all, redlock.VerdictHeld).Holders, 2)
	unlock(t, first)
	nextAt(t, fake, time.Second)
	require.Equal(t, second.Token(), becomes(t, all, redlock.VerdictHeld).Holders[0].Token)
}

func TestWatch_LooksEachSecondWhileANodeCannotPushWhatDecides(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	c.do(2, "ACL", "SETUSER", "default", "-"+c.subcommand("client|tracking"), "+client|id", "+client|kill")
	fake := clocktest.New()
	all, _ := watch(t, c.locker(redlock.WithClock(fake)))
	becomes(t, all, redlock.VerdictNobody)
	lock := c.everywhere(take(t, c.locker(), "name", redlock.TTL(time.Hour)))
	becomes(t, all, redlock.VerdictHeld)
	c.do(0, "DEL", "name")
	c.settled()
	c.do(2, "DEL", "name")
	nextAt(t, fake, time.Second)
	becomes(t, all, redlock.VerdictNobody)
	require.ErrorIs(t, lock.Unlock(t.Context()), redlock.ErrNotHeld)
}

// The danger: a node is slow for a moment, and a lock of which all is well seems unknown for long.
func TestWatch_LooksAgainSoonIfTheVerdictIsUnknown(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	fake := clocktest.New()
	all, _ := watch(t, lockerOver(t, c.nodes(pool.WithTimeout(100*time.Millisecond)), redlock.WithClock(fake)))
	becomes(t, all, redlock.VerdictNobody)
	c.eventuallyTracked()
	c.everywhere(take(t, c.locker(), "name", redlock.TTL(time.Hour)))
	becomes(t, all, redlock.VerdictHeld)
	c.processes[0].Freeze()
	c.do(2, "DEL", "name")
	becomes(t, all, redlock.VerdictUnknown)
	c.processes[0].Thaw()
	eventually(t, func() bool {
		if next, pending := fake.Next(); pending && next == time.Second {
			fake.Advance(next)
		}
		select {
		case w := <-all:
			return w.err == nil && w.Verdict == redlock.VerdictHeld
		default:
			return false
		}
	}, "it is held")
}
