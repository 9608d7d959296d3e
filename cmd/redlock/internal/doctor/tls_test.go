package doctor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// selfSigned makes a certificate for 127.0.0.1 in a directory.
func selfSigned(t testing.TB, dir string, lasts time.Duration) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lasts),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
		return path
	}
	roots = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", pkcs8), roots
}

func TestExamine_LooksAtTheCertificate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lasts    time.Duration
		check    string // "" means that nothing is found
		severity doctor.Severity
		shows    string
	}{
		"lasts long":    {lasts: 90 * 24 * time.Hour},
		"expires soon":  {10 * 24 * time.Hour, "certificate", doctor.Warning, "expires in 10.0 days"},
		"is not for us": {-time.Minute, "reachable", doctor.Fault, "certificate has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cert, key, roots := selfSigned(t, t.TempDir(), test.lasts)
			stopped := testredis.Mini(t, 1)[0] // whose port nobody else takes
			stopped.Stop()
			all := append(wellSetServers(t, 1, "--tls-port", portOf(t, stopped.Addr()), "--tls-cert-file", cert, "--tls-key-file", key,
				"--tls-ca-cert-file", cert, "--tls-auth-clients", "no"), wellSetServers(t, 2)...)
			servers := serversOf(all)
			servers[0] = serverAt(stopped.Addr())
			servers[0].TLS = &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
			r := examine(t, servers, patient(doctor.Options{}))
			if test.check == "" {
				requireFindings(t, r)

				servers[0].TLS = nil
				r := finds(t, servers, patient(doctor.Options{}), is(doctor.Fault, "reachable", stopped.Addr()))
				require.Contains(t, r.Findings[0].Fix, "rediss://")
				return
			}
			requireFindings(t, r, is(test.severity, test.check, stopped.Addr()))
			require.Contains(t, r.Findings[0].What, test.shows)
		})
	}
}
