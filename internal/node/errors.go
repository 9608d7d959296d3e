package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// AsError converts an error from outside to one that a node reports. Such errors come from a network, from redigo, or
// from a function of the program. The result matches no error of package context.
func AsError(err error) error {
	if reply := redis.Error(""); errors.As(err, &reply) {
		return wire.NewServerError(string(reply))
	}
	// redigo's protocol errors have no exported type. Its other errors are about the pool: closed, or exhausted.
	for _, of := range []string{"possible server error", "unexpected type"} {
		if text := err.Error(); strings.HasPrefix(text, "redigo: ") && strings.Contains(text, of) {
			return fmt.Errorf("%w: %w", nodeerr.ErrProtocol, err)
		}
	}
	op, is := err.(*net.OpError) //nolint:errorlint // the text of this very error is replaced
	if is && op.Source != nil && !ofContext(err) {
		return &brokenError{op}
	}
	if ofContext(err) {
		return &internalTimeout{err.Error(), withoutContext(err)}
	}
	return err
}

// brokenError is a network error of a connection that was made. Its text has no addresses: the error of a node names
// the server already, and the port on this side is another one each time.
type brokenError struct{ *net.OpError }

func (e *brokenError) Error() string {
	if call := (*os.SyscallError)(nil); errors.As(e.Err, &call) {
		return call.Error() // it begins with the operation too
	}
	return e.Op + ": " + e.Err.Error()
}

// Unwrap returns the network error.
func (e *brokenError) Unwrap() error { return e.OpError }

// internalTimeout is an error that came from the end of a context which is not the caller's. That is the context of an
// attempt to connect, or one of a dialer. Callers compare with the errors of package context to learn whether their own
// context has ended. So internalTimeout unwraps only to its parts that match none of these errors.
type internalTimeout struct {
	text  string
	parts []error
}

func (e *internalTimeout) Error() string { return e.text }

func (e *internalTimeout) Unwrap() []error { return e.parts }

// Timeout reports true, as errors of package net do.
func (*internalTimeout) Timeout() bool { return true }

// plain reports whether an attempt to connect certainly costs little: the node uses no TLS, and has nobody to ask for
// the address.
func (n *Node) plain() bool {
	s := n.config.Server
	return s != nil && s.TLS == nil && s.Finder == nil
}

// cheap reports whether a failed attempt to connect has cost the server little: nobody accepted it, or it ended before
// TLS began. A name that is not found counts as costly, because of the name servers that were asked for it.
func (n *Node) cheap(err error) bool {
	var network net.Error
	switch {
	case errors.As(err, new(*nodeerr.ServerError)):
		// The server has logged the node in, or tried. Only a wrong server counts as cheap.
		return wire.Wrong(err)
	case errors.Is(err, nodeerr.ErrTimeout), errors.As(err, &network) && network.Timeout(),
		errors.As(err, new(*net.DNSError)), errors.Is(err, nodeerr.ErrProtocol), errors.Is(err, nodeerr.ErrOldServer):
		return false
	}
	dial := (*net.OpError)(nil)
	return n.plain() || n.server().Finder == nil && errors.As(err, &dial) && dial.Op == "dial"
}

// ofContext reports whether an error matches one of package context. Errors of package net match if a context ended the
// dial. The error of an I/O deadline (os.ErrDeadlineExceeded) does not match.
func ofContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// withoutContext returns the parts of an error that match no error of package context.
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
