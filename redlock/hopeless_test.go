package redlock_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// endsAfter checks when Lock ends by its clock, of a Locker that no majority has answered.
func endsAfter(t *testing.T, patience time.Duration, urls []string, opts ...pool.Option) error {
	t.Helper()
	fake := clocktest.New()
	locker := lockerOver(t, open(t, urls, opts...), redlock.WithClock(fake))
	begun := fake.Now()
	result := lockBeside(t.Context(), locker, "name")
	if patience == 0 {
		return receive(t, result, "the end of Lock, at once").err
	}
	turnUntil(t, fake, 100*time.Millisecond, func() bool { return len(result) == 1 })
	require.GreaterOrEqual(t, fake.Now().Sub(begun), patience)
	err := receive(t, result, "the end of Lock").err
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.NotErrorIs(t, err, context.DeadlineExceeded)

	require.ErrorIs(t, receive(t, lockBeside(t.Context(), locker, "another"), "the end of the next, at once").err, redlock.ErrNoQuorum)
	return err
}

// The danger: Lock waits for ever for what nobody has thought of.
func TestLock_DoesNotWaitForServersThatAreNotForLocks(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"CLUSTERDOWN": {"--cluster-enabled", "yes"},
		"ERR":         {"--rename-command", "SET", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := endsAfter(t, 0, testredis.URLs(onReal(t, 3, args...).mayLeave().servers))
			require.Equal(t, name, as[*nodeerr.ServerError](t, err).Code)
		})
	}
	t.Run("another service", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, endsAfter(t, 0, answering(t, func(c net.Conn) {
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n")
			_, _ = io.Copy(io.Discard, c)
		})), nodeerr.ErrProtocol)
	})
}

// answering returns the URLs of three services that are not Redis.
func answering(t *testing.T, answer func(net.Conn)) (urls []string) {
	t.Helper()
	for range 3 {
		urls = append(urls, "redis://"+testredis.Listen(t, answer))
	}
	return urls
}

// certified starts three servers that speak TLS, and returns URLs of their ports for it, and what trusts them. Clients need a
// certificate as tls-auth-clients says.
func certified(t *testing.T, authClients string) (urls []string, trusts *tls.Config) {
	t.Helper()
	cert := testredis.NewCertificate(t, time.Hour, "127.0.0.1")
	for range 3 {
		stopped := testredis.Mini(t, 1)[0] // whose port nobody else takes
		stopped.Stop()
		_, port, err := net.SplitHostPort(stopped.Addr())
		require.NoError(t, err)
		testredis.Real(t, 1, append(cert.Args(), "--tls-port", port, "--tls-auth-clients", authClients)...)
		urls = append(urls, "rediss://"+stopped.Addr())
	}
	return urls, cert.Trusts()
}

func TestLock_DoesNotWaitForTLSThatFails(t *testing.T) {
	t.Parallel()
	urls, trusts := certified(t, "no")
	unlock(t, take(t, lockerOver(t, open(t, urls, pool.WithTLSConfig(trusts))), "name"))
	t.Run("a certificate", func(t *testing.T) {
		t.Parallel()
		require.ErrorAs(t, endsAfter(t, 10*time.Second, urls), new(*tls.CertificateVerificationError))
	})
	t.Run("TLS to a plain port", func(t *testing.T) {
		t.Parallel()
		var plain []string
		for _, s := range onReal(t, 3).servers {
			plain = append(plain, "rediss://"+s.Addr())
		}
		require.ErrorContains(t, endsAfter(t, 10*time.Second, plain, pool.WithDialTimeout(brief)), "TLS handshake: ") // Redis waits for the end of a line
	})
	for version, config := range map[string]*tls.Config{"1.2": {MaxVersion: tls.VersionTLS12}, "1.3": {MinVersion: tls.VersionTLS13}} {
		t.Run("no certificate of the client, TLS "+version, func(t *testing.T) {
			t.Parallel()
			urls, trusts := certified(t, "yes")
			config.RootCAs = trusts.RootCAs
			for range 20 { // new connections: the alert and the reset of the connection race each other
				_, err := lockerOver(t, open(t, urls, pool.WithTLSConfig(config))).TryLock(t.Context(), "name")
				require.ErrorContains(t, err, "remote error: tls: ")
				require.NotContains(t, err.Error(), "reset")
			}
			require.ErrorContains(t, endsAfter(t, 10*time.Second, urls, pool.WithTLSConfig(config)), "remote error: tls: ")
		})
	}
	t.Run("plain to a TLS port", func(t *testing.T) {
		t.Parallel()
		var plain []string
		for _, url := range urls {
			plain = append(plain, "redis"+url[len("rediss"):])
		}
		require.ErrorIs(t, endsAfter(t, 10*time.Second, plain), syscall.ECONNRESET)
	})
}

func TestLock_DoesNotWaitForServersThatCloseEachConnection(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, endsAfter(t, 10*time.Second, answering(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096)) // a close with something unread is a reset
	})), io.EOF)
}

// A failover may be under way.
func TestLock_WaitsForAReplicaThatBecomesAPrimary(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	c.doAll("REPLICAOF", "127.0.0.1", "1")
	err := endsAfter(t, 10*time.Second, testredis.URLs(c.servers))
	require.Equal(t, "READONLY", as[*nodeerr.ServerError](t, err).Code)

	locker, fake, seen := c.timed()
	result := lockBeside(t.Context(), locker, "name")
	eventually(t, func() bool { return len(seen.verdictsOn("acquire")) > 0 }, "a round is refused")
	require.Empty(t, result)
	c.doAll("REPLICAOF", "NO", "ONE")
	turnUntil(t, fake, 100*time.Millisecond, func() bool { return len(result) == 1 })
	unlock(t, receive(t, result, "the lock").lock)
}

// Once a majority has answered, all that does not pass is an outage.
func TestLock_WaitsForAnythingOnceAMajorityHasAnswered(t *testing.T) {
	t.Parallel()
	for code, commands := range map[string][2][]any{
		"READONLY": {{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}},
		"NOPERM":   {{"ACL", "SETUSER", "default", "-set"}, {"ACL", "SETUSER", "default", "+set"}},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			c := onReal(t, 3)
			locker, fake, seen := c.timed()
			unlock(t, take(t, locker, "name"))
			c.doAll(commands[0][0].(string), commands[0][1:]...)
			begun := fake.Now()
			result := lockBeside(t.Context(), locker, "name")
			turnUntil(t, fake, 100*time.Millisecond, func() bool {
				return fake.Now().Sub(begun) > time.Minute && len(seen.verdictsOn("acquire")) > 10
			})
			require.Empty(t, result)
			c.doAll(commands[1][0].(string), commands[1][1:]...)
			turnUntil(t, fake, 100*time.Millisecond, func() bool { return len(result) == 1 })
			unlock(t, receive(t, result, "the lock").lock)
		})
	}
}
