package doctor

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/internal/inquiry"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// unreachable is the one check that is made on nodes that cannot be examined.
const unreachable = "reachable"

// reachChecks look at the way to a server, and at which server is at its end.
var reachChecks = []check{
	{name: unreachable, docs: answersDocs, why: grantsNone,
		node: func(_ *examination, f *facts) []Finding {
			if f.err == nil {
				return nil
			}
			what, fix := explain(f)
			return fault("cannot be used: "+what+"; "+waits(f.err), fix)
		}},
	{name: "tls", docs: "operations.md#server-settings", node: encrypted,
		why: "Whoever can listen on the network reads the password and the tokens, and can release locks or delete data."},
	{name: "certificate", docs: "operations.md#server-settings", node: expiring,
		why: "When it has expired, no program can connect to the node any more."},
	{name: "proxy", docs: "operations.md#server-settings", node: proxy,
		why: "A proxy that spreads commands over several connections or servers lets releases overtake acquires: locks get lost or stay."},
	{name: "hang-ups", docs: "operations.md#server-settings", node: hangUps,
		why: "Programs leave out what the connection is closed on: without HELLO waiters poll, and without INFO or CLIENT nobody notices that a server was replaced, or is configured twice."},
	{name: "identity", docs: "operations.md#managed-services", need: info(), node: identity,
		why: "A server is recognised by its run_id, and for the restart guard by its master_replid too."},
	{name: "version", docs: "operations.md#nodes", need: info("redis_version"),
		why: "The nodes must be Redis 6.2, Valkey 7.2 or newer: an older server is not used (nodeerr.ErrOldServer).",
		node: func(_ *examination, f *facts) []Finding {
			return faultIf(f.tooOld(), "the server is too old: "+printable(f.version()), "upgrade it: docs/operations.md, Restarts and upgrades")
		}},
	{name: "resp3", docs: "operations.md#server-settings", node: resp3,
		why: "Without RESP3 a server does not announce changes: waiters poll with back-off, and a holder learns of a deletion with the next renewal."},
}

// grantsNone is why it matters that a server cannot be used.
const grantsNone = "The node grants no locks. The lock survives that of a minority of the nodes only."

// waits says what Lock does about a majority of such servers, in the words of docs/failures.md.
func waits(err error) string {
	first, later := wire.OutlookOf(err).Words()
	if errors.Is(err, errSlow) {
		first, later = wire.Passes.Words()
	}
	if first == later {
		return "with a majority of such servers Lock " + first
	}
	return "with a majority of such servers Lock " + first + ", or " + later + " if a majority has answered it before"
}

// explain says why a server cannot be used, and what to do.
func explain(f *facts) (what, fix string) {
	var refusal *nodeerr.ServerError
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var invalid *tls.CertificateVerificationError
	var late *lateError
	var slow interface{ Timeout() bool }
	text := printable(strings.NewReplacer("pool: ", "", "\n", "; ").Replace(f.err.Error())) // each server that was asked has a line
	ping := "redis-cli -s " + f.addr + " PING"
	if f.to.Finder != nil {
		ping = "redis-cli PING"
	} else if host, port, err := net.SplitHostPort(f.addr); err == nil && f.to.Network != "unix" {
		ping = fmt.Sprintf("redis-cli -h %s -p %s PING", host, port)
	}
	switch err := f.err; {
	case errors.As(err, new(*inquiry.Error)):
		return text, guideFix(f, err)
	case errors.As(err, &refusal):
		return explainRefusal(refusal, f)
	case errors.As(err, &dns):
		return text, "correct the host name in the URL, or the DNS"
	case errors.As(err, &invalid):
		return text, "renew the certificate of the server, name the host as the certificate does, or give its authority with --tls-ca"
	case errors.As(err, &record):
		return "the server does not speak TLS", "use redis:// or valkey:// in the URL, or set tls-port on the server"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there", "start the server, or correct host and port in the URL; on its machine: " + ping
	case errors.Is(err, errSlow):
		return text, "look for slow commands and forks on the server: SLOWLOG GET, LATENCY LATEST"
	case errors.As(err, &late), errors.As(err, &slow) && slow.Timeout():
		fix := "look for a server that hangs, a firewall or a slow network; or give a longer --timeout. On its machine: " + ping
		if f.to.TLS != nil {
			fix += ". Or use redis:// or valkey:// in the URL if the port does not speak TLS"
		}
		if late == nil { // the system has given up before
			return "no answer (" + text + ")", fix
		}
		return fmt.Sprintf("no answer within %s (%s)", late.within, text), fix
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the server closes the connection at once (" + text + ")", "use rediss:// or valkeys:// in the URL if the port speaks TLS only; otherwise read the log of the server"
	case errors.Is(err, nodeerr.ErrSentinel):
		return "it is a Sentinel, which watches servers and holds no locks",
			"name a server that holds data in the URL; redis-cli ROLE tells them apart. Servers that replicate each other count as one node"
	case errors.Is(err, nodeerr.ErrProtocol):
		return text, "correct the URL: it leads to something else than Redis, or to a port that speaks TLS only (rediss://, valkeys://)"
	}
	return text, "correct the URL, the network or the server"
}

