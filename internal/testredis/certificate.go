package testredis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate is a certificate that is its own authority, with its Leaf.
type Certificate struct {
	tls.Certificate
	File, KeyFile string // cert.pem and key.pem in one folder, until the end of the test
}

// NewCertificate makes a certificate for hosts that is valid for some time from now on.
func NewCertificate(tb testing.TB, lasts time.Duration, hosts ...string) *Certificate {
	tb.Helper()
	fail := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fail(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: hosts[0]},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lasts),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	fail(err)
	leaf, err := x509.ParseCertificate(der)
	fail(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	fail(err)
	dir := tb.TempDir()
	c := &Certificate{
		Certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		File:        filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
	}
	fail(os.WriteFile(c.File, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	fail(os.WriteFile(c.KeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return c
}

// Args have a server show the certificate, and ask clients for none unless more args follow (for [Real], with a port of
// your choice in "--tls-port").
func (c *Certificate) Args() []string {
	return []string{"--tls-cert-file", c.File, "--tls-key-file", c.KeyFile, "--tls-ca-cert-file", c.File, "--tls-auth-clients", "no"}
}

// Trusts is for clients that trust the certificate.
func (c *Certificate) Trusts() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(c.Leaf)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
