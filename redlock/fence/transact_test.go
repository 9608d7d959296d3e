package fence_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

// requireFree checks that the connection is in no transaction and watches nothing.
func requireFree(t *testing.T, c, other *client) {
	t.Helper()
	_, err := c.Conn.Do("EXEC")
	require.ErrorContains(t, err, "EXEC without MULTI")
	other.do(t, "APPEND", guard, "")
	other.do(t, "SET", "watched", "changed again")
	c.do(t, "MULTI")
	reply, err := c.Conn.Do("EXEC")
	require.NoError(t, err)
	require.NotNil(t, reply, "a key is still watched")
}

func twoClients(t *testing.T) (c, other *client) {
	t.Helper()
	server := testredis.Real(t, 1)[0]
	return connect(t, server), connect(t, server)
}

func TestTransact_AChangeOfAWatchedKeyIsAConflict(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, other *client){
		"a newer holder": func(t *testing.T, other *client) {
			_, err := fence.Run(t.Context(), other, guard, 34, fence.Command{"SET", "a", "newer"})
			require.NoError(t, err)
		},
		"a key of the caller": func(t *testing.T, other *client) { other.do(t, "SET", "watched", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			c, other := twoClients(t)
			c.do(t, "WATCH", "watched")
			replies, err := fence.Transact(t.Context(), c, guard, 33, func() error {
				change(t, other)
				_, err := c.Do(t.Context(), "SET", "a", "older")
				return err
			})
			require.ErrorIs(t, err, fence.ErrConflict)
			require.NotErrorIs(t, err, fence.ErrStale)
			require.Empty(t, replies)
			require.NotEqual(t, "older", c.get(t, "a"))
			require.NotEqual(t, "33", c.get(t, guard))
			requireFree(t, c, other)
		})
	}
}

// The first holder of all stores its fence between any two of the commands by which another reads the guard key.
func TestTransact_AGuardKeyThatAppearsIsAConflict(t *testing.T) {
	for after := range 4 {
		t.Run(strconv.Itoa(after), func(t *testing.T) {
			c, other := twoClients(t)
			sent := -1
			do := fence.DoFunc(func(ctx context.Context, command string, args ...any) (any, error) {
				reply, err := c.Do(ctx, command, args...)
				if sent++; sent == after {
					other.do(t, "SET", guard, 33)
				}
				return reply, err
			})
			replies, err := fence.Transact(t.Context(), do, guard, 33, func() error {
				_, err := c.Do(t.Context(), "SET", "a", "written")
				return err
			})
			require.ErrorIs(t, err, fence.ErrConflict)
			require.Empty(t, replies)
			require.Empty(t, c.get(t, "a"))
			requireFree(t, c, other)
		})
	}
}

func TestTransact_AfterAConflictWithANewerHolderTheFenceIsStale(t *testing.T) {
	c, other := twoClients(t)
	queue := func() error {
		_, err := fence.Run(t.Context(), other, guard, 34)
		return err
	}
	_, err := fence.Transact(t.Context(), c, guard, 33, queue)
	require.ErrorIs(t, err, fence.ErrConflict)
	_, err = fence.Transact(t.Context(), c, guard, 33, queue)
	requireStale(t, err, guard, 33, 34)
	requireFree(t, c, other)
}

func TestTransact_WritersWithTheSameFenceDoNotConflict(t *testing.T) {
	c, other := twoClients(t)
	_, err := fence.Run(t.Context(), c, guard, 33)
	require.NoError(t, err)
	replies, err := fence.Transact(t.Context(), c, guard, 33, func() error {
		if _, err := fence.Transact(t.Context(), other, guard, 33, func() error { return nil }); err != nil {
			return err
		}
		if _, err := fence.Run(t.Context(), other, guard, 33, fence.Command{"SET", "b", 1}); err != nil {
			return err
		}
		_, err := c.Do(t.Context(), "INCR", "a")
		return err
	})
	require.NoError(t, err)
	require.Equal(t, []any{int64(1)}, replies)
}

func TestTransact_ReturnsTheRepliesToTheQueuedCommands(t *testing.T) {
	c := alone(t)
	for range 2 { // the second time the fence is stored already
		require.NoError(t, c.Send("DEL", "n"))
		replies, err := fence.Transact(t.Context(), c, guard, 33, func() error {
			if err := c.Send("INCR", "n"); err != nil {
				return err
			}
			_, err := c.Do(t.Context(), "GET", "nothing")
			return err
		})
		require.NoError(t, err)
		require.Equal(t, []any{int64(1), nil}, replies)
	}
}

