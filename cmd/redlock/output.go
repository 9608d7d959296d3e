package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
)

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
