package redlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// The danger: a host name for a token. The clean-up of who was refused deletes the key of the holder.
func TestTokenSource_ThatRepeatsDeletesNothingWhereTheAnswerWasNo(t *testing.T) {
	t.Parallel()
	host := redlock.TokenSource(func() (string, error) { return "host-1", nil })
	for name, call := range map[string]func(t *testing.T, l *redlock.Locker, name string) (unlock func() error, err error){
		"Lock": func(t *testing.T, l *redlock.Locker, name string) (func() error, error) {
			lock, err := l.TryLock(t.Context(), name, host)
			return func() error { return lock.Unlock(t.Context()) }, err
		},
		"Shared": func(t *testing.T, l *redlock.Locker, name string) (func() error, error) {
			lock, err := l.TryLock(t.Context(), name, host, redlock.Shared())
			return func() error { return lock.Unlock(t.Context()) }, err
		},
		"Slots": func(t *testing.T, l *redlock.Locker, name string) (func() error, error) {
			lock, err := l.TryLock(t.Context(), name, host, redlock.Slots(2))
			return func() error { return lock.Unlock(t.Context()) }, err
		},
		"LockAll": func(t *testing.T, l *redlock.Locker, name string) (func() error, error) {
			locks, err := l.TryLockAll(t.Context(), []string{name, name + "-2"}, host)
			return func() error { return locks.Unlock(t.Context()) }, err
		},
	} {
		for kind, opts := range map[string][]redlock.Option{"plain": nil, "fenced": {redlock.WithFencing()}} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				c := onReal(t, 3)
				unlock, err := call(t, c.locker(opts...), "name")
				require.NoError(t, err)
				c.common("name") // a round is repeated if it is held on a bare majority
				_, err = call(t, c.locker(opts...), "name")
				requireIs(t, err, redlock.ErrTaken, nodeerr.ErrHeld)
				if name == "Lock" || name == "LockAll" { // those who share a lock are not looked for one by one
					require.ErrorIs(t, err, nodeerr.ErrOwnToken)
				}
				require.NoError(t, unlock(), "a majority held it until now")
			})
		}
	}
}
