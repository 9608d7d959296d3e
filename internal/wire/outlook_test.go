package wire_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// outlooks has each reason once. "Err..." is a sentinel of package nodeerr, whose name the row covers, and "CODE" the code of an error reply.
var outlooks = []struct {
	covers string
	err    error
	want   wire.Outlook
}{
	{"", nil, wire.NoFault},
	{"ErrHeld", nodeerr.ErrHeld, wire.NoFault},
	{"ErrOwnToken", nodeerr.ErrOwnToken, wire.NoFault},
	{"ErrWanted", nodeerr.ErrWanted, wire.NoFault},
	{"ErrFull", nodeerr.ErrFull, wire.NoFault},
	{"ErrNoExpiry", nodeerr.ErrNoExpiry, wire.NoFault},
	{"ErrAbsent", nodeerr.ErrAbsent, wire.NoFault},
	{"ErrRecreated", nodeerr.ErrRecreated, wire.NoFault},
	{"ErrQueued", nodeerr.ErrQueued, wire.NoFault},
	{"ErrUnneeded", nodeerr.ErrUnneeded, wire.NoFault},
	{"ErrUnanswered", nodeerr.ErrUnanswered, wire.NoFault},

	{"ErrForeign", nodeerr.ErrForeign, wire.Final},
	{"WRONGTYPE", wire.NewServerError("WRONGTYPE Operation against a key holding the wrong kind of value"), wire.Final},
	{"ErrClosed", nodeerr.ErrClosed, wire.Final},

	{"LOADING", wire.NewServerError("LOADING Redis is loading the dataset in memory"), wire.Passes},
	{"BUSY", connect(wire.NewServerError("BUSY Redis is busy running a script.")), wire.Passes},
	{"MASTERDOWN", wire.NewServerError("MASTERDOWN Link with MASTER is down"), wire.Passes},
	{"TRYAGAIN", wire.NewServerError("TRYAGAIN Multiple keys request during rehashing of slot"), wire.Passes},
	{"ASK", wire.NewServerError("ASK 3999 127.0.0.1:6381"), wire.Passes},
	{"MISCONF", wire.NewServerError("MISCONF Redis is configured to save RDB snapshots"), wire.Passes},
	{"OOM", wire.NewServerError("OOM command not allowed when used memory > 'maxmemory'."), wire.Passes},
	{"NOREPLICAS", wire.NewServerError("NOREPLICAS Not enough good replicas to write."), wire.Passes},
	{"", connect(wire.NewServerError("ERR max number of clients reached")), wire.Passes},
	{"ErrTimeout", nodeerr.ErrTimeout, wire.Passes},
	{"", connect(nodeerr.ErrTimeout), wire.Passes},
	{"ErrBroken", fmt.Errorf("%w: %w", nodeerr.ErrBroken, io.EOF), wire.Passes},
	{"ErrSuspended", nodeerr.ErrSuspended, wire.Passes},
	{"ErrOverloaded", nodeerr.ErrOverloaded, wire.Passes},
	{"ErrQuarantined", &nodeerr.QuarantineError{Left: time.Second}, wire.Passes},
	{"", connect(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), wire.Passes},
	{"", connect(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), wire.Passes},
	{"", fmt.Errorf("%w: %w", nodeerr.ErrBroken, &net.OpError{Op: "read", Err: syscall.ECONNRESET}), wire.Passes},
	{"", connect(&wire.DialError{Err: errors.New("the tunnel is down")}), wire.Passes},
	{"", connect(&net.DNSError{Err: "no such host", Name: "redis", IsNotFound: true}), wire.Passes},

	{"READONLY", wire.NewServerError("READONLY You can't write against a read only replica."), wire.MayPass},
	{"", connect(io.EOF), wire.MayPass},
	{"", connect(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), wire.MayPass},
	{"", connect(&wire.HandshakeError{Err: io.EOF}), wire.MayPass},
	{"", connect(fmt.Errorf("%w: %w", nodeerr.ErrTimeout, &wire.HandshakeError{Err: os.ErrDeadlineExceeded})), wire.MayPass},
	{"", connect(&tls.CertificateVerificationError{Err: errors.New("unknown authority")}), wire.MayPass},
	{"", connect(&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}), wire.MayPass},
	{"", connect(tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), wire.MayPass},
	{"", connect(errors.New("credentials: the vault is sealed")), wire.MayPass},
	{"", connect(fmt.Errorf("credentials: %w", &fs.PathError{Op: "open", Path: "secret", Err: syscall.ENOENT})), wire.MayPass},
	{"", &nodeerr.QuarantineError{Left: time.Second, Err: errors.New("it does not say which server it is")}, wire.MayPass},
	{"", &nodeerr.QuarantineError{Err: wire.NewServerError("NOREPLICAS Not enough good replicas to write.")}, wire.Passes},
	{"", &nodeerr.QuarantineError{Left: time.Second, Err: wire.NewServerError("NOPERM No permissions to access a key")}, wire.Stays},

	{"NOAUTH", connect(wire.NewServerError("NOAUTH Authentication required.")), wire.Stays},
	{"WRONGPASS", connect(wire.NewServerError("WRONGPASS invalid username-password pair or user is disabled.")), wire.Stays},
	{"NOPERM", wire.NewServerError("NOPERM this user has no permissions to run the 'set' command"), wire.Stays},
	{"MOVED", wire.NewServerError("MOVED 3999 127.0.0.1:6381"), wire.Stays},
	{"CLUSTERDOWN", wire.NewServerError("CLUSTERDOWN Hash slot not served"), wire.Stays},
	{"", wire.InCluster(wire.NewServerError("MOVED 3999 127.0.0.1:6381")), wire.Passes},
	{"", connect(wire.InCluster(wire.NewServerError("CLUSTERDOWN The cluster is down"))), wire.Passes},
	{"", &nodeerr.QuarantineError{Err: wire.InCluster(wire.NewServerError("CLUSTERDOWN x"))}, wire.Passes},
	{"", wire.InCluster(wire.NewServerError("NOPERM no permissions")), wire.Stays},
	{"NOSCRIPT", wire.NewServerError("NOSCRIPT No matching script."), wire.Stays},
	{"", wire.NewServerError("ERR unknown command 'SET', with args beginning with: "), wire.Stays},
	{"", wire.NewServerError("ERR Write commands not allowed after non deterministic commands."), wire.Stays},
	{"", connect(wire.NewServerError("DENIED Redis is running in protected mode")), wire.Stays},
	{"ErrProtocol", nodeerr.ErrProtocol, wire.Stays},
	{"", fmt.Errorf("%w: %w", nodeerr.ErrBroken, nodeerr.ErrProtocol), wire.Stays},
	{"ErrSameServer", fmt.Errorf("%w b:1", nodeerr.ErrSameServer), wire.Stays},
	{"ErrSentinel", connect(nodeerr.ErrSentinel), wire.Stays},
	{"ErrOldServer", connect(nodeerr.ErrOldServer), wire.Stays},
}

