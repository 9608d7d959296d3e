package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// givenUp is refused for a call that may be made after Close.
func givenUp(ctx context.Context, answers *QuorumError) error {
	var outage *outageError
	switch cause := context.Cause(ctx); {
	case ctx.Err() == nil, errors.Is(cause, errMaxWait):
		return answers
	case errors.As(cause, &outage):
		return outage.QuorumError
	}
	return &overError{ended(ctx), answers}
}

// overError is the error of a call whose context ended, with what the nodes had answered until then.
type overError struct {
	ended   error
	answers *QuorumError
}

func (e *overError) Error() string { return e.ended.Error() + ": " + e.answers.Error() }

func (e *overError) Unwrap() []error { return []error{e.ended, e.answers} }

// LogValue is as that of the QuorumError.
func (e *overError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Format has %+v reach the QuorumError.
func (e *overError) Format(s fmt.State, verb rune) {
	if verb == 'v' && s.Flag('+') {
		_, _ = fmt.Fprintf(s, "%v: %+v", e.ended, e.answers)
		return
	}
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), e.Error())
}

// ended is the error of a context that has ended, with its cause. That may be the end of another lock, or of another Locker, which
// must not be taken for the end of this one.
func ended(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case cause == ctx.Err(): //nolint:errorlint // the very error is meant
		return cause
	case errors.As(cause, new(*LockError)), errors.Is(cause, ErrClosed):
		return fmt.Errorf("%w (%v)", ctx.Err(), cause) //nolint:errorlint // see above
	default:
		return fmt.Errorf("%w (%w)", ctx.Err(), cause)
	}
}

// outageError is the cause of the context of a wait that an outage has ended.
type outageError struct{ *QuorumError }

// says reports whether an error, or a part of it, says what has become of a lock, and does not say it of another one.
func says(err error, name string, what error) bool {
	switch err := err.(type) { //nolint:errorlint // the tree is walked here
	case *LockError:
		return err.Name == name && errors.Is(err.Err, what)
	case *QuorumError:
		return err.Name == name && errors.Is(err.Reason, what)
	case *ran:
		return says(err.error, name, what)
	case interface{ Unwrap() error }:
		return says(err.Unwrap(), name, what)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(err.Unwrap(), func(part error) bool { return says(part, name, what) })
	}
	return errors.Is(err, what)
}

// notRun is an error that matches ErrNotRun too.
type notRun struct{ disguise }

func (e *notRun) Is(target error) bool { return target == ErrNotRun }

func (e *notRun) Unwrap() error { return e.error }

// ran is an error that does not match ErrNotRun, although a part of it does. So it must not have an Unwrap.
type ran struct{ disguise }

func (e *ran) Is(target error) bool { return target != ErrNotRun && errors.Is(e.error, target) }

func (e *ran) As(target any) bool { return errors.As(e.error, target) }

// disguise is an error that prints as the one within.
type disguise struct{ error }

// LogValue is as that of a QuorumError.
func (e disguise) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Format passes %+v on to a QuorumError.
func (e disguise) Format(s fmt.State, verb rune) {
	_, _ = fmt.Fprintf(s, fmt.FormatString(s, verb), e.error)
}
