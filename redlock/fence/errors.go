package fence

import (
	"errors"
	"fmt"
	"strconv"
)

// maxToken is the highest fencing token. Lua and JavaScript count in doubles, which are exact up to here.
const maxToken = 1<<53 - 1

// The errors that calls return, alone or wrapped: compare with [errors.Is]. An error that is none of them names an argument that
// cannot be right, or comes from the driver.
var (
	// ErrStale: a holder with a higher token has been here. Nothing was written. Do not try again: the lock is lost.
	ErrStale = errors.New("a newer holder has been here")
	// ErrConflict: another client changed a watched key before EXEC. Nothing was written. Try again, with the same token.
	ErrConflict = errors.New("a watched key was changed by another client")
	// ErrGuard: the guard key holds something that is no token. Nothing was written. Somebody else uses the key, or has broken it.
	ErrGuard = errors.New("the guard key holds no token")
)

// StaleError says which write came too late. It is [ErrStale] for [errors.Is].
type StaleError struct {
	Resource string // the resource, or the guard key
	Token    uint64 // the one that was refused
	Seen     uint64 // the highest one seen, above Token; 0: higher, but unknown (PostgreSQL and SQLite do not tell)
}

func (e *StaleError) Error() string {
	seen := ""
	if e.Seen != 0 {
		seen = fmt.Sprintf(", with token %d", e.Seen)
	}
	return fmt.Sprintf("fence: %q: token %d is stale: %v%s", e.Resource, e.Token, ErrStale, seen)
}

// Unwrap returns [ErrStale].
func (e *StaleError) Unwrap() error { return ErrStale }

// CheckToken returns nil for a token from 1 to 2^53-1, and an error that names it for any other. All functions of this package that take
// a token check it themselves; it is for statements of your own (see [Updated]), where the token 0 of a lock without fencing
// would pass a column that is still 0.
func CheckToken(token uint64) error {
	switch {
	case token == 0:
		return errors.New("fence: token 0: the lock was taken without fencing")
	case token > maxToken:
		return fmt.Errorf("fence: token %d: must be below 2^53", token)
	}
	return nil
}

// parseToken returns the token that text stands for, in the only form in which one is written: decimal, without sign or leading zeros.
func parseToken(text string) (token uint64, ok bool) {
	token, err := strconv.ParseUint(text, 10, 64)
	return token, err == nil && CheckToken(token) == nil && formatToken(token) == text
}

func formatToken(token uint64) string { return strconv.FormatUint(token, 10) }
