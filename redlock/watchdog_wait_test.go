package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// extendCounter counts the rounds that ended.
type extendCounter struct{ n int }

func (c *extendCounter) Vote(Vote)       {}
func (c *extendCounter) Verdict(Verdict) { c.n++ }

// The handle that has the lock renewed may be unlocked while another handle still holds the lock: from then on the TTL counts.
func TestAutoExtend_ARenewalThatWaitedIsNotSentAfterTheRenewalsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := &extendCounter{}
		l, err := Open([]string{"redis://127.0.0.1:1"}, WithObserver(count))
		require.NoError(t, err)
		defer l.Close()
		for range maxRenewing {
			l.renewing <- struct{}{}
		}
		req := request{name: "name", key: "name", ttl: 30 * time.Second, autoExtend: true}
		grant := quorum.Grant{Start: l.clock.Now(), TTL: req.ttl}
		lock := l.newHeld(req, "token", 0, nil, quorum.NewLease(1, grant))
		<-time.After(11 * time.Second)
		synctest.Wait() // the renewal waits
		lock.held.mu.Lock()
		lock.held.stopRenewingLocked()
		lock.held.mu.Unlock()
		for range maxRenewing {
			<-l.renewing
		}
		synctest.Wait()
		require.Zero(t, count.n)
	})
}
