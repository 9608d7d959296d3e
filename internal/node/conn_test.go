package node_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// What servers of other kinds send, and Redis never does.
var foreign = map[string]string{
	"HTTP":          "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
	"SSH":           "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
	"SMTP":          "220 mail.example.com ESMTP Postfix\r\n",
	"MySQL":         "J\x00\x00\x00\x0a8.0.36\x00\x08\x00\x00\x00\r\n",
	"TLS alert":     "\x15\x03\x01\x00\x02\x02\x28\r\n",
	"bare newline":  "+OK\n",
	"empty line":    "\r\n",
	"no length":     "$\r\n",
	"odd length":    "$x\r\n",
	"odd number":    ":x\r\n",
	"no number":     ":\r\n",
	"bulk overrun":  "$1\r\nxyz\r\n",
	"array of junk": "*1\r\n?\r\n",
}

func TestConn_NonsenseForAnAnswerIsUnknownAndEndsTheConnection(t *testing.T) {
	for transport, open := range transports {
		for name, nonsense := range foreign {
			t.Run(transport+"/"+name, func(t *testing.T) {
				f := newFake(t, atFirst(answering("SET", nonsense)))
				n := open(f, t, patient())
				reply := ask(t, n, newAcquire("key", "token", ttl))
				requireReply(t, quorum.Unknown, nodeerr.ErrBroken, reply)
				require.ErrorIs(t, reply.Err, nodeerr.ErrProtocol)
				requireYes(t, n, newAcquire("key", "token", ttl))
				require.Equal(t, 2, f.connections())
			})
		}
	}
}

func TestConn_RepliesThatComeTogetherAreTakenApart(t *testing.T) {
	f := silentOn(t, "SET")
	n := f.open(t, patient())
	requireYes(t, n, newRelease("key", "token", ttl)) // connected, and the script is known
	var answers []inbox
	for range 5 {
		answers = append(answers, send(n, newAcquire("key", "token", ttl)))
	}
	require.Eventually(t, func() bool { return f.count("SET") == len(answers) }, bound, tick)
	f.send(t, 1, "+OK\r\n_\r\n-NOPERM one\r\n+OK\r\n-NOPERM two\r\n+OK\r\n")
	requireReply(t, quorum.Yes, nil, answers[0].next(t))
	requireReply(t, quorum.No, nodeerr.ErrHeld, answers[1].next(t))
	require.ErrorContains(t, answers[2].next(t).Err, "NOPERM one")
	requireReply(t, quorum.Yes, nil, answers[3].next(t))
	require.ErrorContains(t, answers[4].next(t).Err, "NOPERM two", "and the one behind it, which came unasked, ends the connection")
	require.Eventually(t, func() bool { return f.connections() == 2 }, bound, tick)
}

func TestConn_AChangeBehindTheBeginningOfTrackingIsReported(t *testing.T) {
	f := silentOn(t, "CLIENT TRACKING")
	n := f.open(t, patient())
	l := listen(n, "")
	require.Eventually(t, func() bool { return f.count("CLIENT TRACKING") == 1 }, bound, tick)
	answer := send(n, newAcquire("key", "token", ttl))
	require.Eventually(t, func() bool { return f.count("SET") == 1 }, bound, tick)
	f.send(t, 1, "+OK\r\n+OK\r\n")
	require.Equal(t, "0 active", l.next(t))
	require.Equal(t, "0 invalidated key", l.next(t))
	requireReply(t, quorum.Yes, nil, answer.next(t))
	f.breakNetwork() // it would not answer the node's goodbye
}

func TestConn_AReplyDoesNotWaitForTheRestOfTheNext(t *testing.T) {
	for _, next := range []string{"+OK\r\n", "_\r\n", "$-1\r\n", "$2\r\nOK\r\n", "*1\r\n:1\r\n", "-NOPERM no\r\n"} {
		for come := range len(next) {
			f := silentOn(t, "SET")
			n := f.open(t, patient())
			first, second := send(n, newAcquire("key", "token", ttl)), send(n, newAcquire("key", "token", ttl))
			require.Eventually(t, func() bool { return f.count("SET") == 2 }, bound, tick)
			f.send(t, 1, "+OK\r\n"+next[:come])
			requireReply(t, quorum.Yes, nil, first.next(t))
			f.send(t, 1, next[come:])
			require.NotEqual(t, quorum.Pending, second.next(t).Answer)
			f.breakNetwork() // it would not answer the node's goodbye
		}
	}
}

