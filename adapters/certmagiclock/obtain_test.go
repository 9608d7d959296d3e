package certmagiclock_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/certmagic"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/mholt/acmez/v3/acme"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/quorumlock/quorumlock/adapters/certmagiclock"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock"
)

const (
	name = "shop.example.com"
	// instanceEnv makes the test binary an instance of a program: it is the URL of the CA, its certificate, the directory of the
	// storage and the URLs of the servers.
	instanceEnv = "CERTMAGICLOCK_TEST_INSTANCE"
)

// solver solves nothing: the CA of the test validates nothing.
type solver struct{}

func (solver) Present(context.Context, acme.Challenge) error { return nil }
func (solver) CleanUp(context.Context, acme.Challenge) error { return nil }

// instance is a process that obtains a certificate when it reads a line, and prints its serial number.
func instance() {
	args := strings.Split(os.Getenv(instanceEnv), " ")
	url, root, dir, urls := args[0], args[1], args[2], args[3:]
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(root)
	must(err)
	roots.AppendCertsFromPEM(text)
	locker, err := redlock.Open(urls, redlock.WithKeyPrefix("certmagic:"))
	must(err)
	storage, err := certmagiclock.New(&certmagic.FileStorage{Path: dir}, locker)
	must(err)

	var config *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return config, nil }, Logger: zap.NewNop(),
	})
	config = certmagic.New(cache, certmagic.Config{Storage: storage, Logger: zap.NewNop()})
	config.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(config, certmagic.ACMEIssuer{
		CA: url, Email: "admin@example.com", Agreed: true, TrustedRoots: roots, Logger: zap.NewNop(),
		DNS01Solver: solver{}, DisableHTTPChallenge: true, DisableTLSALPNChallenge: true,
	})}
	fmt.Println("ready")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	must(err)
	must(config.ObtainCertAsync(context.Background(), name)) // with RenewLockLease
	certificate, err := config.CacheManagedCertificate(context.Background(), name)
	must(err)
	must(storage.Wait(context.Background()))
	must(locker.Close())
	fmt.Println(certificate.Leaf.SerialNumber)
}

// authority starts a CA that validates nothing and counts the certificates that it is asked for. It calls ordered for each order.
func authority(t *testing.T, ordered func()) (url, root string, issued *atomic.Int32) {
	t.Setenv("PEBBLE_VA_ALWAYS_VALID", "1")
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	logger, store := log.New(io.Discard, "", 0), db.NewMemoryStore()
	profiles := map[string]ca.Profile{"default": {Description: "for the test"}}
	pebble := wfe.New(logger, store, va.New(logger, 0, 0, false, "", store), ca.New(logger, store, "", "ecdsa", 0, 1, profiles),
		[]string{"pebble.letsencrypt.org"}, false, false, 0, 0)
	handler, issued := pebble.Handler(), new(atomic.Int32)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/order-plz"):
			ordered()
		case strings.HasPrefix(r.URL.Path, "/finalize-order/"):
			issued.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	root = filepath.Join(t.TempDir(), "root.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	require.NoError(t, os.WriteFile(root, pem.EncodeToMemory(block), 0o600))
	return server.URL + "/dir", root, issued
}

func TestStorage_ProcessesThatObtainACertificateAtOnceObtainOne(t *testing.T) {
	servers := testredis.Real(t, 5)
	var once sync.Once
	url, root, issued := authority(t, func() { once.Do(servers[0].Stop) })
	args := append([]string{url, root, t.TempDir()}, testredis.URLs(servers)...)

	type process struct {
		in  io.WriteCloser
		out *bufio.Reader
	}
	var processes []process
	for range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), instanceEnv+"="+strings.Join(args, " ")), t.Output()
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, outWriter, err := os.Pipe() // which Wait does not close
		require.NoError(t, err)
		t.Cleanup(func() { _ = out.Close() })
		cmd.Stdout = outWriter
		child, err := testredis.StartChild(cmd)
		require.NoError(t, err)
		t.Cleanup(child.Kill)
		require.NoError(t, outWriter.Close())
		processes = append(processes, process{in, bufio.NewReader(out)})
	}
	for _, p := range processes {
		line, err := p.out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
	}
	for _, p := range processes {
		_, err := p.in.Write([]byte("\n"))
		require.NoError(t, err)
	}
	serials := map[string]bool{}
	for _, p := range processes {
		line, err := p.out.ReadString('\n')
		require.NoError(t, err)
		serials[line] = true
	}
	require.Len(t, serials, 1, "all have the same certificate")
	require.EqualValues(t, 1, issued.Load())
	require.Zero(t, servers[0].PID(), "one server was down")
}
