package pool_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert, key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// issue makes a certificate for a name and for 127.0.0.1.
func (a *authority) issue(t testing.TB, name string) (certificate, key []byte) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// tlsServer starts a server that speaks TLS too, and returns it with the URL for that.
func tlsServer(t testing.TB, ca *authority, clientCertificates string) (server *redistest.Process, url string) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	cert, key := ca.issue(t, "redis.test")
	port := redistest.FreePort(t)
	server = redistest.Real(t, 1, "--tls-port", fmt.Sprint(port),
		"--tls-cert-file", write("cert.pem", cert), "--tls-key-file", write("key.pem", key),
		"--tls-ca-cert-file", write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})),
		"--tls-auth-clients", clientCertificates)[0]
	return server, fmt.Sprintf("rediss://127.0.0.1:%d", port)
}

func TestTLSConnectsToAServerThatTheConfigurationTrusts(t *testing.T) {
	ca := newAuthority(t)
	server, url := tlsServer(t, ca, "no")
	for _, config := range []*tls.Config{{RootCAs: ca.pool()}, {RootCAs: ca.pool(), ServerName: "redis.test"}} {
		node := open(t, url, patient(), pool.WithTLSConfig(config))
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		requireYes(t, node, pool.Release("key", "token", ttl))
		server.Stop()
		server.Start()
		requireBack(t, node)
	}
}

func TestTLSRefusesAServerThatCannotBeTrusted(t *testing.T) {
	ca := newAuthority(t)
	server, url := tlsServer(t, ca, "no")
	for name, test := range map[string]struct {
		config *tls.Config
		reason any
	}{
		"unknown authority": {&tls.Config{RootCAs: newAuthority(t).pool()}, new(x509.UnknownAuthorityError)},
		"another name":      {&tls.Config{RootCAs: ca.pool(), ServerName: "other.test"}, new(x509.HostnameError)},
	} {
		t.Run(name, func(t *testing.T) {
			reply := ask(t, open(t, url, patient(), pool.WithTLSConfig(test.config)), pool.Acquire("key", "token", ttl))
			require.Equal(t, pool.Unsent, reply.Answer)
			require.ErrorAs(t, reply.Err, new(*pool.ConnectError))
			require.ErrorAs(t, reply.Err, test.reason)
		})
	}
	t.Run("by default the roots of the system decide", func(t *testing.T) {
		reply := ask(t, open(t, url, patient()), pool.Acquire("key", "token", ttl))
		require.ErrorAs(t, reply.Err, new(*tls.CertificateVerificationError))
	})
	require.EqualValues(t, 0, do(t, server, "DBSIZE"))
}

func TestTLSShowsTheClientItsCertificate(t *testing.T) {
	ca := newAuthority(t)
	_, url := tlsServer(t, ca, "yes")
	without := &tls.Config{RootCAs: ca.pool()}
	reply := ask(t, open(t, url, patient(), pool.WithTLSConfig(without)), pool.Acquire("key", "token", ttl))
	require.Equal(t, pool.Unsent, reply.Answer)
	require.ErrorAs(t, reply.Err, new(*pool.ConnectError))

	cert, err := tls.X509KeyPair(ca.issue(t, "client"))
	require.NoError(t, err)
	with := &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{cert}}
	requireYes(t, open(t, url, patient(), pool.WithTLSConfig(with)), pool.Acquire("key", "token", ttl))
}

func TestPlainAndTLSDoNotGetThroughToEachOther(t *testing.T) {
	ca := newAuthority(t)
	server, url := tlsServer(t, ca, "no")
	crossed := map[string][]pool.Option{
		"rediss" + server.URL()[len("redis"):]: {pool.WithTLSConfig(&tls.Config{RootCAs: ca.pool()})},
		"redis" + url[len("rediss"):]:          nil,
	}
	for url, opts := range crossed {
		t.Run(strings.SplitN(url, ":", 2)[0], func(t *testing.T) {
			node := open(t, url, append(opts, patient(), pool.WithDialTimeout(time.Second/5))...)
			reply := ask(t, node, pool.Acquire("key", "token", ttl))
			require.Equal(t, pool.Unsent, reply.Answer)
			require.ErrorAs(t, reply.Err, new(*pool.ConnectError))
		})
	}
}

func TestAConfigurationChangedAfterwardsChangesNothing(t *testing.T) {
	ca := newAuthority(t)
	_, url := tlsServer(t, ca, "no")
	config := &tls.Config{RootCAs: ca.pool()}
	node := open(t, url, patient(), pool.WithTLSConfig(config))
	config.RootCAs = x509.NewCertPool()
	requireYes(t, node, pool.Acquire("key", "token", ttl))
}

func TestAFrozenTLSServerIsGivenUpAndReplaced(t *testing.T) {
	ca := newAuthority(t)
	server, url := tlsServer(t, ca, "no")
	node := open(t, url, pool.WithTLSConfig(&tls.Config{RootCAs: ca.pool()}),
		pool.WithTimeout(300*time.Millisecond), pool.WithMaxOverdue(time.Millisecond), pool.WithDialTimeout(300*time.Millisecond))
	requireBack(t, node)
	server.Freeze()
	requireReply(t, pool.Maybe, pool.ErrTimeout, ask(t, node, pool.Acquire("key", "token", ttl)))
	require.NotEqual(t, pool.Yes, ask(t, node, pool.Release("key", "token", ttl)).Answer)
	server.Thaw()
	requireBack(t, node)
	require.Eventually(t, func() bool { return holds(t, server, "key") == "" }, bound, tick)
}
