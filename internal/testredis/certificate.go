package testredis

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
)

// Certificate makes a certificate for these hosts that is its own authority, and keeps its files until the end of the
// test. The args have a server show it (for [Real], with a port of your choice in "--tls-port"), and trusts is for clients.
func Certificate(tb testing.TB, hosts ...string) (args []string, trusts *tls.Config) {
	tb.Helper()
	fail := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fail(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	fail(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	fail(err)
	dir := tb.TempDir()
	write := func(name, kind string, der []byte) (path string) {
		path = filepath.Join(dir, name)
		fail(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	certFile, keyFile := write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", private)
	leaf, err := x509.ParseCertificate(cert)
	fail(err)
	trusts = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	trusts.RootCAs.AddCert(leaf)
	return []string{
		"--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certFile, "--tls-auth-clients", "no",
	}, trusts
}
