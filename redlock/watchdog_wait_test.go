package redlock

import (
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

// renewed returns a lock that has just been taken and is renewed.
func renewed(l *Locker, name string, ttl time.Duration) *heldLock {
	req := request{name: name, key: name, Want: lock.Want{TTL: ttl, Renewed: true}}
	return l.adopt(req, form.Mark{Key: name, Token: "token"}, *quorum.NewLease(1, quorum.Grant{Start: l.clock.Now(), TTL: ttl})).held
}
