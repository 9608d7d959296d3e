package caddylock_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

// secure starts a server that wants a certificate of each client, and returns its URL.
func secure(t *testing.T, cert *testredis.Certificate) (*testredis.Process, string) {
	t.Helper()
	stopped := testredis.Mini(t, 1)[0] // whose port nobody else takes
	stopped.Stop()
	_, port, err := net.SplitHostPort(stopped.Addr())
	require.NoError(t, err)
	server := testredis.Real(t, 1, append(cert.Args(), "--tls-port", port, "--tls-auth-clients", "yes")...)[0]
	return server, "rediss://" + stopped.Addr()
}

func TestStorage_EachFieldMayHavePlaceholders(t *testing.T) {
	stopAtTheEnd(t)
	cert := testredis.NewCertificate(t, time.Hour, "127.0.0.1")
	var urls []string
	var servers []*testredis.Process
	for range 3 {
		server, url := secure(t, cert)
		servers, urls = append(servers, server), append(urls, url)
	}
	t.Setenv("LOCK_HOSTS", "127.0.0.1")
	t.Setenv("LOCK_DIR", filepath.Dir(cert.File))
	t.Setenv("LOCK_TEXT", "of-caddy")
	t.Setenv("LOCK_NUMBER", "1")
	for i, url := range urls {
		urls[i] = strings.Replace(url, "127.0.0.1", "{env.LOCK_HOSTS}", 1)
	}
	file := fmt.Sprintf(`storage redlock {
		nodes %s
		nodes %s
		prefix {env.LOCK_TEXT}:
		ttl {env.LOCK_NUMBER}h
		timeout {env.LOCK_NUMBER}5s
		ca {env.LOCK_DIR}/cert.pem
		certificate {env.LOCK_DIR}/cert.pem {env.LOCK_DIR}/key.pem
		storage file_system %s
	}`, strings.Join(urls[:2], " "), urls[2], t.TempDir())
	storage, err := load(t, file)
	require.NoError(t, err)
	require.NoError(t, storage.Lock(t.Context(), "x"))
	for _, server := range servers {
		require.Eventually(t, func() bool { // beyond the majority the answers come later
			ttl, err := server.Do("PTTL", "of-caddy:x")
			return err == nil && ttl.(int64) > (30*time.Minute).Milliseconds()
		}, bound, tick)
	}
	require.NoError(t, storage.Unlock(t.Context(), "x"))
}

// The certificate of the first configuration is that of another authority.
func TestStorage_ACertificateThatIsReplacedCountsForTheNextConnection(t *testing.T) {
	stopAtTheEnd(t)
	cert, own := testredis.NewCertificate(t, time.Hour, "127.0.0.1"), testredis.NewCertificate(t, time.Hour, "127.0.0.1")
	_, url := secure(t, cert)
	storage, err := load(t, fmt.Sprintf("storage redlock {\nnodes %s\nca %s\ncertificate %s %s\nstorage file_system %s\n}",
		url, cert.File, own.File, own.KeyFile, t.TempDir()))
	require.NoError(t, err)
	_, err = storage.TryLock(t.Context(), "x")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	for from, to := range map[string]string{cert.File: own.File, cert.KeyFile: own.KeyFile} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, text, 0o600))
	}
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	require.NoError(t, storage.Lock(ctx, "x"))
	require.NoError(t, storage.Unlock(t.Context(), "x"))
}

// By default a command would give up before the context.
func TestStorage_ACommandTakesTheTimeoutOnAServerThatHangs(t *testing.T) {
	stopAtTheEnd(t)
	server := testredis.Real(t, 1)[0]
	storage, err := load(t, fmt.Sprintf("storage redlock {\nnodes %s\ntimeout %s\nstorage file_system %s\n}", server.URL(), bound, t.TempDir()))
	require.NoError(t, err)
	require.NoError(t, storage.Lock(t.Context(), "x"))
	server.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = storage.TryLock(ctx, "y")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	server.Thaw()
	require.NoError(t, storage.Unlock(t.Context(), "x"))
}