func explainRefusal(refusal *nodeerr.ServerError, f *facts) (what, fix string) {
	said := printable(refusal.Error())
	switch refusal.Code {
	case "NOAUTH":
		return said, "put the user and the password into the URL, or set $REDLOCK_USERNAME and $REDLOCK_PASSWORD"
	case "WRONGPASS":
		return said, "correct the user or the password; on the server: ACL GETUSER " + f.user
	case "DENIED":
		return "DENIED: protected mode: the default user has no password, so the server rejects connections from other hosts",
			"CONFIG SET requirepass SECRET (also in the file), also if the programs log in as another user"
	case "NOPERM":
		return said, aclFix(f, connectionLine, "")
	case "BUSY":
		return said, "SCRIPT KILL, or wait until the script has ended; keep slow scripts away from the server"
	}
	if strings.Contains(refusal.Message, "max number of clients") {
		return said, fixMaxClients
	}
	return said, "correct the server or the URL"
}

func encrypted(_ *examination, f *facts) []Finding {
	if f.to.TLS != nil || f.to.Network == "unix" || f.ip == nil || f.ip.IsLoopback() {
		return nil
	}
	what := "the connection is not encrypted"
	if f.to.Password != "" || f.to.Credentials != nil {
		what += ", and the password is sent in the clear"
	}
	return warning(what, "set tls-port, tls-cert-file and tls-key-file on the server, and rediss:// or valkeys:// in the URLs")
}

// expiresSoon is how long a certificate should last at least.
const expiresSoon = 14 * 24 * time.Hour

func expiring(_ *examination, f *facts) []Finding {
	if f.cert == nil {
		return nil
	}
	left, at := time.Until(f.cert.NotAfter), f.cert.NotAfter.UTC().Format(time.DateTime+" MST")
	return warningIf(left <= expiresSoon, fmt.Sprintf("the certificate of the server expires in %.1f days, at %s", left.Hours()/24, at),
		"renew it, then CONFIG SET tls-cert-file PATH to load it")
}

func proxy(_ *examination, f *facts) []Finding {
	for _, id := range f.runIDs {
		if id != f.runIDs[0] {
			return fault(fmt.Sprintf("different servers answer: run_id %s and %s", quoted(f.runIDs[0]), quoted(id)),
				"let the URL name the server itself, not a proxy or load balancer over several")
		}
	}
	for _, id := range f.clients {
		if id != f.clients[0] {
			return fault("a proxy spreads the commands of one connection over several: CLIENT ID was first "+strconv.FormatInt(f.clients[0], 10)+", then "+strconv.FormatInt(id, 10),
				"let the URL name the server itself, or a proxy that forwards whole connections (TCP)")
		}
	}
	return nil
}

// hangUps is about what is asked in a greeting.
func hangUps(x *examination, f *facts) []Finding {
	asks := slices.DeleteFunc(slices.Clone(f.hangUps), func(command string) bool { return !slices.Contains([]string{"HELLO", "INFO", "CLIENT"}, command) })
	const fix = "let the URL name the server itself, or a proxy that forwards whole connections (TCP)"
	what := "the connection is closed on " + strings.Join(asks, ", ")
	switch {
	case len(asks) == 0:
		return nil
	case x.guarded(f) && !slices.Equal(asks, []string{"HELLO"}):
		return fault(what+": with the restart guard the node never grants locks", fix)
	}
	return warning(what, fix)
}

func identity(x *examination, f *facts) []Finding {
	const fix = "use a service whose INFO shows run_id and master_replid of the process that holds the data"
	switch {
	case x.guarded(f) && !f.identified():
		return fault("the server does not report which one it is (run_id and master_replid): with the restart guard it never grants locks", fix)
	case f.runID() == "":
		return warning("the server does not report a run_id: nobody notices if it is replaced, or configured twice", fix)
	}
	return nil
}

var majorMinor = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})`)

// version returns the name and the version of the server; "" if it does not report them.
func (f *facts) version() string {
	if v := f.info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	if v := f.info["redis_version"]; v != "" {
		return "Redis " + v
	}
	return ""
}

func (f *facts) tooOld() bool {
	match := majorMinor.FindStringSubmatch(f.info["redis_version"])
	if match == nil || f.info["valkey_version"] != "" {
		return false
	}
	major, _ := strconv.Atoi(match[1])
	minor, _ := strconv.Atoi(match[2])
	return major < 6 || major == 6 && minor < 2
}

func resp3(_ *examination, f *facts) []Finding {
	if f.resp3 == nil || errors.Is(f.resp3, errHangsUp) {
		return nil
	}
	return warning("the server rejects HELLO 3: "+quoted(f.resp3.Error()),
		"ACL SETUSER "+f.user+" +hello, or remove the proxy or the rename-command that prevents it")
}
