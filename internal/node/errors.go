package node

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// The reasons why a node did not do what it was asked to. Packages pool and redlock document them for programs.
var (
	ErrHeld        = errors.New("pool: another token holds the key")
	ErrNoExpiry    = errors.New("redlock: the key has no expiry")
	ErrForeign     = errors.New("redlock: the key holds somebody's data, not a lock")
	ErrAbsent      = errors.New("pool: the key does not exist")
	ErrRecreated   = errors.New("pool: the key did not exist and was re-created")
	ErrTimeout     = errors.New("pool: no answer in time")
	ErrSuspended   = errors.New("pool: not asked: older answers are overdue")
	ErrBusy        = errors.New("pool: not asked: too many commands under way")
	ErrBroken      = errors.New("pool: connection broken before the answer")
	ErrQuarantined = errors.New("pool: not asked: the server may have forgotten locks")
	ErrClosed      = errors.New("pool: node is closed")
	ErrProtocol    = errors.New("pool: not an answer of Redis")
	ErrOldServer   = errors.New("pool: the server is too old")
)

// QuarantineError is the refusal of a server in quarantine.
type QuarantineError struct {
	Left time.Duration // until the server is asked for locks again; 0 means for ever, as the server does not report its uptime
}

func (e *QuarantineError) Error() string {
	if e.Left == 0 {
		return ErrQuarantined.Error() + ": it does not report how long it has been up (INFO)"
	}
	return fmt.Sprintf("%v: asked again in %v", ErrQuarantined, e.Left.Round(time.Millisecond))
}

// Unwrap returns ErrQuarantined.
func (e *QuarantineError) Unwrap() error { return ErrQuarantined }

// ConnectError is the reason why there is no connection.
type ConnectError struct {
	Err error // a network error, a *ServerError such as NOAUTH, or ErrTimeout
}

func (e *ConnectError) Error() string {
	return "pool: not connected: " + strings.TrimPrefix(e.Err.Error(), "pool: ")
}

// Unwrap returns Err.
func (e *ConnectError) Unwrap() error { return e.Err }

// ServerError is an error reply of a server.
type ServerError struct {
	Code    string // the first word, for example READONLY
	Message string // the reply, without what it repeats of the command; only a remark if it repeats the password
}

func (e *ServerError) Error() string {
	if hint := hints[e.Code]; hint != "" {
		return fmt.Sprintf("%s (%s)", e.Message, hint)
	}
	return e.Message
}

// Is reports that a key of another type than a string is [ErrForeign].
func (e *ServerError) Is(target error) bool { return target == ErrForeign && e.Code == "WRONGTYPE" }

// hints explain a server's refusal in the words of a lock's user. The codes are those of
// https://redis.io/docs/latest/develop/reference/protocol-spec/ and of the server's own messages.
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
	"WRONGTYPE":   "the key holds somebody's data, not a lock: it is left alone",
}

const (
	// maxMessage bounds what is repeated of a server's error.
	maxMessage = 512
	// repetition is what follows in the error of a server that does not know a command, which may be AUTH: its arguments.
	repetition = ", with args beginning with"
)

var (
	// forbidden is how servers word the NOPERM of a command within a script.
	forbidden = regexp.MustCompile(`^(ERR )?(The user executing the script can't|ACL failure in script)`)
	// inScript is what Redis 6.2 puts before the error of a command within a script.
	inScript = regexp.MustCompile(`^(ERR )?(Error running script \(call to \w+\): )?(@user_script: ?\d+: )+-?`)
)

func newServerError(reply string) *ServerError {
	message, _, _ := strings.Cut(reply, repetition)
	message = message[:min(len(message), maxMessage)]
	message = message[len(inScript.FindString(message)):]
	code, _, _ := strings.Cut(message, " ")
	if forbidden.MatchString(message) {
		code = "NOPERM"
	}
	return &ServerError{Code: code, Message: message}
}

// asError turns what comes from outside, such as a network, redigo, or a function of the program, into the errors of this
// package.
func asError(err error) error {
	if reply := redis.Error(""); errors.As(err, &reply) {
		return newServerError(string(reply))
	}
	// redigo's protocol errors have no exported type. Its other errors are about the pool: closed, or exhausted.
	for _, of := range []string{"possible server error", "unexpected type"} {
		if text := err.Error(); strings.HasPrefix(text, "redigo: ") && strings.Contains(text, of) {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
	}
	if ofContext(err) {
		return &internalTimeout{err.Error(), withoutContext(err)}
	}
	return err
}

// internalTimeout is an error that came from the end of a context which is not the caller's: that of an attempt to connect, or one
// of a dialer. Callers compare with the errors of package context to learn whether their own has ended. So it unwraps only to
// those of its parts that match none of these.
type internalTimeout struct {
	text  string
	parts []error
}

func (e *internalTimeout) Error() string { return e.text }

func (e *internalTimeout) Unwrap() []error { return e.parts }

// ofContext reports whether an error matches one of package context. So do those of package net for dials that a context ended,
// but no I/O deadline (os.ErrDeadlineExceeded).
func ofContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// withoutContext returns the parts of an error that match none of package context.
func withoutContext(err error) (parts []error) {
	if err != nil && !ofContext(err) {
		return []error{err}
	}
	switch err := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Unwrap() error }:
		return withoutContext(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			parts = append(parts, withoutContext(one)...)
		}
	}
	return parts
}
