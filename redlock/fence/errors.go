package fence

import (
	"errors"
	"fmt"
	"strconv"
)

// maxFence is the highest fence. Lua and JavaScript count in doubles, which are exact up to here.
const maxFence = 1<<53 - 1

// The errors that calls return, alone or wrapped: compare with [errors.Is]. Any other error names a bad
// argument, or comes from the client or driver.
var (
	// ErrStale: the resource has accepted a higher fence, as the lock is lost. Nothing was written. Do not try
	// again with this lock; the next one has a higher fence.
	ErrStale = errors.New("fence: fence is stale")
	// ErrConflict: another client changed a watched key before EXEC. Nothing was written. Try again with the
	// same fence.
	ErrConflict = errors.New("fence: a watched key was changed")
	// ErrGuard: the guard key has the name of a lock's counter, holds something that is not a fence, or has a
	// TTL, after which any fence would pass. Nothing was written. Another program uses the key, or has given
	// it a TTL: see section Redis of the package documentation.
	ErrGuard = errors.New("fence: guard key cannot be used")
)

// StaleError says which fence was rejected. It is [ErrStale] for [errors.Is].
type StaleError struct {
	Resource string // the resource, or the guard key
	Fence    uint64 // the fence that was rejected
	Seen     uint64 // the highest fence accepted; 0 means unknown (PostgreSQL and SQLite do not return it)
}

func (e *StaleError) Error() string {
	seen := "the resource has seen a higher one"
	if e.Seen != 0 {
		seen = fmt.Sprintf("the resource has seen %d", e.Seen)
	}
	return fmt.Sprintf("fence: %q: fence %d is stale: %s", e.Resource, e.Fence, seen)
}

// Unwrap returns [ErrStale].
func (e *StaleError) Unwrap() error { return ErrStale }

// CheckFence returns an error if fence is not from 1 to 2^53-1. All functions of this package check that
// themselves, except [CheckUpdated], which does not see the fence: there the 0 of a lock without fencing
// would pass a column that is still 0.
func CheckFence(fence uint64) error {
	switch {
	case fence == 0:
		return errors.New("fence: fence 0: the lock was taken without fencing")
	case fence > maxFence:
		return fmt.Errorf("fence: fence %d: must be below 2^53", fence)
	}
	return nil
}

// parseFence accepts one form only: decimal, without sign or leading zeros.
func parseFence(text string) (fence uint64, ok bool) {
	fence, err := strconv.ParseUint(text, 10, 64)
	return fence, err == nil && CheckFence(fence) == nil && formatFence(fence) == text
}

func formatFence(fence uint64) string { return strconv.FormatUint(fence, 10) }
