package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Outlook is whether it helps to wait, if a node has not done as it was asked for some reason.
type Outlook uint8

// Patience is how long a reason with the Outlook [MayPass] may last while no majority has answered yet.
const Patience = 10 * time.Second

// Outlooks, the best one first.
const (
	// NoFault means that the node has answered, or that nobody has waited for it.
	NoFault Outlook = iota
	// Passes means that the reason passes by itself, or when a server or a network is back.
	Passes
	// MayPass means that the reason may pass, but may also stay for good. It is taken to stay if it has lasted for
	// [Patience].
	MayPass
	// Stays means that the reason stays until an operator has acted.
	Stays
	// Final means that the reason never passes.
	Final
)

// words[o] is the reaction of Lock to a reason with Outlook o: before a majority has answered its Locker once, and
// afterwards.
var words = [...][2]string{
	NoFault: {"no fault", "no fault"},
	Passes:  {"waits", "waits"},
	MayPass: {"waits for 10 s", "waits"},
	Stays:   {"ends at once", "waits"},
	Final:   {"ends at once", "ends at once"},
}

// Words returns the reaction of Lock if such reasons leave no majority: before a majority has answered its Locker once,
// and afterwards.
func (o Outlook) Words() (first, later string) { return words[o][0], words[o][1] }

// passing is the codes of error replies that pass. A code that is not in the list does not pass.
var passing = []string{"LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "ASK", "MISCONF", "OOM", "NOREPLICAS"}

// Reasons is all reasons, in the words of docs/failures.md. The first one that matches an error is the reason of that
// error.
var Reasons = []struct {
	Name string
	Outlook
	is func(error) bool
}{
	{"data of another program under the name (`nodeerr.ErrForeign`)", Final, is(nodeerr.ErrForeign)},
	{"the node was closed (`nodeerr.ErrClosed`)", Final, is(nodeerr.ErrClosed)},
	{"an answer about the key, or none that was waited for: `ErrHeld`, `ErrAbsent`, `ErrNoExpiry`, `ErrRecreated`, `ErrQueued`, `ErrUnneeded`, `ErrUnanswered`",
		NoFault, is(
			nodeerr.ErrHeld, nodeerr.ErrAbsent, nodeerr.ErrNoExpiry, nodeerr.ErrRecreated,
			nodeerr.ErrQueued, nodeerr.ErrUnneeded, nodeerr.ErrUnanswered)},
	{"`" + strings.Join(passing, "`, `") + "`, too many clients (`maxclients`)",
		Passes, reply(func(e *nodeerr.ServerError) bool {
			return slices.Contains(passing, e.Code) || strings.Contains(e.Message, "max number of clients")
		})},
	{"`READONLY`: a failover may be under way",
		MayPass, reply(func(e *nodeerr.ServerError) bool { return e.Code == "READONLY" })},
	{"`MOVED`, `CLUSTERDOWN` of a node in a cluster (`redis+cluster://`): a failover or a resharding may be under way",
		Passes, func(err error) bool { return errors.As(err, new(*ClusterError)) }},
	{"any other error reply, such as `NOAUTH`, `WRONGPASS`, `NOPERM`, `MOVED`, `CLUSTERDOWN`, an unknown command",
		Stays, reply(func(*nodeerr.ServerError) bool { return true })},
	{"no answer of Redis (`nodeerr.ErrProtocol`)", Stays, is(nodeerr.ErrProtocol)},
	{"a server that is too old, is a Sentinel, or votes for another node already (`nodeerr.ErrOldServer`, `ErrSentinel`, `ErrSameServer`)",
		Stays, is(nodeerr.ErrOldServer, nodeerr.ErrSentinel, nodeerr.ErrSameServer)},
	{"TLS that fails: a certificate, a port without TLS, a handshake without an end", MayPass, ofTLS},
	{"a server that hangs, whose connection broke, or whose place another has taken: `nodeerr.ErrTimeout`, `ErrBroken`, `ErrSuspended`, `ErrOverloaded`",
		Passes, is(
			nodeerr.ErrTimeout, nodeerr.ErrBroken, nodeerr.ErrSuspended, nodeerr.ErrOverloaded, errAnother)},
	{"a quarantine that ends (`nodeerr.ErrQuarantined`)", Passes, func(err error) bool {
		var q *nodeerr.QuarantineError
		return errors.As(err, &q) && q.Err == nil
	}},
	{"the network: refused, no route, no such host, a timeout, a dialer that fails", Passes, ofNetwork},
	{"anything else: each connection is closed or reset in its greeting, a server that keeps no stamp, `pool.WithCredentials` fails",
		MayPass, func(error) bool { return true }},
}

// OutlookOf returns the Outlook of a reason.
func OutlookOf(err error) Outlook {
	if err == nil {
		return NoFault
	}
	for i := range Reasons {
		if Reasons[i].is(err) {
			return Reasons[i].Outlook
		}
	}
	return MayPass
}

// is returns a function that reports whether an error matches one of the sentinels.
func is(sentinels ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(sentinels, func(one error) bool { return errors.Is(err, one) })
	}
}

// reply returns a function that reports whether an error is an error reply that matches.
func reply(matches func(*nodeerr.ServerError) bool) func(error) bool {
	return func(err error) bool {
		var refusal *nodeerr.ServerError
		return errors.As(err, &refusal) && matches(refusal)
	}
}

// HandshakeError is the failure of a TLS handshake. A timeout is one too: a server that does not speak TLS may wait for
// the end of the line.
type HandshakeError struct{ Err error }

func (e *HandshakeError) Error() string { return "TLS handshake: " + e.Err.Error() }

// Unwrap returns Err.
func (e *HandshakeError) Unwrap() error { return e.Err }

// DialError is the failure of a dialer to reach the server. The dialer may be a function of the program.
type DialError struct{ Err error }

func (e *DialError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *DialError) Unwrap() error { return e.Err }

// ofTLS reports whether an error is about TLS. In TLS 1.3 a server tells that it refuses the certificate of a client, or the lack of
// one, after the handshake. The error of such an alert is known by its Op.
func ofTLS(err error) bool {
	var op *net.OpError
	return errors.As(err, new(*HandshakeError)) || errors.As(err, new(*tls.CertificateVerificationError)) ||
		errors.As(err, new(tls.RecordHeaderError)) || errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error")
}

// ofNetwork reports whether an error is that of an attempt to reach a server, or a timeout. It is false for a
// connection that was made and then reset before the greeting had ended. A port that only speaks TLS resets connections
// like that.
func ofNetwork(err error) bool {
	var op *net.OpError
	var timeout interface{ Timeout() bool }
	return errors.As(err, new(*DialError)) || errors.As(err, &timeout) && timeout.Timeout() ||
		errors.As(err, new(*net.DNSError)) ||
		errors.As(err, &op) && op.Op != "read" && op.Op != "write"
}
