package redlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
)

func TestEvents_OfACallThatHasEndedAreLate(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker, seen := c.observed()
	seen.connect(t, locker, 3)
	c.processes[2].Freeze()
	lock := take(t, locker, "name")
	c.processes[2].Thaw()
	seen.waitForVotes(t, event.OpAcquire, "name", 3)

	ended := map[uint64]bool{}
	late := 0
	for _, e := range eventsOf[event.Event](seen) {
		switch e := e.(type) {
		case event.Acquire:
			ended[e.Call] = true
		case event.Unlock: // of connect
			ended[e.Call] = true
		case event.Vote:
			require.Equal(t, ended[e.Call], e.Late)
			if e.Late && e.Name == "name" {
				late++
			}
		case event.Round:
			require.False(t, e.Late)
		}
	}
	require.Equal(t, 1, late, "the node that was frozen")

	before := len(eventsOf[event.Round](seen))
	freeze(c.processes...)
	require.ErrorIs(t, lock.Unlock(over(t)), redlock.ErrNoQuorum)
	thaw(c.processes...)
	verdicts := waitFor[event.Round](t, seen, before+1)
	last := verdicts[len(verdicts)-1]
	require.Equal(t, event.OpUnlock, last.Op)
	require.True(t, last.Late, "Unlock did not wait for it")
}

func TestEvents_NameTheCallThatAcquiredTheLock(t *testing.T) {
	t.Parallel()
	c := onMini(t, 3)
	seen := &recorder{}
	lockers := []*redlock.Locker{c.locker(redlock.WithObserver(seen)), c.locker(redlock.WithObserver(seen))}
	first, second := take(t, lockers[0], "first"), take(t, lockers[1], "second")
	for _, lock := range []*redlock.Lock{first, second} {
		require.NoError(t, lock.Extend(t.Context(), time.Hour))
		require.NoError(t, lock.Unlock(t.Context()))
	}
	ends := waitFor[event.End](t, seen, 2)
	extends, unlocks := waitFor[event.Extend](t, seen, 2), waitFor[event.Unlock](t, seen, 2)
	calls, locks := map[uint64]bool{}, map[string]uint64{}
	for _, e := range eventsOf[event.Acquire](seen) {
		calls[e.Call], locks[e.Name] = true, e.Call
	}
	for _, e := range extends {
		calls[e.Call] = true
		require.Equal(t, locks[e.Name], e.Lock)
	}
	for _, e := range unlocks {
		calls[e.Call] = true
		require.Equal(t, locks[e.Name], e.Lock)
	}
	for _, e := range ends {
		require.Equal(t, locks[e.Name], e.Call)
	}
	require.Len(t, calls, 6, "no two calls have the same number, whichever Locker they are of")
}
