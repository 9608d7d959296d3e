package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

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

// waitOver returns the beginning of what is said of an error if a wait for a lock was over, and "" otherwise.
func waitOver(err error, wait time.Duration) string {
	if !errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	return fmt.Sprintf("the wait of %s is over: ", plain(wait))
}

// answersOf returns the part of an error that has the answers of the nodes, or all of it if no node was asked.
func answersOf(err error) error {
	if refusal := (*redlock.QuorumError)(nil); errors.As(err, &refusal) && errors.Is(err, context.DeadlineExceeded) {
		return refusal
	}
	return err
}

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
	var by supervise.Interrupted
	var lost *outputError
	if round := (*redlock.QuorumError)(nil); errors.As(err, &round) && !errors.As(err, &exit) && !errors.As(err, &by) && !errors.As(err, &lost) {
		switch {
		case errors.Is(err, redlock.ErrNotHeld): // if it is a loss, the round is the last renewal before
			return exitLost
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
	case errors.As(err, new(*kong.ParseError)), errors.Is(err, redlock.ErrForeign), errors.Is(err, redlock.ErrInvalid),
		errors.Is(err, supervise.ErrWithin):
		return exitUsage
	case errors.As(err, &by):
		if number, isNumber := by.Signal.(syscall.Signal); isNumber {
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

// output is what a command prints to. From the first write that fails on everything else is lost too, so that what did get through
// has no gaps, and the command is canceled.
type output struct {
	w      io.Writer
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	lost *outputError // nil while nothing is
}

// outputError is why the output of a command is not complete.
type outputError struct{ err error }

func (e *outputError) Error() string { return "the output could not be written: " + e.err.Error() }

func (e *outputError) Unwrap() error { return e.err }

// quiet reports whether nobody is told: the reader has seen enough, as in "| head -1". The exit code is that of a program that SIGPIPE
// ends.
func (e *outputError) quiet() bool { return errors.Is(e.err, syscall.EPIPE) }

func (e *outputError) code() int {
	if e.quiet() {
		return exitSignal + int(syscall.SIGPIPE)
	}
	return exitOutput
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost != nil {
		return 0, o.lost
	}
	n, err := o.w.Write(p)
	if err != nil {
		o.lost = &outputError{err}
		o.cancel(o.lost)
		return n, o.lost
	}
	return n, nil
}

// outcome returns the error of a command with what is to be said of its output. If the command has failed for another reason, that
// decides the exit code.
func (o *output) outcome(err error) error {
	o.mu.Lock()
	lost := o.lost
	o.mu.Unlock()
	var exit *exitError
	switch {
	case lost == nil:
		return err
	case lost.quiet() && (err == nil || errors.Is(err, lost)):
		return &exitError{lost.code(), nil}
	case err == nil:
		return lost
	case lost.quiet(), errors.Is(err, lost):
		return err
	case errors.As(err, &exit) && exit.err == nil:
		return &exitError{exit.code, lost}
	}
	return &exitError{exitCode(err), errors.Join(err, lost)}
}