func connect(err error) error { return &nodeerr.ConnectError{Err: err} }

func TestOutlook_OfEachReason(t *testing.T) {
	covered := map[string]bool{}
	for _, row := range outlooks {
		require.Equal(t, row.want, wire.OutlookOf(row.err), "%v", row.err)
		covered[row.covers] = true
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../pool/nodeerr/nodeerr.go", nil, 0)
	require.NoError(t, err)
	sentinels := 0
	for name, object := range file.Scope.Objects {
		if object.Kind == ast.Var && strings.HasPrefix(name, "Err") {
			require.True(t, covered[name], "%s has no row", name)
			sentinels++
		}
	}
	require.Greater(t, sentinels, 15)
	source, err := os.ReadFile("refusal.go")
	require.NoError(t, err)
	for _, code := range regexp.MustCompile(`(?m)^\t"([A-Z]+)": `).FindAllStringSubmatch(string(source), -1) {
		require.True(t, covered[code[1]], "%s has no row", code[1])
	}
}

// docs/failures.md has the table of the code.
func TestOutlook_IsInTheDocumentation(t *testing.T) {
	table := "| a majority of the nodes has | before a majority has answered once | afterwards |\n|---|---|---|\n"
	for i := range wire.Reasons {
		first, later := wire.Reasons[i].Words()
		table += fmt.Sprintf("| %s | %s | %s |\n", wire.Reasons[i].Name, first, later)
	}
	text, err := os.ReadFile("../../docs/failures.md")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(text), table), "it should be:\n%s", table)
	require.Equal(t, 10*time.Second, wire.Patience, "as the words say")
}