func TestConn_ALongErrorIsARefusal(t *testing.T) {
	for _, length := range []int{4090, 4096, 4100, 8192, 16_000} {
		for transport, open := range transports {
			f := newFake(t, answering("SET", "-NOPERM "+strings.Repeat("x", length)+"\r\n"))
			n := open(f, t, patient())
			for range 2 {
				reply := ask(t, n, newAcquire("key", "token", ttl))
				require.Equal(t, quorum.Refused, reply.Answer, "%s: %.80v", transport, reply.Err)
				require.ErrorContains(t, reply.Err, "NOPERM x")
			}
			require.Equal(t, 1, f.connections())
		}
	}
}

// A reader that breaks off must not leave a writer behind that hangs.
func TestConn_NonsenseEndsAWriteThatHangs(t *testing.T) {
	for transport, open := range transports {
		bubble(t, transport, func(t *testing.T) {
			f := stuckOn(t, "SET")
			f.answer = atFirst(f.answer)
			n := open(f, t, patient(), withMaxOverdue(time.Hour))
			first := send(n, newAcquire("a", "token", ttl))
			synctest.Wait()
			second := send(n, newAcquire("b", "token", ttl))
			synctest.Wait() // it is being written
			f.send(t, 1, foreign["SSH"])
			start := time.Now()
			requireReply(t, quorum.Unknown, nodeerr.ErrProtocol, first.next(t))
			requireReply(t, quorum.Unknown, nodeerr.ErrProtocol, second.next(t))
			requireYes(t, n, newAcquire("c", "token", ttl))
			require.Less(t, time.Since(start), time.Second)
		})
	}
}

// A reply too many would be taken for the answer to the next command.
func TestConn_AnAnswerThatNobodyAskedForEndsIt(t *testing.T) {
	for _, open := range transports {
		f := newFake(t, nil)
		n := open(f, t, patient())
		for i := range 5 {
			require.Eventually(t, func() bool { return ask(t, n, newAcquire("key", fmt.Sprint(i), ttl)).Answer == quorum.Yes }, bound, tick)
			connections := f.connections()
			_, _ = io.WriteString(f.peer(connections), ":0\r\n") // fails once the node has hung up
			require.Eventually(t, func() bool { return f.connections() > connections }, bound, tick)
		}
		requireYes(t, n, newRelease("key", "token", ttl))
	}
}

// newCertificate makes a certificate for a name and for 127.0.0.1, which is its own authority.
func newCertificate(t testing.TB, name string) tls.Certificate {
	t.Helper()
	return testredis.NewCertificate(t, time.Hour, name, "127.0.0.1").Certificate
}

// trusting connects to the server of this name, if it has the certificate.
func trusting(cert tls.Certificate, name string) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	return &tls.Config{RootCAs: roots, ServerName: name}
}

// tlsServer starts a server that speaks TLS too, and returns it with the address for that. Without TLS in the server the test is skipped.
func tlsServer(t testing.TB, cert tls.Certificate, clientCertificates string) (server *testredis.Process, address string) {
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	require.NoError(t, err)
	certFile, keyFile := write("cert.pem", "CERTIFICATE", cert.Leaf.Raw), write("key.pem", "PRIVATE KEY", key)
	stopped := testredis.Mini(t, 1)[0] // whose port nobody else takes
	stopped.Stop()
	_, port, err := net.SplitHostPort(stopped.Addr())
	require.NoError(t, err)
	server = testredis.Real(t, 1, "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile,
		"--tls-ca-cert-file", certFile, "--tls-auth-clients", clientCertificates)[0]
	return server, stopped.Addr()
}

func TestTLS_ConnectsToAServerThatTheConfigurationTrusts(t *testing.T) {
	cert := newCertificate(t, "redis.test")
	server, address := tlsServer(t, cert, "no")
	for _, name := range []string{"127.0.0.1", "redis.test"} {
		n := open(t, address, patient(), withTLS(trusting(cert, name)))
		requireYes(t, n, newAcquire("key", "token", ttl))
		requireYes(t, n, newRelease("key", "token", ttl))
		server.Stop()
		server.Start()
		requireBack(t, n)
	}
}

