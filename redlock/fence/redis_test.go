package fence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/redlock/fence"
)

const highest uint64 = 1<<53 - 1

func TestRedis_RejectsALowerFence(t *testing.T) {
	eachForm(t, func(t *testing.T, write write) {
		c := alone(t)
		require.NoError(t, write(c, 33, "first"))
		require.NoError(t, write(c, 34, "second"))
		requireStale(t, write(c, 33, "late"), guard, 33, 34)
		require.Equal(t, []string{"first", "second"}, c.written(t))
		require.Equal(t, "34", c.get(t, guard))
	})
}

func TestRedis_AcceptsTheSameFenceAgain(t *testing.T) {
	eachForm(t, func(t *testing.T, write write) {
		c := alone(t)
		for _, text := range []string{"a", "b", "c"} {
			require.NoError(t, write(c, 33, text))
		}
		require.Equal(t, []string{"a", "b", "c"}, c.written(t))
	})
}

func TestRedis_ComparesLargeFencesAsNumbersAndExactly(t *testing.T) {
	eachForm(t, func(t *testing.T, write write) {
		c := alone(t)
		for _, number := range []uint64{1, 9, 10, 99_999_999_999_999, 1e15, 1e15 + 1, highest - 1, highest} {
			text := strconv.FormatUint(number, 10)
			require.NoError(t, write(c, number, text))
			require.Equal(t, text, c.get(t, guard))
			if number > 1 {
				requireStale(t, write(c, number-1, "late"), guard, number-1, number)
			}
		}
	})
}

func TestRedis_TheGuardKeyHasNoTTL(t *testing.T) {
	eachForm(t, func(t *testing.T, write write) {
		c := alone(t)
		require.NoError(t, write(c, 33, "first"))
		ttl, err := redis.Int(c.Conn.Do("PTTL", guard))
		require.NoError(t, err)
		require.Equal(t, -1, ttl)
	})
}

func TestRedis_AGuardKeyWithoutAFenceStopsEveryWrite(t *testing.T) {
	eachForm(t, func(t *testing.T, write write) {
		c := alone(t)
		for _, held := range []string{
			"", "0", "-1", "+7", "007", "7.0", "1e3", "0x7", " 7", "7\n", "nan", "inf", "seven",
			"9007199254740992", "9007199254740993", "99999999999999999999",
		} {
			c.do(t, "SET", guard, held)
			err := write(c, highest, "lost")
			require.ErrorIs(t, err, fence.ErrGuard, "%q", held)
			require.ErrorContains(t, err, strconv.Quote(held))
			require.Equal(t, held, c.get(t, guard))
		}
		c.do(t, "DEL", guard)
		c.do(t, "RPUSH", guard, "a list")
		require.ErrorContains(t, write(c, highest, "lost"), `fence: "{account}:guard": WRONGTYPE`)
		require.Empty(t, c.written(t))
		c.do(t, "DEL", guard)
		require.NoError(t, write(c, 33, "the connection is as before"))
	})
}

// Neither the server nor the client copies megabytes of somebody's data to say that they are no fence.
func TestRedis_DoesNotCopyWhatIsNoFence(t *testing.T) {
	const size = 64 << 20
	eachForm(t, func(t *testing.T, write write) {
		c := alone(t)
		c.do(t, "SETRANGE", guard, size-1, "x")
		before := c.peak(t)
		require.ErrorIs(t, write(c, 33, "lost"), fence.ErrGuard)
		require.Less(t, c.peak(t)-before, size/2)
	})
}

// When the guard key expires, the fence of any earlier holder passes.
func TestRedis_AGuardKeyWithATTLStopsEveryWrite(t *testing.T) {
	eachForm(t, func(t *testing.T, write write) {
		c := alone(t)
		require.NoError(t, write(c, 33, "first"))
		for _, ttl := range []int64{3600, 9999999999} {
			c.do(t, "EXPIRE", guard, ttl)
			for _, number := range []uint64{1, 33, 34, highest} { // whether it would be stale or not
				err := write(c, number, "lost")
				require.ErrorIs(t, err, fence.ErrGuard)
				require.NotErrorIs(t, err, fence.ErrStale)
				require.ErrorContains(t, err, `"{account}:guard" has a TTL`)
				require.ErrorContains(t, err, "PERSIST")
			}
			require.Equal(t, "33", c.get(t, guard))
			left, err := redis.Int(c.Conn.Do("TTL", guard))
			require.NoError(t, err)
			require.Positive(t, left, "whose key it is, is not known: it stays as it is")
		}
		require.Equal(t, []string{"first"}, c.written(t))
		c.do(t, "PERSIST", guard)
		require.NoError(t, write(c, 34, "second"))
		requireStale(t, write(c, 33, "late"), guard, 33, 34)
	})
}

