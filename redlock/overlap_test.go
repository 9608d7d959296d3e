package redlock_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// Trap 8: with a majority down from the start an extension fails while it is still being sent, and what undoes it must not
// be there first.
func TestAnExtensionThatFailsAtOnceDoesNotLeaveALongerTTL(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	lock := seen.takeOnAll(t, locker, 3, redlock.TTL(time.Minute))
	for i := range 2 {
		c.servers[i].Stop()
	}
	eventually(t, func() bool { // the nodes know that they are down
		require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrNoQuorum)
		last := map[int]pool.Answer{}
		for _, vote := range seen.votesOn("extend", "") {
			last[vote.Node] = vote.Answer
		}
		return last[0] == pool.Unsent && last[1] == pool.Unsent
	}, "two of three are known to be down")
	require.ErrorIs(t, lock.Extend(t.Context(), long), redlock.ErrNoQuorum)
	eventually(t, func() bool { return c.ttl(2, lock.Name()) <= time.Minute }, "server 2 keeps it longer than before")
	require.Positive(t, c.ttl(2, lock.Name()))
	require.NoError(t, lock.Err())
}

func TestCloseEndsTheExtensionsThatWaitForTheirTurn(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	locker := c.locker(redlock.WithObserver(seen))
	lock := seen.takeOnAll(t, locker, 3)
	for _, p := range c.processes {
		p.Freeze()
		t.Cleanup(p.Thaw) // before the nodes are closed
	}
	var extends sync.WaitGroup
	for range 5 {
		extends.Go(func() { require.ErrorIs(t, lock.Extend(t.Context(), 2*long), redlock.ErrClosed) })
	}
	eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "(*Lock).Extend(") == 5
	}, "all extends are under way")
	require.NoError(t, locker.Close())
	extends.Wait()
	require.LessOrEqual(t, len(seen.verdictsOn("extend")), 1, "the others asked nobody")
}

func TestTheContextOfALockThatIsOverHasEndedAtOnce(t *testing.T) {
	c := onMini(t, 1)
	lock := take(t, c.locker(), "name")
	require.NoError(t, lock.Unlock(t.Context()))
	for range 100 {
		ctx, cancel := lock.Context(t.Context())
		require.Error(t, ctx.Err())
		cancel()
	}
}
