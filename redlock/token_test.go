package redlock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
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

// The danger: somebody who reads the log releases the lock.
func TestToken_HidesItself(t *testing.T) {
	t.Parallel()
	const secret = "ABCDEFGH.secret"
	token := redlock.Token(secret)
	holder := redlock.Holder{Token: token, Metadata: "host-1", Nodes: 3}
	state := redlock.LockState{Name: "name", Holders: []redlock.Holder{holder}, Nodes: []redlock.NodeState{{Holders: []redlock.Holder{holder}}}}
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x", "%X", "%d", "%20s", "%.3s"} {
		require.Equal(t, "(token)", fmt.Sprintf(verb, token), verb)
		require.Empty(t, fmt.Sprintf(verb, redlock.Token("")), verb)
	}
	require.Equal(t, "(token)\n", fmt.Sprintln(token))
	require.Equal(t, "a (token) b\n", fmt.Sprintln("a", token, "b"))
	for _, value := range []any{holder, &holder, state, &state, state.Holders, map[redlock.Token]int{token: 1}, [1]redlock.Token{token}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			text := fmt.Sprintf(verb, value)
			require.NotContains(t, text, secret, verb)
			require.NotContains(t, text, fmt.Sprintf("%x", secret), verb)
		}
	}
	require.Contains(t, fmt.Sprintf("%+v", holder), "{Token:(token) Metadata:host-1 ")
	require.Equal(t, secret, string(token))
}

func TestToken_HidesItselfFromLogs(t *testing.T) {
	t.Parallel()
	const secret = "ABCDEFGH.secret"
	for name, test := range map[string]struct {
		handler   func(*bytes.Buffer) slog.Handler
		full, off string // how a token is shown, and how there being none
	}{
		"text": {func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) }, ` token=(token)`, ` token=""`},
		"JSON": {func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) }, `"token":"(token)"`, `"token":""`},
	} {
		for token, want := range map[redlock.Token]string{secret: test.full, "": test.off} {
			var log bytes.Buffer
			slog.New(test.handler(&log)).Info("line", "token", token)
			require.Contains(t, log.String(), want, name)
			require.NotContains(t, log.String(), secret, name)
		}
	}
	var log bytes.Buffer // a JSON handler shows all fields of a struct
	slog.New(slog.NewTextHandler(&log, nil)).Info("line", "holder", redlock.Holder{Token: secret})
	require.Contains(t, log.String(), "{Token:(token) ")
	require.NotContains(t, log.String(), secret)
}

// Whatever fails: no error, event or log line holds the token of a lock, in any kind and with each way to fail.
func TestToken_NoErrorNoEventAndNoLogLineHoldsIt(t *testing.T) {
	for kind, opts := range map[string][]redlock.LockOption{
		"exclusive": nil, "shared": {redlock.Shared()}, "slot": {redlock.Slots(1)},
	} {
		for fenced, lockerOpts := range map[string][]redlock.Option{"": nil, ", fenced": {redlock.WithFencing()}} {
			t.Run(kind+fenced, func(t *testing.T) {
				t.Parallel()
				c, said := onReal(t, 3).mayLeave(), &texts{}
				logger := slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
				locker := c.locker(append(lockerOpts, redlock.WithLogger(logger), redlock.WithObserver(said, (*recorder)(nil).Groups()...))...)
				ctx := t.Context()
				var secrets []string
				fail := func(err error) {
					t.Helper()
					require.Error(t, err)
					said.error(err)
				}
				hold := func(name string, more ...redlock.LockOption) *redlock.Lock {
					lock := must(locker.TryLock(ctx, name, append(more, opts...)...))(t)
					secrets = append(secrets, string(lock.Token()))
					return lock
				}
				lock := hold("name")
				fail(errOf(locker.TryLock(ctx, "name")))
				fail(errOf(locker.TryLock(ctx, "name", redlock.TokenSource(func() (string, error) { return string(lock.Token()), nil }))))
				for _, source := range []string{lock.Name() + "|" + string(lock.Token()), string(lock.Token()) + "\n", strings.Repeat(string(lock.Token()), 20)} {
					fail(errOf(locker.TryLock(ctx, "other", redlock.TokenSource(func() (string, error) { return source, nil }))))
					fail(errOf(locker.Attach(ctx, "other", redlock.Token(source))))
				}
				fail(errOf(locker.Attach(ctx, "free", lock.Token())))
				fail(lock.Extend(ctx, -1))
				state := must(locker.Inspect(ctx, "name"))(t)
				_, _ = fmt.Fprintf(said, "%+v %v\n", state, state.Holders)
				twin := must(locker.Attach(ctx, "name", lock.Token()))(t)
				fail(errOf(locker.Attach(ctx, "name", lock.Token()+"x")))
				unlock(t, twin)
				fail(lock.Unlock(ctx)) // its twin has released it
				fail(lock.Unlock(ctx))
				fail(errOf(lock.Detach(ctx)))

				forced := hold("forced", redlock.Metadata("host-1"))
				holders := must(locker.ForceUnlock(ctx, "forced"))(t)
				_, _ = fmt.Fprintf(said, "%+v\n", holders)
				eventually(t, func() bool { return forced.Err() != nil }, "the loss")
				fail(forced.Err())
				fail(forced.Extend(ctx, long))

				deleted := hold("deleted", redlock.RenewFor(redlock.NoLimit))
				c.doAll("FLUSHALL")
				fail(deleted.Extend(ctx, 2*long))
				fail(locker.Do(ctx, "done", func(ctx context.Context, lock *redlock.Lock) error {
					secrets = append(secrets, string(lock.Token()))
					c.doAll("FLUSHALL")
					return lock.Extend(ctx, 2*long)
				}, opts...))
				cut := hold("cut")
				kill(c.processes[1:]...)
				fail(cut.Unlock(briefly(t)))
				fail(errOf(locker.TryLock(briefly(t), "name", opts...)))
				require.NoError(t, locker.Close())
				require.GreaterOrEqual(t, len(secrets), 5)
				for i, secret := range secrets {
					_, random, _ := strings.Cut(secret, ".")
					secrets[i], _, _ = strings.Cut(random, ":") // the metadata is no secret
					require.NotEmpty(t, secrets[i])
				}
				said.requireNone(t, secrets...)
			})
		}
	}
}
