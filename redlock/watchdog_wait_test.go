package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// extendCounter counts the rounds that ended.
type extendCounter struct{ n int }

func (c *extendCounter) Observe(e event.Event) {
	if _, ok := e.(event.Round); ok {
		c.n++
	}
}

// The handle that has the lock renewed may be unlocked while another handle still holds the lock: from then on the TTL counts.
func TestAutoExtend_ARenewalThatWaitedIsNotSentAfterTheRenewalsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := &extendCounter{}
		l, err := Open([]string{"redis://127.0.0.1:1"}, WithObserver(count))
		require.NoError(t, err)
		defer l.Close()
		h := renewed(l, "name", 30*time.Second)
		require.True(t, h.begin(t.Context(), nil))
		<-time.After(11 * time.Second)
		synctest.Wait() // the renewal waits
		h.mu.Lock()
		h.stopRenewingLocked()
		h.mu.Unlock()
		h.finish()
		synctest.Wait()
		require.Zero(t, count.n)
	})
}

func TestAutoExtend_LocksThatWaitForAWorkerAreRenewedInTheOrderInWhichTheyAreDue(t *testing.T) {
	fake := clocktest.New()
	l, err := Open([]string{"redis://127.0.0.1:1"}, WithClock(fake))
	require.NoError(t, err)
	defer l.Close()
	r := &l.renewals
	r.workers = maxRenewing
	third, first, ended, second := renewed(l, "c", 200*time.Millisecond), renewed(l, "a", 100*time.Millisecond),
		renewed(l, "d", 120*time.Millisecond), renewed(l, "b", 150*time.Millisecond)
	later := renewed(l, "e", time.Minute) // due after 0.1 s at the latest
	ended.mu.Lock()
	ended.stopRenewingLocked()
	ended.mu.Unlock()
	fake.Advance(time.Second)
	require.Nil(t, r.next(false))
	for _, h := range []*heldLock{first, second, third, later} {
		require.Same(t, h, r.next(true))
	}
	require.Equal(t, maxRenewing, r.workers)
	require.Nil(t, r.next(true))
	require.Equal(t, maxRenewing-1, r.workers)
}

// renewed returns a lock that has just been taken and is renewed.
func renewed(l *Locker, name string, ttl time.Duration) *heldLock {
	req := request{name: name, key: name, Want: lock.Want{TTL: ttl, Renewed: true}}
	return l.adopt(req, form.Mark{Key: name, Token: "token"}, *quorum.NewLease(1, quorum.Grant{Start: l.clock.Now(), TTL: ttl})).held
}
