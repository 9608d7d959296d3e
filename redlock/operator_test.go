package redlock_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// The danger: a call of Do with a wrong password waits for ever, without a word.
func TestLock_DoesNotWaitForAnOperator(t *testing.T) {
	t.Parallel()
	for code, fault := range map[string]string{"WRONGPASS": ">another", "NOPERM": "-set"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			c := onReal(t, 3)
			c.doAll("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
			var urls []string
			for _, s := range c.servers {
				urls = append(urls, "redis://app:secret@"+s.Addr())
			}
			spoil := func(i int) {
				if code == "WRONGPASS" {
					c.do(i, "ACL", "SETUSER", "app", "resetpass")
				}
				c.do(i, "ACL", "SETUSER", "app", fault)
			}
			before := lockerOver(t, open(t, urls)) // it has had a majority
			require.NoError(t, take(t, before, "name").Unlock(t.Context()))

			spoil(0)
			require.NoError(t, take(t, lockerOver(t, open(t, urls)), "name").Unlock(t.Context()), "a minority")
			spoil(1)
			err := lockerOver(t, open(t, urls)).Do(t.Context(), "name", func(context.Context, *redlock.Lock) error { panic("not held") })
			require.ErrorIs(t, err, redlock.ErrNotRun)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			var reason *nodeerr.ServerError
			require.ErrorAs(t, err, &reason)
			require.Equal(t, code, reason.Code)

			if code == "NOPERM" { // a password is asked for at the next connection only
				_, err = before.Lock(briefly(t), "name")
				require.ErrorIs(t, err, context.DeadlineExceeded, "an outage like any other")
			}
		})
	}
}

func TestLock_WaitsForServersThatAreDown(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	c.processes[0].Stop()
	c.processes[1].Stop()
	locker := c.locker()
	waiting := lockBeside(t.Context(), locker, "name")
	_, err := locker.Lock(t.Context(), "other", redlock.MaxWait(50*time.Millisecond))
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	c.processes[0].Start()
	held := receive(t, waiting, "the lock")
	require.NoError(t, held.err)
	require.NoError(t, held.lock.Unlock(t.Context()))
}

func TestLock_DoesNotWaitForACertificate(t *testing.T) {
	t.Parallel()
	var urls []string
	for range 3 {
		server := httptest.NewUnstartedServer(nil)
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		urls = append(urls, "rediss://"+server.Listener.Addr().String())
	}
	_, err := lockerOver(t, open(t, urls)).Lock(t.Context(), "name")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorAs(t, err, new(*tls.CertificateVerificationError))
}