func TestRedis_TheCounterOfALockIsNoGuardKey(t *testing.T) {
	eachForm(t, func(t *testing.T, write write) {
		c := alone(t)
		for _, counter := range []string{"{account}:fence", "{{account}:7}:fence", "{}:fence"} {
			err := write(c.guardedBy(counter), 33, "lost")
			requireInvalid(t, err, "guard key "+strconv.Quote(counter)+" is the counter of a lock, which expires: choose another name")
		}
		require.Empty(t, c.sent)
		for _, name := range []string{"account:fence", "{account}fence", "{account}:fences", ":fence", "x{account}:fence"} {
			require.NoError(t, write(c.guardedBy(name), 33, name))
		}
	})
}

// The list on the server has the writes that passed, in their order.
func TestRedis_AcceptedFencesNeverDecreaseUnderConcurrentWrites(t *testing.T) {
	const writers, writes = 8, 40
	eachForm(t, func(t *testing.T, write write) {
		server := testredis.Real(t, 1)[0]
		var passed, stale sync.Map
		var all sync.WaitGroup
		for i := range writers {
			c := connect(t, server)
			all.Go(func() {
				dice := rand.New(rand.NewPCG(uint64(i), 1))
				for j := range writes {
					number := 1 + uint64(j)/4 + dice.Uint64N(10)
					id := strconv.FormatUint(number, 10) + " " + strconv.Itoa(i*writes+j)
					err := write(c, number, id)
					for errors.Is(err, fence.ErrConflict) {
						err = write(c, number, id)
					}
					var refused *fence.StaleError
					switch {
					case err == nil:
						passed.Store(id, true)
					case errors.As(err, &refused):
						stale.Store(id, true)
						assert.Greater(t, refused.Seen, number)
					default:
						assert.NoError(t, err)
					}
				}
			})
		}
		all.Wait()

		written := connect(t, server).written(t)
		var fences []uint64
		for _, id := range written {
			text, _, _ := strings.Cut(id, " ")
			number, err := strconv.ParseUint(text, 10, 64)
			require.NoError(t, err)
			fences = append(fences, number)
			_, ok := passed.LoadAndDelete(id)
			require.True(t, ok, "%s was written, but its writer got no nil", id)
		}
		require.True(t, slices.IsSorted(fences), "%v", fences)
		passed.Range(func(id, _ any) bool {
			t.Errorf("%s is not there, but its writer got nil", id)
			return true
		})
		refused := 0
		stale.Range(func(any, any) bool { refused++; return true })
		require.Equal(t, writers*writes, len(fences)+refused)
		require.NotZero(t, refused, "no write was stale")
	})
}

func TestRedis_SendsEveryCommandWithTheContextOfTheCaller(t *testing.T) {
	type key struct{}
	eachFormIn(t, func(t *testing.T, form form) {
		c := alone(t)
		c.asked = func(ctx context.Context) context.Context {
			assert.Equal(t, "caller", ctx.Value(key{}), "%q", c.sent)
			return ctx
		}
		ctx := context.WithValue(t.Context(), key{}, "caller")
		require.NoError(t, form(ctx, c, 34, "first"))
		requireStale(t, form(ctx, c, 33, "late"), guard, 33, 34)
	})
}

