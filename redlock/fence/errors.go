package fence

import (
	"errors"
	"fmt"
	"strconv"
)

// maxFence is the highest fence. Lua and JavaScript count in doubles, which are exact up to here.
const maxFence = 1<<53 - 1

// The functions of this package return these errors, alone or wrapped: compare with [errors.Is]. With one of them
// nothing was written. Other errors are from your function, the client, the database or the context, or an unexpected
// reply.
var (
	// ErrStale means that the resource has accepted a higher fence: this lock is lost. Do not try again with it.
	ErrStale = errors.New("fence: fence is stale")
	// ErrConflict means that another client changed a watched key before EXEC. Try again with the same fence.
	ErrConflict = errors.New("fence: a watched key was changed")
	// ErrGuard means that the guard key holds a string that is no fence, or has a TTL: another program uses it.
	ErrGuard = errors.New("fence: guard key cannot be used")
	// ErrInvalid means that an argument is bad: the text names it. Nothing was sent.
	ErrInvalid = errors.New("fence: invalid argument")
)

// StaleError is the rejection of a fence. It matches [ErrStale].
type StaleError struct {
	Resource string // the name of the resource; on Redis, of its guard key
	Fence    uint64 // the fence that was rejected
	Seen     uint64 // the highest fence accepted, or 0 if unknown (PostgreSQL and SQLite do not return it)
}

func (e *StaleError) Error() string {
	seen := "the resource has seen a higher one"
	if e.Seen != 0 {
		seen = fmt.Sprintf("the resource has seen %d", e.Seen)
	}
	return fmt.Sprintf("fence: %q: fence %d is stale: %s", e.Resource, e.Fence, seen)
}

func (e *StaleError) Unwrap() error { return ErrStale }

// Valid returns an error that matches [ErrInvalid] if fence is not from 1 to 2^53-1. Call it before a conditional write
// of your own: otherwise 0 would pass where no fence is stored.
func Valid(fence uint64) error {
	switch {
	case fence == 0:
		return invalid("fence 0: the lock was taken without fencing")
	case fence > maxFence:
		return invalid("fence %d: must be below 2^53", fence)
	}
	return nil
}

// invalid returns an error about a bad argument.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// parseFence accepts one form only: decimal, without sign or leading zeros.
func parseFence(text string) (fence uint64, ok bool) {
	fence, err := strconv.ParseUint(text, 10, 64)
	return fence, err == nil && Valid(fence) == nil && formatFence(fence) == text
}

func formatFence(fence uint64) string { return strconv.FormatUint(fence, 10) }
