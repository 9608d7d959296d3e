package pool

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/pipeline"
)

// Reasons why a node did not say yes. They reach callers as the Err of a [Reply].
var (
	// ErrHeld: another token holds the key.
	ErrHeld = errors.New("held by another token")
	// ErrAbsent: the key is not there.
	ErrAbsent = errors.New("the key is not there")
	// ErrPlanted: the key was not there any more and has been given again.
	ErrPlanted = errors.New("the key was not there any more: given again")
	// ErrTimeout: no answer within the node timeout.
	ErrTimeout = pipeline.ErrTimeout
	// ErrSuspended: the node owes older answers that are overdue, so it was not asked.
	ErrSuspended = pipeline.ErrSuspended
	// ErrBusy: so many commands are under way on the node that it was not asked.
	ErrBusy = pipeline.ErrBusy
	// ErrBroken: the connection broke before the answer came.
	ErrBroken = pipeline.ErrBroken
	// ErrQuarantined: the server may have forgotten locks, so it was not asked for one, see [WithRestartGuard].
	ErrQuarantined = errors.New("not asked: the server may have forgotten locks")
	// ErrClosed: the node has been closed.
	ErrClosed = pipeline.ErrClosed
	// ErrProtocol: what came back is not an answer that Redis gives to the command.
	ErrProtocol = errors.New("not an answer of Redis")
)

// QuarantineError says for how long a server is not asked for locks. It is an ErrQuarantined.
type QuarantineError struct {
	Left time.Duration // from when it was not asked; 0: for ever, as the server does not tell its uptime
}

func (e *QuarantineError) Error() string {
	if e.Left == 0 {
		return ErrQuarantined.Error() + ": it does not tell how long it has been up (INFO)"
	}
	return fmt.Sprintf("%v: asked again in %v", ErrQuarantined, e.Left.Round(time.Millisecond))
}

// Unwrap returns ErrQuarantined.
func (e *QuarantineError) Unwrap() error { return ErrQuarantined }

// ConnectError says why there is no connection to a node.
type ConnectError struct {
	Err error // what went wrong: a network error, or a *ServerError such as NOAUTH
}

func (e *ConnectError) Error() string { return "not connected: " + e.Err.Error() }

// Unwrap returns Err.
func (e *ConnectError) Unwrap() error { return e.Err }

// ServerError is an error reply of a Redis server.
type ServerError struct {
	Code    string // the first word, e.g. "READONLY"
	Message string // the reply, without what it repeats of the command
}

func (e *ServerError) Error() string {
	if hint := hints[e.Code]; hint != "" {
		return fmt.Sprintf("%s (%s)", e.Message, hint)
	}
	return e.Message
}

// hints say in the words of a lock's user what a server's refusal means. The codes
// are those of https://redis.io/docs/latest/develop/reference/protocol-spec/ and
// of the server's own messages.
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
	"READONLY":    "the server is a read-only replica: nodes must be independent masters",
	"WRONGPASS":   "the user name or password is wrong",
	"WRONGTYPE":   "the key holds somebody's data, not a lock: it is left alone",
}

// inScript is how servers word the NOPERM of a command within a script.
var inScript = regexp.MustCompile(`^ERR (The user executing the script can't|ACL failure in script)`)

// asError turns what redigo reports into the errors of this package.
func asError(err error) error {
	if reply := redis.Error(""); errors.As(err, &reply) {
		// A server that does not know AUTH repeats the password.
		message, _, _ := strings.Cut(string(reply), ", with args beginning with")
		code, _, _ := strings.Cut(message, " ")
		if code == "ERR" && inScript.MatchString(message) {
			code = "NOPERM"
		}
		return &ServerError{Code: code, Message: message}
	}
	// redigo's protocol errors have no exported type. Its other errors are about the
	// pool: closed, or exhausted.
	for _, of := range []string{"possible server error", "unexpected type"} {
		if text := err.Error(); strings.HasPrefix(text, "redigo: ") && strings.Contains(text, of) {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
	}
	return err
}
