package pool_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

const (
	counterKey = "{key}:fence"
	keep       = 6 * time.Hour
	day        = 24 * time.Hour
)

// now is the time in the units of counters.
func now() uint64 { return uint64(time.Now().UnixMicro()) }

// at is what a node is told by one who reckons with some time.
func at(time uint64) pool.Counter { return pool.Counter{Keep: keep, Now: time} }

// granted sends an acquire, and returns what it was granted.
func granted(t testing.TB, node *pool.Node, token string, counter pool.Counter) uint64 {
	t.Helper()
	reply := ask(t, node, pool.AcquireFenced("key", token, ttl, counter))
	require.NoError(t, reply.Err)
	require.Equal(t, pool.Yes, reply.Answer)
	require.NotZero(t, reply.Number)
	return reply.Number
}

func fenced(token string, number uint64) string { return fmt.Sprintf("%s|%d", token, number) }

// number is what the counter on the server says; 0: it is not there.
func number(t testing.TB, server redistest.Server) uint64 {
	t.Helper()
	text := holds(t, server, counterKey)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

const second = 1_000_000

// promptly calls what has to be done while the server's clock is within a second of the time that it is called with, again
// if that took too long.
func promptly(t *testing.T, try func(now uint64) (want, got uint64), what string) {
	t.Helper()
	for {
		begin := time.Now()
		want, got := try(uint64(begin.UnixMicro()))
		if time.Since(begin) < 900*time.Millisecond {
			require.Equal(t, want, got, what)
			return
		}
	}
}

func TestACounterBeginsAtTheTimeOfTheClientsAndCountsOn(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node, begin := open(t, server.URL(), patient()), uint64(0)
		promptly(t, func(now uint64) (want, got uint64) {
			begin = now
			do(t, server, "DEL", "key", counterKey)
			return now + 1, granted(t, node, "first", at(now))
		}, "it begins")
		do(t, server, "DEL", "key")
		for i := range uint64(3) {
			i++
			token := fmt.Sprint("token-", i)
			require.Equal(t, begin+1+i, granted(t, node, token, at(begin)))
			require.Equal(t, fenced(token, begin+1+i), holds(t, server, "key"))
			require.Equal(t, begin+1+i, number(t, server))
			require.InDelta(t, ttl, left(t, server, "key"), float64(time.Minute))
			require.InDelta(t, keep+ttl, left(t, server, counterKey), float64(time.Minute))
			requireYes(t, node, pool.ReleaseFenced("key", token, begin+1+i, ttl))
		}
		do(t, server, "DEL", counterKey)
		granted(t, node, "last", pool.Counter{Keep: pool.DefaultKeep, Now: now()})
		require.InDelta(t, day+ttl, left(t, server, counterKey), float64(time.Minute))
	})
}

func TestACounterGoesForwardWhereItLiesBehind(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for _, tt := range []struct {
			what    string
			counter int64 // from now
			ask     pool.Counter
			floor   uint64 // from now
			want    int64  // from now
		}{
			{"by more than a second", -3 * second, pool.Counter{}, 0, 1},
			{"by less", -second / 2, pool.Counter{}, 0, -second/2 + 1},
			{"it is ahead", 7, pool.Counter{}, 0, 8},
			{"it is ahead by hours", 7200 * second, pool.Counter{}, 0, 7200*second + 1},
			{"by less, but in any case", -second / 2, pool.Counter{Forward: true}, 0, 1},
			{"it is ahead, and never goes back", 7, pool.Counter{Forward: true}, 0, 8},
			{"beyond the floor", 0, pool.Counter{}, 50, 51},
			{"beyond the floor already", 60, pool.Counter{}, 50, 61},
		} {
			promptly(t, func(now uint64) (want, got uint64) {
				do(t, server, "DEL", "key")
				do(t, server, "SET", counterKey, int64(now)+tt.counter, "EX", 60)
				ask := tt.ask
				ask.Keep, ask.Now = keep, now
				if tt.floor > 0 {
					ask.Floor = now + tt.floor
				}
				got = granted(t, node, "token", ask)
				require.Equal(t, got, number(t, server), tt.what)
				require.Equal(t, tt.ask.Forward || tt.floor > 0 || tt.counter < -second, left(t, server, counterKey) > time.Hour, "kept for longer where it goes forward")
				return uint64(int64(now) + tt.want), got
			}, tt.what)
		}
	})
}