func TestTLS_RefusesAServerThatCannotBeTrusted(t *testing.T) {
	cert := newCertificate(t, "redis.test")
	server, address := tlsServer(t, cert, "no")
	other := newCertificate(t, "redis.test")
	for name, tt := range map[string]struct {
		address string
		config  *tls.Config
		reason  any
		says    string
	}{
		"unknown authority":          {address, trusting(other, "redis.test"), new(x509.UnknownAuthorityError), ""},
		"another name":               {address, trusting(cert, "other.test"), new(x509.HostnameError), ""},
		"unknown to the system":      {address, &tls.Config{ServerName: "127.0.0.1"}, new(*tls.CertificateVerificationError), ""},
		"a server without TLS":       {server.Addr(), trusting(cert, "redis.test"), new(*nodeerr.ConnectError), "TLS handshake: "},
		"a connection without TLS":   {address, nil, new(*nodeerr.ConnectError), ""},
		"no certificate of a client": {clientsWithCertificates(t, cert), trusting(cert, "redis.test"), new(*nodeerr.ConnectError), ""},
	} {
		t.Run(name, func(t *testing.T) {
			wait := bound / 2
			if tt.address == server.Addr() {
				wait = time.Second / 5 // it waits for the end of a command
			}
			n := open(t, tt.address, patient(), withTLS(tt.config), withDialTimeout(wait))
			reply := ask(t, n, newAcquire("key", "token", ttl))
			require.Equal(t, quorum.Unsent, reply.Answer)
			require.ErrorAs(t, reply.Err, new(*nodeerr.ConnectError))
			require.ErrorAs(t, reply.Err, tt.reason)
			require.ErrorContains(t, reply.Err, tt.says)
		})
	}
	require.EqualValues(t, 0, do(t, server, "DBSIZE"))
}

// clientsWithCertificates starts a server that wants to see the certificate of each client.
func clientsWithCertificates(t testing.TB, cert tls.Certificate) (address string) {
	_, address = tlsServer(t, cert, "yes")
	return address
}

func TestTLS_ShowsTheCertificateOfTheClient(t *testing.T) {
	cert := newCertificate(t, "redis.test")
	config := trusting(cert, "redis.test")
	config.Certificates = []tls.Certificate{cert}
	requireYes(t, open(t, clientsWithCertificates(t, cert), patient(), withTLS(config)), newAcquire("key", "token", ttl))
}

func TestTLS_AFrozenServerIsGivenUpAndReplaced(t *testing.T) {
	cert := newCertificate(t, "redis.test")
	server, address := tlsServer(t, cert, "no")
	n := open(t, address, withTLS(trusting(cert, "redis.test")),
		withTimeout(300*time.Millisecond), withMaxOverdue(time.Millisecond), withDialTimeout(300*time.Millisecond))
	requireBack(t, n)
	server.Freeze()
	requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, ask(t, n, newAcquire("key", "token", ttl)))
	require.NotEqual(t, quorum.Yes, ask(t, n, newRelease("key", "token", ttl)).Answer)
	server.Thaw()
	requireBack(t, n)
	require.Eventually(t, func() bool { return holds(t, server, "key") == "" }, bound, tick)
}

// TLS sends a goodbye when it closes a connection. To a server that reads no more that takes seconds, which nobody has.
func TestTLS_NobodyWaitsForItsGoodbye(t *testing.T) {
	cert := newCertificate(t, "redis.test")
	for last, answer := range map[string]string{
		"INFO": "",          // the greeting is never answered
		"SET":  "?x\r\n",    // the connection breaks
		"PING": "+PONG\r\n", // the node is closed
	} {
		bubble(t, "the last that it reads is "+last, func(t *testing.T) {
			var f *fake
			f = newFake(t, func(c *peer, args []string) string {
				if args[0] == last {
					_, _ = io.WriteString(c, answer)
					<-f.end
				}
				return likeRedis(c, args)
			})
			f.secure = &tls.Config{Certificates: []tls.Certificate{cert}}
			config := trusting(cert, "redis.test")
			config.Time = func() time.Time { return cert.Leaf.NotBefore }
			n := f.openUnowned(withTLS(config))
			start := time.Now()
			ask(t, n, newAcquire("key", "token", ttl))
			require.NoError(t, n.Close())
			require.Less(t, time.Since(start), 2*time.Second)
		})
	}
}
