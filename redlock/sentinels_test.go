package redlock_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/redlock"
)

// Of two errors that a program compares with, only these match each other.
func TestErrors_MatchEachOther(t *testing.T) {
	t.Parallel()
	all := map[string]error{
		"ErrTaken": redlock.ErrTaken, "ErrForeign": redlock.ErrForeign, "ErrDeadlock": redlock.ErrDeadlock, "ErrNoQuorum": redlock.ErrNoQuorum,
		"ErrNotHeld": redlock.ErrNotHeld, "ErrReleased": redlock.ErrReleased,
		"ErrLost": redlock.ErrLost, "ErrExpired": redlock.ErrExpired, "ErrGone": redlock.ErrGone,
		"ErrNotRun": redlock.ErrNotRun, "ErrInvalid": redlock.ErrInvalid, "ErrClosed": redlock.ErrClosed,
	}
	matches := map[string][]string{
		"ErrReleased": {"ErrNotHeld"},
		"ErrLost":     {"ErrNotHeld"},
		"ErrExpired":  {"ErrLost", "ErrNotHeld"},
		"ErrGone":     {"ErrLost", "ErrNotHeld"},
	}
	source, err := os.ReadFile("errors.go")
	require.NoError(t, err)
	for _, declared := range regexp.MustCompile(`(?m)^\t(Err\w+) `).FindAllStringSubmatch(string(source), -1) {
		require.Contains(t, all, declared[1])
	}
	for name, err := range all {
		for target, other := range all {
			want := name == target || slices.Contains(matches[name], target)
			require.Equal(t, want, errors.Is(err, other), "errors.Is(%s, %s)", name, target)
		}
	}
}
