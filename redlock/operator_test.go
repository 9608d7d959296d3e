package redlock_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"testing"

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
			requireIs(t, err, redlock.ErrNotRun, redlock.ErrNoQuorum)
			reason := as[*nodeerr.ServerError](t, err)
			require.Equal(t, code, reason.Code)

			if code == "NOPERM" { // a password is asked for at the next connection only
				require.ErrorIs(t, errOf(before.Lock(briefly(t), "name")), context.DeadlineExceeded, "an outage like any other")
			}
		})
	}
}

func TestLock_DoesNotWaitForABetterURL(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	guarded := onReal(t, 3, "--requirepass", "secret")
	inParallel(t, map[string]func(i int) string{
		"no password":            func(i int) string { return "redis://" + guarded.servers[i].Addr() },
		"a password for nobody":  func(i int) string { return "redis://:secret@" + c.servers[i].Addr() },
		"a database that is not": func(i int) string { return "redis://" + c.servers[i].Addr() + "/99" },
		"one server by two names": func(i int) string {
			return fmt.Sprintf("redis://%s:%s", []string{"127.0.0.1", "localhost"}[i], c.port(0))
		},
	}, func(t *testing.T, url func(i int) string) {
		require.ErrorIs(t, errOf(lockerOver(t, open(t, []string{url(0), url(1)})).Lock(t.Context(), "name")), redlock.ErrNoQuorum)
	})
}

// port returns the port of server i.
func (c *cluster) port(i int) string {
	_, port, err := net.SplitHostPort(c.servers[i].Addr())
	require.NoError(c.tb, err)
	return port
}

// One fault of each kind, which together leave no majority.
func TestLock_DoesNotWaitForSeveralFaultsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	c.do(0, "ACL", "SETUSER", "default", "-set")
	nodes := c.nodes()
	require.NoError(t, nodes[1].Close())
	require.ErrorIs(t, errOf(lockerOver(t, nodes).Lock(t.Context(), "name")), redlock.ErrNoQuorum)
	c.do(1, "RPUSH", "name", "data")
	_, err := c.locker().TryLock(t.Context(), "name")
	require.NotErrorIs(t, err, redlock.ErrTaken, "nobody holds it")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
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
