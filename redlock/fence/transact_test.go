package fence_test

import (
	"errors"
	"strconv"
	"testing"

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
			_, err := fence.Run(other, guard, 34, fence.Command{"SET", "a", "newer"})
			require.NoError(t, err)
		},
		"a key of the caller": func(t *testing.T, other *client) { other.do(t, "SET", "watched", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			c, other := twoClients(t)
			c.do(t, "WATCH", "watched")
			replies, err := fence.Transact(c, guard, 33, func() error {
				change(t, other)
				_, err := c.Do("SET", "a", "older")
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
			do := fence.DoFunc(func(command string, args ...any) (any, error) {
				reply, err := c.Do(command, args...)
				if sent++; sent == after {
					other.do(t, "SET", guard, 33)
				}
				return reply, err
			})
			replies, err := fence.Transact(do, guard, 33, func() error {
				_, err := c.Do("SET", "a", "written")
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
		_, err := fence.Run(other, guard, 34)
		return err
	}
	_, err := fence.Transact(c, guard, 33, queue)
	require.ErrorIs(t, err, fence.ErrConflict)
	_, err = fence.Transact(c, guard, 33, queue)
	requireStale(t, err, guard, 33, 34)
	requireFree(t, c, other)
}

func TestTransact_WritersWithTheSameFenceDoNotConflict(t *testing.T) {
	c, other := twoClients(t)
	_, err := fence.Run(c, guard, 33)
	require.NoError(t, err)
	replies, err := fence.Transact(c, guard, 33, func() error {
		if _, err := fence.Transact(other, guard, 33, func() error { return nil }); err != nil {
			return err
		}
		if _, err := fence.Run(other, guard, 33, fence.Command{"SET", "b", 1}); err != nil {
			return err
		}
		_, err := c.Do("INCR", "a")
		return err
	})
	require.NoError(t, err)
	require.Equal(t, []any{int64(1)}, replies)
}

func TestTransact_ReturnsTheRepliesToTheQueuedCommands(t *testing.T) {
	c := alone(t)
	for range 2 { // the second time the fence is stored already
		require.NoError(t, c.Send("DEL", "n"))
		replies, err := fence.Transact(c, guard, 33, func() error {
			if err := c.Send("INCR", "n"); err != nil {
				return err
			}
			_, err := c.Do("GET", "nothing")
			return err
		})
		require.NoError(t, err)
		require.Equal(t, []any{int64(1), nil}, replies)
	}
}

func TestTransact_AFailedCommandLeavesTheOthersDone(t *testing.T) {
	c, other := twoClients(t)
	c.do(t, "SET", "text", "no number")
	replies, err := fence.Transact(c, guard, 33, func() error {
		for _, key := range []string{"before", "text", "behind"} {
			if _, err := c.Do("INCR", key); err != nil {
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
	_, err := fence.Transact(c, guard, 33, func() error {
		_, err := c.Do("SET", "a", 1)
		return errors.Join(err, own)
	})
	require.ErrorIs(t, err, own)
	_, err = fence.Transact(c, guard, 33, func() error {
		_, err := c.Do("SET", "too few")
		return err
	})
	require.ErrorContains(t, err, "wrong number of arguments")
	_, err = fence.Transact(c, guard, 33, func() error {
		_, _ = c.Do("SET", "too few") // the caller does not look
		_, err := c.Do("SET", "a", 1)
		return err
	})
	require.ErrorContains(t, err, "EXECABORT")
	require.Panics(t, func() {
		_, _ = fence.Transact(c, guard, 33, func() error { panic("out of order") })
	})
	require.Empty(t, c.get(t, "a"))
	require.Empty(t, c.get(t, guard))
	requireFree(t, c, other)
}

func TestTransact_DoesNotCallTheQueueOfAStaleHolder(t *testing.T) {
	c, other := twoClients(t)
	c.do(t, "SET", guard, 34)
	_, err := fence.Transact(c, guard, 33, func() error { panic("called") })
	requireStale(t, err, guard, 33, 34)
	c.do(t, "SET", guard, "garbage")
	_, err = fence.Transact(c, guard, 33, func() error { panic("called") })
	require.ErrorIs(t, err, fence.ErrGuard)
	requireFree(t, c, other)
}