// The context ends before each of the commands in turn. The client sends what it is given nevertheless, as go-redis does.
func TestRedis_WritesNothingAfterTheContextHasEnded(t *testing.T) {
	eachFormIn(t, func(t *testing.T, form form) {
		c, other := twoClients(t)
		for at := 0; at <= 1+len(c.sent); at++ {
			c.do(t, "FLUSHALL")
			ctx, cancel := context.WithCancel(t.Context())
			c.asked = func(context.Context) context.Context {
				if len(c.sent) == at {
					cancel()
				}
				return context.WithoutCancel(ctx)
			}
			if at == 0 {
				cancel()
			}
			c.sent = nil
			err := form(ctx, c, 33, "text")
			cancel()
			if err == nil {
				require.Equal(t, []string{"text"}, c.written(t))
			} else {
				require.ErrorIs(t, err, context.Canceled)
				require.Empty(t, c.get(t, guard), "%q", c.sent)
			}
			require.Subset(t, []string{"RPUSH", "UNWATCH", "DISCARD"}, c.sent[min(at, len(c.sent)):], "RPUSH is the caller's")
			requireFree(t, c, other)
		}
		require.NotEmpty(t, c.written(t), "the last time the context has not ended")
	})
}

func TestRun_ReturnsTheReplyToEachCommand(t *testing.T) {
	c := alone(t)
	replies, err := fence.Run(t.Context(), c, guard, 33,
		fence.Command{"SET", fence.Key("a"), "text"},
		fence.Command{"GET", fence.Key("nothing")},
		fence.Command{"INCRBY", fence.Key("n"), 5},
		fence.Command{"MGET", fence.Key("a"), fence.Key("nothing"), fence.Key("n")},
		fence.Command{"GET", "a"})
	require.NoError(t, err)
	require.Equal(t, []any{"OK", nil, int64(5), []any{[]byte("text"), nil, []byte("5")}, []byte("text")}, replies)
}

func TestRun_WithoutCommandsShutsOutEarlierHolders(t *testing.T) {
	c := alone(t)
	replies, err := fence.Run(t.Context(), c, guard, 34)
	require.NoError(t, err)
	require.Empty(t, replies)
	_, err = fence.Run(t.Context(), c, guard, 33)
	requireStale(t, err, guard, 33, 34)
}

func TestRun_AFailedCommandEndsTheRunAndUndoesNothing(t *testing.T) {
	c := alone(t)
	c.do(t, "SET", "text", "no number")
	for _, failing := range []fence.Command{{"INCR", fence.Key("text")}, {"NOSUCHCOMMAND"}, {"SET", "too few"}} {
		c.do(t, "DEL", "before", "behind", guard)
		_, err := fence.Run(t.Context(), c, guard, 33,
			fence.Command{"SET", fence.Key("before"), 1}, failing, fence.Command{"SET", fence.Key("behind"), 1})
		var refusal redis.Error
		require.ErrorAs(t, err, &refusal)
		require.ErrorContains(t, err, "(command 2 of 3, "+failing[0].(string)+")")
		require.Equal(t, "1", c.get(t, "before"))
		require.Empty(t, c.get(t, "behind"))
		require.Equal(t, "33", c.get(t, guard))
	}
}

func TestRun_ACommandHasAtMostSevenThousandWords(t *testing.T) {
	c := alone(t)
	long := fence.Command{"SADD", fence.Key("set")}
	for i := len(long); i < 7000; i++ {
		long = append(long, i)
	}
	replies, err := fence.Run(t.Context(), c, guard, 33, fence.Command{"SET", "a", 1}, long, long)
	require.NoError(t, err)
	require.Equal(t, []any{"OK", int64(6998), int64(0)}, replies)

	_, err = fence.Run(t.Context(), c, guard, 34, fence.Command{"SET", "a", 2}, append(long, "one more"))
	require.ErrorContains(t, err, "command 2 of 2 has 7001 words")
	require.Equal(t, "1", c.get(t, "a"))
	require.Equal(t, "33", c.get(t, guard))
}

func TestRedis_AfterALostReplyTheSameFencePasses(t *testing.T) {
	for lost, write := range map[string]func(c *client) error{
		"EVALSHA": func(c *client) error {
			_, err := fence.Run(t.Context(), c, guard, 33, fence.Command{"RPUSH", fence.Key(record), "once"})
			return err
		},
		"EXEC": func(c *client) error {
			_, err := fence.Transact(t.Context(), c, guard, 33, func() error {
				_, err := c.Do(t.Context(), "RPUSH", record, "once")
				return err
			})
			return err
		},
	} {
		t.Run(lost, func(t *testing.T) {
			c := alone(t)
			require.NoError(t, write(c))
			c.lose = lost
			require.ErrorIs(t, write(c), errLost)
			require.Equal(t, []string{"once", "once"}, c.written(t))
			c.lose = ""
			require.NoError(t, write(c))
		})
	}
}