// Whatever it is that a client takes for the time: no counter that goes forward lies behind the server's own clock for more than a second.
func TestACounterGoesToTheServersTimeWhereTheClientIsWrong(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for _, counter := range []uint64{0, now() - 3600*second} {
			for _, wrong := range []uint64{2 * second, now() - 3600*second, now() + 3600*second} {
				do(t, server, "DEL", "key", counterKey)
				if counter > 0 {
					do(t, server, "SET", counterKey, counter, "EX", 60)
				}
				before := now()
				got := granted(t, node, "token", pool.Counter{Keep: keep, Now: wrong, Forward: true})
				require.Greater(t, got, before)
				require.LessOrEqual(t, got, now()+1)
			}
		}
	})
}

func TestWhoIsDeniedLeavesTheCounterAsItIs(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node, now := open(t, server.URL(), patient()), now()
		for _, holder := range []string{"other", "token", "token|5"} {
			for _, counter := range []uint64{0, now - 3, now - 50_000_000} {
				do(t, server, "SET", "key", holder)
				do(t, server, "DEL", counterKey)
				if counter > 0 {
					do(t, server, "SET", counterKey, counter, "EX", 60)
				}
				requireReply(t, pool.No, pool.ErrHeld, ask(t, node, pool.AcquireFenced("key", "token", ttl, at(now))))
				require.Equal(t, holder, holds(t, server, "key"))
				require.Equal(t, counter, number(t, server))
				if counter > 0 {
					require.Positive(t, left(t, server, counterKey))
				}
			}
		}
	})
}

func TestACounterThatIsNoneOrHasRunOutRefusesAndSetsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for _, text := range []string{"text", "1.5", "9007199254740991", "9223372036854775807"} {
			do(t, server, "SET", counterKey, text)
			reply := ask(t, node, pool.AcquireFenced("key", "token", ttl, at(now())))
			requireServerError(t, reply, pool.Refused, "ERR")
			require.Empty(t, holds(t, server, "key"))
			require.Equal(t, text, holds(t, server, counterKey))
		}
		do(t, server, "SET", counterKey, 9007199254740990)
		require.EqualValues(t, 9007199254740991, granted(t, node, "token", at(now())), "the last one, to the digit")
		require.Equal(t, "token|9007199254740991", holds(t, server, "key"))
		do(t, server, "DEL", counterKey, "key")
		do(t, server, "LPUSH", counterKey, "somebody's data")
		requireServerError(t, ask(t, node, pool.AcquireFenced("key", "token", ttl, at(now()))), pool.Refused, "WRONGTYPE")
		require.Empty(t, holds(t, server, "key"))
		do(t, server, "SET", "key", fenced("token", 5))
		for _, cmd := range []*pool.Command{pool.Raise("key", "token", 5, 7), pool.ExtendFenced("key", "token", 5, ttl, keep)} {
			requireServerError(t, ask(t, node, cmd), pool.Refused, "WRONGTYPE")
		}
		require.Equal(t, "list", do(t, server, "TYPE", counterKey))
		requireYes(t, node, pool.ReleaseFenced("key", "token", 7, ttl))
		require.Equal(t, "list", do(t, server, "TYPE", counterKey))
	})
}

func TestARaiseIsForExactlyWhatWasGranted(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for _, tt := range []struct {
			what, held, counter string
			answer              pool.Answer
			reason              error
			after               string
		}{
			{"what was granted", "token|5", "5", pool.Yes, nil, "9"},
			{"the counter is beyond", "token|5", "12", pool.Yes, nil, "12"},
			{"granted twice", "token|6", "6", pool.No, pool.ErrHeld, "6"},
			{"raised already", "token|9", "9", pool.No, pool.ErrHeld, "9"},
			{"without a number", "token", "5", pool.No, pool.ErrHeld, "5"},
			{"another's", "other|5", "5", pool.No, pool.ErrHeld, "5"},
			{"gone", "", "5", pool.No, pool.ErrAbsent, "5"},
			{"the counter is gone", "token|5", "", pool.No, pool.ErrAbsent, ""},
		} {
			do(t, server, "FLUSHALL")
			if tt.held != "" {
				do(t, server, "SET", "key", tt.held, "EX", 60)
			}
			if tt.counter != "" {
				do(t, server, "SET", counterKey, tt.counter, "EX", 3600)
			}
			reply := ask(t, node, pool.Raise("key", "token", 5, 9))
			require.Equal(t, tt.answer, reply.Answer, tt.what)
			require.Equal(t, tt.after, holds(t, server, counterKey), tt.what)
			if tt.reason != nil {
				require.ErrorIs(t, reply.Err, tt.reason, tt.what)
				require.Equal(t, tt.held, holds(t, server, "key"), tt.what)
				continue
			}
			require.Equal(t, "token|9", holds(t, server, "key"), tt.what)
			require.InDelta(t, time.Minute, left(t, server, "key"), float64(30*time.Second), "the TTL stays")
			require.InDelta(t, time.Hour, left(t, server, counterKey), float64(time.Minute), "that of the counter too")
		}
	})
}

