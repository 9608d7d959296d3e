package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// eternity is far above the time that any test takes.
const eternity = time.Hour

// real5 starts five servers, and returns the flags for them too: a node may take its time.
func real5(t *testing.T) (servers []*testredis.Process, flags []string) {
	t.Helper()
	servers = testredis.Real(t, 5)
	return servers, []string{"--nodes=" + strings.Join(testredis.URLs(servers), ","), "--timeout=10s"}
}

// with returns a command line.
func with(flags []string, args ...string) []string { return append(args, flags...) }

// succeed runs a command line, which has to succeed and say nothing on stderr, and returns what it prints.
func succeed(t *testing.T, flags []string, args ...string) string {
	t.Helper()
	code, out, errors := call(t.Context(), with(flags, args...)...)
	require.Zero(t, code, "%s: %s", args, errors)
	require.Empty(t, errors, args)
	return out
}

// refused runs a command line, which has to fail with a code, and returns what it prints on stderr.
func refused(t *testing.T, code int, flags []string, args ...string) string {
	t.Helper()
	got, out, errors := call(t.Context(), with(flags, args...)...)
	require.Equal(t, code, got, "%s: %s%s", args, out, errors)
	return errors
}

// decoded returns a JSON document.
func decoded[T any](t *testing.T, document string) (to T) {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(document))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&to), document)
	require.False(t, in.More(), document)
	return to
}

// steady returns words in one line, with T for each time in minutes or hours.
func steady(text string) string {
	return timesLeft.ReplaceAllString(strings.Join(strings.Fields(text), " "), "T")
}

var timesLeft = regexp.MustCompile(`\b\d+[hm][0-9hms.]*`)

// do runs a command on some of the servers.
func do(t *testing.T, on []*testredis.Process, cmd string, args ...any) {
	t.Helper()
	for _, s := range on {
		_, err := s.Do(cmd, args...)
		require.NoError(t, err)
	}
}

// each does something with some of the servers.
func each(servers []*testredis.Process, do func(*testredis.Process)) {
	for _, s := range servers {
		do(s)
	}
}

// values returns what the servers hold under a key.
func values(t *testing.T, on []*testredis.Process, key string) (all []string) {
	t.Helper()
	for _, s := range on {
		value, err := redis.String(s.Do("GET", key))
		if err != redis.ErrNil { //nolint:errorlint // it comes as it is
			require.NoError(t, err)
		}
		all = append(all, value)
	}
	return all
}

// eventuallyHeld waits until all servers hold a value under a key.
func eventuallyHeld(t *testing.T, on []*testredis.Process, key, value string) {
	t.Helper()
	want := slices.Repeat([]string{value}, len(on))
	for began := time.Now(); time.Since(began) < 30*time.Second; <-time.After(time.Millisecond) {
		if slices.Equal(want, values(t, on, key)) {
			return
		}
	}
	require.Equal(t, want, values(t, on, key))
}