func TestTransact_AFailedCommandLeavesTheOthersDone(t *testing.T) {
	c, other := twoClients(t)
	c.do(t, "SET", "text", "no number")
	replies, err := fence.Transact(t.Context(), c, guard, 33, func() error {
		for _, key := range []string{"before", "text", "behind"} {
			if _, err := c.Do(t.Context(), "INCR", key); err != nil {
				return err
			}
		}
		return nil
	})
	var refusal redis.Error
	require.ErrorAs(t, err, &refusal)
	require.ErrorContains(t, err, `fence: "{account}:guard": command 2 of 3: ERR value is not an integer`)
	require.Len(t, replies, 3)
	require.Equal(t, "1", c.get(t, "before"))
	require.Equal(t, "1", c.get(t, "behind"))
	require.Equal(t, "33", c.get(t, guard))
	requireFree(t, c, other)
}

func TestTransact_WritesNothingIfQueueFails(t *testing.T) {
	c, other := twoClients(t)
	own := errors.New("changed my mind")
	_, err := fence.Transact(t.Context(), c, guard, 33, func() error {
		_, err := c.Do(t.Context(), "SET", "a", 1)
		return errors.Join(err, own)
	})
	require.ErrorIs(t, err, own)
	_, err = fence.Transact(t.Context(), c, guard, 33, func() error {
		_, err := c.Do(t.Context(), "SET", "too few")
		return err
	})
	require.ErrorContains(t, err, "wrong number of arguments")
	_, err = fence.Transact(t.Context(), c, guard, 33, func() error {
		_, _ = c.Do(t.Context(), "SET", "too few") // the caller does not look
		_, err := c.Do(t.Context(), "SET", "a", 1)
		return err
	})
	require.ErrorContains(t, err, "EXECABORT")
	require.Panics(t, func() {
		_, _ = fence.Transact(t.Context(), c, guard, 33, func() error { panic("out of order") })
	})
	require.Empty(t, c.get(t, "a"))
	require.Empty(t, c.get(t, guard))
	requireFree(t, c, other)
}

func TestTransact_DoesNotCallTheQueueOfAStaleHolder(t *testing.T) {
	c, other := twoClients(t)
	c.do(t, "SET", guard, 34)
	_, err := fence.Transact(t.Context(), c, guard, 33, func() error { panic("called") })
	requireStale(t, err, guard, 33, 34)
	c.do(t, "SET", guard, "garbage")
	_, err = fence.Transact(t.Context(), c, guard, 33, func() error { panic("called") })
	require.ErrorIs(t, err, fence.ErrGuard)
	requireFree(t, c, other)
}

// The context ends after Transact has looked at it and before the client does, which therefore does not send EXEC.
func TestTransact_AnExecThatIsNotSentLeavesNoTransaction(t *testing.T) {
	c, other := twoClients(t)
	ctx, cancel := context.WithCancel(t.Context())
	do := fence.DoFunc(func(ctx context.Context, command string, args ...any) (any, error) {
		if command == "EXEC" {
			cancel()
			return nil, ctx.Err()
		}
		return c.Do(ctx, command, args...)
	})
	_, err := fence.Transact(ctx, do, guard, 33, nothing)
	require.EqualError(t, err, `fence: "{account}:guard": context canceled`)
	requireFree(t, c, other)
}

func TestTransact_WaitsForOneSecondBehindItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		hanging := fence.DoFunc(func(ctx context.Context, command string, _ ...any) (any, error) {
			switch command {
			case "PTTL":
				return int64(-2), nil
			case "DISCARD":
				<-ctx.Done()
			}
			return "OK", ctx.Err()
		})
		start := time.Now()
		_, err := fence.Transact(ctx, hanging, guard, 33, func() error {
			cancel()
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, time.Since(start))
	})
}

// What is wrong with the guard key must not leave the caller's keys watched.
func TestTransact_AfterARefusedWatchNothingIsWatched(t *testing.T) {
	c, other := twoClients(t)
	c.do(t, "WATCH", "watched")
	c.do(t, "ACL", "SETUSER", "default", "-watch")
	_, err := fence.Transact(t.Context(), c, guard, 33, nothing)
	require.ErrorContains(t, err, "NOPERM")
	requireFree(t, c, other)
}
