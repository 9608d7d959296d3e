package redlock

import (
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock/clocktest"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

func TestAutoExtend_LocksThatWaitForOthersAreRenewedInTheOrderInWhichTheyAreDue(t *testing.T) {
	fake := clocktest.New()
	l, err := Open([]string{"redis://127.0.0.1:1"}, WithClock(fake))
	require.NoError(t, err)
	defer l.Close()
	r := &l.renewals
	r.under = map[*extendRound]struct{}{}
	begin := func() *extendRound { // one that takes long
		e := new(extendRound)
		r.under[e] = struct{}{}
		return e
	}
	for range maxRenewing - 1 {
		begin()
	}
	last := begin()
	third, first, ended, second := renewed(l, "c", 200*time.Millisecond), renewed(l, "a", 100*time.Millisecond),
		renewed(l, "d", 120*time.Millisecond), renewed(l, "b", 150*time.Millisecond)
	later := renewed(l, "e", time.Minute) // due after 0.1 s at the latest
	ended.mu.Lock()
	ended.stopRenewingLocked()
	ended.mu.Unlock()
	fake.Advance(time.Second)
	require.Nil(t, r.next())
	for _, h := range []*heldLock{first, second, third, later} {
		delete(r.under, last)
		require.Same(t, h, r.next())
		last = begin()
	}
	require.Len(t, r.under, maxRenewing)
	delete(r.under, last)
	require.Nil(t, r.next())
	clear(r.under)
}

// The danger: Close gives up a renewal that has been counted, and has no turn yet.
func TestAutoExtend_ARenewalCanBeGivenUpFromWhenItIsCounted(t *testing.T) {
	l, err := Open([]string{"redis://127.0.0.1:1"})
	require.NoError(t, err)
	defer l.Close()
	h, r := renewed(l, "name", time.Hour), &l.renewals
	h.mu.Lock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.renew(h)
	}()
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return waitsToRenew.Match(stacks[:runtime.Stack(stacks, true)])
	}, time.Minute, time.Millisecond)
	counted := len(r.all(func(*extendRound) bool { return true }))
	h.mu.Unlock()
	<-ended
	require.Zero(t, counted)
}

// waitsToRenew matches the stack of a goroutine that waits for the mutex of an entry to renew a lock.
var waitsToRenew = regexp.MustCompile(`Mutex\)\.Lock\(.*\n.*\n.*\(\*renewals\)\.renew\(`)

// renewed returns a lock that has just been taken and is renewed.
func renewed(l *Locker, name string, ttl time.Duration) *heldLock {
	req := request{name: name, key: name, Want: lock.Want{TTL: ttl, Renewed: true}}
	return l.adopt(req, form.Mark{Key: name, Token: "token"}, *quorum.NewLease(1, quorum.Grant{Start: l.clock.Now(), TTL: ttl})).held
}
