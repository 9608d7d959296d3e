package node

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// ErrInvalid means that an argument of the program is wrong. Package redlock documents it for programs.
var ErrInvalid = errors.New("redlock: invalid argument")

// Invalid makes an [ErrInvalid] that says what is wrong.
func Invalid(format string, args ...any) error { return &invalidError{fmt.Errorf(format, args...)} }

type invalidError struct{ error }

func (e *invalidError) Is(target error) bool { return target == ErrInvalid }

func (e *invalidError) Unwrap() error { return errors.Unwrap(e.error) }

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
	"WRONGTYPE":   "the key holds data of another program, not a lock: it is left alone",
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

func newServerError(reply string) *nodeerr.ServerError {
	message, _, _ := strings.Cut(reply, repetition)
	message = message[:min(len(message), maxMessage)]
	message = message[len(inScript.FindString(message)):]
	code, _, _ := strings.Cut(message, " ")
	if forbidden.MatchString(message) {
		code = "NOPERM"
	}
	return &nodeerr.ServerError{Code: code, Message: message, Hint: hints[code]}
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
			return fmt.Errorf("%w: %w", nodeerr.ErrProtocol, err)
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
