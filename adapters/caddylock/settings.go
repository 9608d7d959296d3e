package caddylock

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// settings are the fields of a Storage that make its Locker, without placeholders.
type settings struct {
	nodes            []string
	prefix           string
	ttl, timeout     time.Duration // 0 if not given
	authority        string        // the text of the file CA; "" if not given
	certificate, key string        // paths; "" if not given
}

// settings replaces the placeholders, and checks what redlock.Open does not.
func (s *Storage) settings() (settings, error) {
	of := settings{nodes: make([]string, len(s.Nodes)), prefix: defaultPrefix}
	replacer := caddy.NewReplacer()
	replace := func(field, text string, to *string) error {
		if text == "" {
			return nil
		}
		replaced, err := replacer.ReplaceOrErr(text, true, true)
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		*to = replaced
		return nil
	}
	for i, url := range s.Nodes {
		if err := replace(fmt.Sprintf("nodes: URL %d", i), url, &of.nodes[i]); err != nil {
			return of, err
		}
	}
	var ttl, timeout, ca string
	for _, field := range []struct {
		name, text string
		to         *string
	}{
		{"prefix", s.Prefix, &of.prefix}, {"ttl", s.TTL, &ttl}, {"timeout", s.Timeout, &timeout},
		{"ca", s.CA, &ca}, {"certificate", s.Certificate, &of.certificate}, {"key", s.Key, &of.key},
	} {
		if err := replace(field.name, field.text, field.to); err != nil {
			return of, err
		}
	}
	var err error
	if of.ttl, err = duration("ttl", ttl); err != nil {
		return of, err
	}
	if of.timeout, err = duration("timeout", timeout); err != nil {
		return of, err
	}
	return of, of.checkTLS(ca)
}

// duration returns 0 for an empty text.
func duration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := caddy.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s %s: must be a duration above zero, such as 8s", field, text)
	}
	return d, nil
}

// checkTLS reads the files for TLS, so that one which is wrong is an error at once.
func (of *settings) checkTLS(ca string) error {
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return fmt.Errorf("ca: %s has no certificate in PEM form", ca)
		}
		of.authority = string(text)
	}
	if (of.certificate == "") != (of.key == "") {
		return fmt.Errorf("certificate %q and key %q: one needs the other", of.certificate, of.key)
	}
	if of.certificate != "" {
		if _, err := tls.LoadX509KeyPair(of.certificate, of.key); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	}
	return nil
}

// options returns the options of the Locker.
func (of settings) options() []redlock.Option {
	opts := []redlock.Option{redlock.WithKeyPrefix(of.prefix), redlock.WithLogger(slog.New(newHandler()))}
	if of.ttl != 0 {
		opts = append(opts, redlock.TTL(of.ttl))
	}
	if of.timeout != 0 {
		opts = append(opts, pool.WithTimeout(of.timeout))
	}
	if of.authority == "" && of.certificate == "" {
		return opts
	}
	config := new(tls.Config)
	if of.authority != "" {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM([]byte(of.authority))
	}
	if of.certificate != "" {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(of.certificate, of.key) // which may have been renewed
			return &pair, err
		}
	}
	return append(opts, pool.WithTLSConfig(config))
}
