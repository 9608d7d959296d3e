package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/cmd/redlock/internal/supervise"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// The exit codes are those of sysexits.h as far as it has one that fits. docs/tool.md lists them.
const (
	exitUsage       = 64 // the command line or the configuration is wrong
	exitUnavailable = 69 // too few nodes answered
	exitInternal    = supervise.CodeInternal
	exitOutput      = 74                 // the output could not be written
	exitTaken       = 75                 // another holds the lock
	exitLost        = supervise.CodeLost // also: the lock is not held by that token
	exitCannotRun   = supervise.CodeCannotRun
	exitNotFound    = supervise.CodeNotFound
	exitSignal      = 128
)

// exitCodes are what the manual says of them.
var exitCodes = []struct{ code, means string }{
	{"0", "success"},
	{"64", "the command line or the configuration is wrong, or the name is the key of data of another program"},
	{"69", "too few nodes answered, or too many are quarantined"},
	{"70", "another failure"},
	{"74", "the output could not be written"},
	{"75", "another holds the lock"},
	{"79", "the lock was lost, or is not held by the token"},
	{"126, 127", "\"run\": the program cannot be run; there is no such program"},
	{"1, 2", "\"doctor\": there are warnings; there are faults"},
	{"130, 143, ...", "128 + the number of the signal that interrupted the command"},
}

// exitError is an error that sets the exit code. The tool prints nothing if err is nil.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprint("exit code ", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// message returns what the tool says of an error; "" means nothing.
func message(err error) string {
	if exit := (*exitError)(nil); err == nil || errors.As(err, &exit) && exit.err == nil {
		return ""
	}
	return display.Error(err)
}

// usage makes an error about the command line or the configuration.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// interrupted is the cause of the end of the command's context if a signal has ended it.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string { return i.signal.String() }

// Signal implements [supervise.Interrupted].
func (i interrupted) Signal() os.Signal { return i.signal }

// held reports whether others hold so many nodes that this alone has prevented a majority. Otherwise nodes that did not answer have,
// and perhaps the few that are held are what is left of a lock.
func held(round *redlock.QuorumError) bool {
	n := 0
	for _, node := range round.Nodes {
		if errors.Is(node.Err, nodeerr.ErrHeld) || errors.Is(node.Err, nodeerr.ErrForeign) {
			n++
		}
	}
	return n > len(round.Nodes)-round.Need
}

// exitCode returns the exit code for an error of a command. What counts of a round is its outcome, and not what single nodes
// have said.
func exitCode(err error) int {
	var exit *exitError
	var by interrupted
	var lost *outputError
	if round := (*redlock.QuorumError)(nil); errors.As(err, &round) && !errors.As(err, &exit) && !errors.As(err, &by) && !errors.As(err, &lost) {
		switch {
		case errors.Is(err, nodeerr.ErrSameServer):
			return exitUsage
		case errors.Is(round.Reason, redlock.ErrTaken) && !held(round):
			return exitUnavailable
		}
		return exitCode(round.Reason)
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &lost):
		return lost.code()
	case errors.As(err, new(*kong.ParseError)), errors.Is(err, redlock.ErrForeign), errors.Is(err, redlock.ErrInvalid):
		return exitUsage
	case errors.As(err, &by):
		if number, isNumber := by.signal.(syscall.Signal); isNumber {
			return exitSignal + int(number)
		}
		return exitInternal
	case errors.Is(err, redlock.ErrNotHeld):
		return exitLost
	case errors.Is(err, redlock.ErrTaken), errors.Is(err, nodeerr.ErrNoExpiry):
		return exitTaken
	case errors.Is(err, redlock.ErrNoQuorum):
		return exitUnavailable
	}
	return exitInternal
}
