package redlock_test

import (
	"bytes"
	"crypto/rand"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lua"
	"github.com/quorumlock/quorumlock/redlock"
)

// Trap 7: a server that has lost its scripts is sent the extension again, behind the release that came after it.
func TestAnExtensionThatIsSentAgainMakesNoKeyOfALockThatWasReleased(t *testing.T) {
	c := onReal(t, 3)
	seen := &recorder{}
	var plants, releases atomic.Int64
	nodes := c.nodes(throughWires(func(_ string, w *wire) {
		w.wrote = func(p []byte) {
			plants.Add(int64(bytes.Count(p, []byte("\r\nplant\r\n"))))
			releases.Add(int64(bytes.Count(p, []byte(lua.Release().Hash))))
		}
	}))
	locker := lockerOver(t, nodes, redlock.WithObserver(seen))
	seen.connect(t, locker, 3) // the release is known to all
	lock := take(t, locker, "name")
	c.eventuallyHeld("name", lock.Token())
	require.NoError(t, lock.Extend(t.Context(), 2*long)) // and so is the extension
	seen.waitForVotes(t, "extend", "name", 3)
	plants.Store(0)
	releases.Store(0)
	c.doAll("SCRIPT", "FLUSH")
	// The release is known again, so that it does not come later as well.
	c.doAll("SCRIPT", "LOAD", lua.Release().Source)
	for _, p := range c.processes {
		p.Freeze()
	}
	ends := make(chan error, 2)
	go func() { ends <- lock.Extend(t.Context(), 3*long) }()
	eventually(t, func() bool { return plants.Load() == 3 }, "the extension is on its way")
	go func() { ends <- lock.Unlock(t.Context()) }()
	eventually(t, func() bool { return releases.Load() == 3 }, "and the release behind it")
	for _, p := range c.processes {
		p.Thaw()
	}
	for range 2 {
		_ = receive(t, ends, "the end")
	}
	seen.waitForVotes(t, "extend", "name", 6)
	require.Equal(t, 3, c.holding("name", ""))
}

// halting is an Observer that halts what goes on when an extension has been refused; but not in the call of Extend, where
// an Unlock would wait for it.
type halting struct {
	refused chan struct{}
	goOn    chan struct{}
}

func (h *halting) Vote(redlock.Vote) {}

func (h *halting) Verdict(v redlock.Verdict) {
	if v.Op == "extend" && v.Err != nil && !bytes.Contains(debug.Stack(), []byte(".(*Lock).Extend(")) {
		close(h.refused)
		<-h.goOn
	}
}

// Trap 16: "ok" for what was not ours any more. An extension has given the lost lock to the nodes again.
func TestUnlockOfALockThatIsLostIsRefusedThoughNodesWereGivenItAgain(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, c *cluster) {
		h := &halting{make(chan struct{}), make(chan struct{})}
		goOn := sync.OnceFunc(func() { close(h.goOn) })
		defer goOn()
		locker := c.locker(redlock.WithObserver(h))
		var lock *redlock.Lock
		ended := make(chan error, 1)
		for refused := false; !refused; { // its keys are not cleaned up then
			lock = take(t, locker, rand.Text())
			c.eventuallyHeld(lock.Name(), lock.Token())
			for i := range 3 {
				c.do(i, "DEL", lock.Name())
			}
			go func() { ended <- lock.Extend(t.Context(), long) }()
			select {
			case <-h.refused:
				refused = true
			case err := <-ended: // all answers came before the last node had been asked
				require.ErrorIs(t, err, redlock.ErrLost)
			}
		}
		require.Equal(t, 5, c.holding(lock.Name(), lock.Token()))
		err := lock.Unlock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNotHeld)
		require.ErrorIs(t, err, redlock.ErrLost)
		goOn()
		require.ErrorIs(t, receive(t, ended, "the end of Extend"), redlock.ErrLost)
		c.eventuallyEmpty()
	})
}