// Trap 5, with a number behind the token: another's key is never taken for ours.
func TestOnlyTheTokenBeforeTheNumberIsReleasedAndExtended(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		commands := []*pool.Command{
			pool.ReleaseFenced("key", "token", 7, ttl), pool.ReleaseFenced("key", "token", 0, ttl),
			pool.ExtendFenced("key", "token", 7, ttl, keep), pool.RestoreFenced("key", "token", 7, ttl, keep),
		}
		for _, other := range []string{"other|7", "token", "token|", "token|7x", "token|7|8", "tokentoken|7", "|7", "to.*n|7", "token|-7"} {
			do(t, server, "SET", "key", other)
			for _, cmd := range commands {
				requireReply(t, pool.No, pool.ErrHeld, ask(t, node, cmd))
				require.Equal(t, other, holds(t, server, "key"))
				require.Negative(t, left(t, server, "key"))
			}
		}
		do(t, server, "DEL", "key")
		for _, cmd := range commands {
			if cmd == commands[2] {
				continue // plants
			}
			requireReply(t, pool.No, pool.ErrAbsent, ask(t, node, cmd))
		}
		require.Zero(t, number(t, server))
	})
}

func TestAReleaseWithFencingRaisesTheCounterWhereItIsBehind(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for _, tt := range []struct{ held, counter, after string }{
			{"token|7", "7", "7"}, {"token|7", "6", "6"}, // exactly ours: it has been there
			{"token|5", "5", "7"}, {"token|5", "9", "9"}, {"token|5", "", ""}, {"token|8", "8", "8"},
			{"other|5", "5", "7"}, {"", "5", "7"}, {"", "9", "9"}, {"", "", ""},
		} {
			do(t, server, "FLUSHALL")
			if tt.held != "" {
				do(t, server, "SET", "key", tt.held, "EX", 60)
			}
			if tt.counter != "" {
				do(t, server, "SET", counterKey, tt.counter, "EX", 3600)
			}
			ours := strings.HasPrefix(tt.held, "token")
			require.Equal(t, ours, ask(t, node, pool.ReleaseFenced("key", "token", 7, ttl)).Answer == pool.Yes)
			require.Equal(t, tt.held != "" && !ours, holds(t, server, "key") != "")
			require.Equal(t, tt.after, holds(t, server, counterKey), "%+v", tt)
			if tt.after != "" {
				require.InDelta(t, time.Hour, left(t, server, counterKey), float64(time.Minute))
			}
		}
	})
}

func TestAnExtensionWithFencingCarriesTheNumber(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for _, tt := range []struct{ held, counter, after string }{
			{"token|7", "7", "7"}, {"token|5", "5", "7"}, {"token|5", "9", "9"}, {"token|5", "", ""},
		} {
			do(t, server, "FLUSHALL")
			do(t, server, "SET", "key", tt.held, "EX", 60)
			if tt.counter != "" {
				do(t, server, "SET", counterKey, tt.counter, "EX", 60)
			}
			requireYes(t, node, pool.ExtendFenced("key", "token", 7, 10*ttl, keep))
			require.Equal(t, "token|7", holds(t, server, "key"))
			require.InDelta(t, 10*ttl, left(t, server, "key"), float64(time.Minute))
			require.Equal(t, tt.after, holds(t, server, counterKey), "%+v", tt)
			if tt.after != "" {
				require.InDelta(t, keep+10*ttl, left(t, server, counterKey), float64(time.Minute))
			}
			requireYes(t, node, pool.ExtendFenced("key", "token", 7, ttl, keep))
			require.InDelta(t, 10*ttl, left(t, server, "key"), float64(time.Minute), "never shorter")
			requireYes(t, node, pool.RestoreFenced("key", "token", 7, ttl, keep))
			require.InDelta(t, ttl, left(t, server, "key"), float64(time.Minute), "but by a restore")
		}
	})
}

