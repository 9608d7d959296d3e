package wire

import (
	"errors"
	"regexp"
	"strings"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// hints is the explanation of a server's refusal by its code, in the words of a lock's user. The codes come from
// https://redis.io/docs/latest/develop/reference/protocol-spec/ and from the server's own messages.
var hints = map[string]string{
	"BUSY":        "a script blocks the server",
	"CLUSTERDOWN": "a cluster node without its cluster: nodes must be independent servers",
	"LOADING":     "the server is starting",
	"MASTERDOWN":  "the server is a replica whose master is gone: nodes must be independent masters",
	"MISCONF":     "the server cannot save to disk and refuses writes",
	"MOVED":       "a cluster node that does not own the key: nodes must be independent servers",
	"NOAUTH":      "the server asks for a password",
	"NOPERM":      "the ACL user may not do this",
	"NOREPLICAS":  "the server has too few replicas to accept writes",
	"NOSCRIPT":    "the server does not keep scripts",
	"OOM":         "the server is out of memory",
	"READONLY":    "the server is a replica: nodes must be independent masters",
	"WRONGPASS":   "the user name or password is wrong",
	"WRONGTYPE":   "the key holds data of another program, not a lock: it is left alone",
}

const (
	// maxMessage bounds how many bytes of a server's error are repeated.
	maxMessage = 512
	// repetition is the text behind which a server that does not know a command repeats its arguments. The command may be
	// AUTH.
	repetition = ", with args beginning with"
)

var (
	// forbidden matches the words of servers for the NOPERM of a command within a script.
	forbidden = regexp.MustCompile(`^(ERR )?(The user executing the script can't|ACL failure in script)`)
	// inScript matches the text that Redis 6.2 puts before the error of a command within a script.
	inScript = regexp.MustCompile(`^(ERR )?(Error running script \(call to \w+\): )?(@user_script: ?\d+: )+-?`)
	// coded matches the beginning of an error reply that has a code.
	coded = regexp.MustCompile(`^[A-Z]+ `)
)

// Wrong reports whether an answer shows that the server is the wrong one. It has become a replica, or is no longer the
// server of a cluster that has the slot.
func Wrong(err error) bool {
	refusal := (*nodeerr.ServerError)(nil)
	if !errors.As(err, &refusal) {
		return false
	}
	return refusal.Code == "READONLY" || refusal.Code == "MASTERDOWN" ||
		refusal.Code == "MOVED" && errors.As(err, new(*ClusterError))
}

// ClusterError is an error reply to a node of a cluster, see node.Server. The slot of the node has another server, or
// none at the moment. The server has done nothing.
type ClusterError struct{ *nodeerr.ServerError }

// Unwrap returns the error reply.
func (e *ClusterError) Unwrap() error { return e.ServerError }

// clusterHints takes the place of hints for a node of a cluster.
var clusterHints = map[string]string{
	"ASK":         "the slot is being moved to another server of the cluster",
	"CLUSTERDOWN": "the cluster is failing over, or lacks servers",
	"MOVED":       "another server of the cluster has the slot now",
	"TRYAGAIN":    "the slot is being moved to another server of the cluster",
}

// NotYet reports whether an answer shows that the server could not carry out a command at this time, because it is one
// of a cluster that is changing.
func NotYet(err error) bool { return errors.As(err, new(*ClusterError)) && !Wrong(err) }

// InCluster returns the reason of a reply to a node of a cluster. It is err itself, unless it is about the slot.
func InCluster(err error) error {
	refusal := (*nodeerr.ServerError)(nil)
	if !errors.As(err, &refusal) || clusterHints[refusal.Code] == "" {
		return err
	}
	e := *refusal
	e.Hint = clusterHints[e.Code]
	return &ClusterError{&e}
}

// NewServerError makes an error from the text of an error reply.
func NewServerError(reply string) *nodeerr.ServerError {
	message, _, _ := strings.Cut(reply, repetition)
	message = message[:min(len(message), maxMessage)]
	if before := inScript.FindString(message); before != "" {
		if message = message[len(before):]; !coded.MatchString(message) {
			message = "ERR " + message
		}
	}
	code, _, _ := strings.Cut(message, " ")
	if forbidden.MatchString(message) {
		code = "NOPERM"
	}
	return &nodeerr.ServerError{Code: code, Message: message, Hint: hints[code]}
}