func TestANodeThatHasForgottenAllIsGivenTheKeyAndACounterBeyondTheToken(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node, now := open(t, server.URL(), patient()), now()
		requireReply(t, pool.Planted, pool.ErrPlanted, ask(t, node, pool.ExtendFenced("key", "token", now+1_000_000_000, ttl, keep)))
		require.Equal(t, fenced("token", now+1_000_000_000), holds(t, server, "key"))
		require.Equal(t, now+1_000_000_000, number(t, server), "ahead of the server's clock")

		do(t, server, "FLUSHALL")
		requireReply(t, pool.Planted, pool.ErrPlanted, ask(t, node, pool.ExtendFenced("key", "token", 7, ttl, keep)))
		require.Equal(t, "token|7", holds(t, server, "key"))
		require.GreaterOrEqual(t, number(t, server), now, "behind it: no less than an acquire would begin with")

		do(t, server, "DEL", "key")
		do(t, server, "SET", counterKey, 9, "EX", 60)
		requireReply(t, pool.Planted, pool.ErrPlanted, ask(t, node, pool.ExtendFenced("key", "token", 7, ttl, keep)))
		require.EqualValues(t, 9, number(t, server), "what is there stays")
	})
}

func TestFencedCommandsOnTheWire(t *testing.T) {
	got := make(chan []string, 1)
	f := newFake(t, func(c *peer, args []string) string {
		if isScript(args) {
			got <- append([]string{"script"}, args[2:]...)
		}
		return likeRedis(c, args)
	})
	node := f.open(t, patient())
	for want, cmd := range map[string]*pool.Command{
		"script 2 k {k}:fence t 1000 5":                     pool.AcquireFenced("k", "t", time.Second, pool.Counter{Keep: day, Now: 5}),
		"script 2 k {k}:fence t 1000 5 60000":               pool.AcquireFenced("k", "t", time.Second, pool.Counter{Keep: time.Minute, Now: 5}),
		"script 2 k {k}:fence t 1000 5 86400000 3":          pool.AcquireFenced("k", "t", time.Second, pool.Counter{Keep: day, Now: 5, Floor: 3}),
		"script 2 k {k}:fence t 1000 5 86400000 0":          pool.AcquireFenced("k", "t", time.Second, pool.Counter{Keep: day, Now: 5, Forward: true}),
		"script 2 k {k}:fence t|5 t|7 7":                    pool.Raise("k", "t", 5, 7),
		"script 2 k {k}:fence t|7":                          pool.ReleaseFenced("k", "t", 7, ttl),
		"script 2 k {k}:fence t|0":                          pool.ReleaseFenced("k", "t", 0, ttl),
		"script 2 k {k}:fence t 7 1000 plant 60000":         pool.ExtendFenced("k", "t", 7, time.Second, time.Minute),
		"script 2 k {k}:fence t 7 2 exact 60000":            pool.RestoreFenced("k", "t", 7, time.Millisecond+1, time.Minute),
		"script 2 k {k}:fence t 9007199254740991 1 plant 0": pool.ExtendFenced("k", "t", 1<<53-1, time.Millisecond, 0),
	} {
		requireYes(t, node, cmd)
		require.Equal(t, want, strings.Join(<-got, " "))
	}
}

func TestANumberThatNoCounterGivesIsNoYes(t *testing.T) {
	for _, reply := range []string{":0\r\n", ":-1\r\n", ":9007199254740992\r\n", "+OK\r\n", "$1\r\n5\r\n"} {
		f := newFake(t, answering("EVAL", reply))
		got := ask(t, f.open(t, patient()), pool.AcquireFenced("k", "t", ttl, at(5)))
		requireReply(t, pool.Maybe, pool.ErrProtocol, got)
	}
}
