package node_test

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by their SHA-1
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// With a wrong hash every call would take two round trips, and nobody would notice.
func TestScript_HashIsThatOfTheSource(t *testing.T) {
	for name, script := range form.Scripts {
		sum := sha1.Sum([]byte(script.Source)) //nolint:gosec // see the import
		require.Equal(t, hex.EncodeToString(sum[:]), script.Hash, "the Hash of %s.lua", name)
	}
}

const (
	counterKey = "{key}:fence"
	keep       = 6 * time.Hour
	day        = 24 * time.Hour
)

// granted sends an acquire, and returns what it was granted.
func granted(t testing.TB, n *node.Node, token string, counter counted) uint64 {
	t.Helper()
	reply := ask(t, n, newAcquireFenced("key", token, ttl, counter))
	require.NoError(t, reply.Err)
	require.Equal(t, quorum.Yes, reply.Answer)
	require.NotZero(t, reply.Number)
	return reply.Number
}

// number is what the counter on the server holds; 0 means that it does not exist.
func number(t testing.TB, server testredis.Server) uint64 {
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
func promptly[T any](t *testing.T, try func(now uint64) (want, got T), what string) {
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

func TestScript_IsSentByItsSourceOnceAndByItsHashThen(t *testing.T) {
	server, n := openReal(t)
	const times = 50
	for range times {
		requireYes(t, n, newAcquire("key", "token", ttl))
		requireYes(t, n, newExtend("key", "token", 2*ttl))
		requireYes(t, n, newRelease("key", "token", ttl))
	}
	requireCalls(t, server, "eval", 2) // release and extend
	requireCalls(t, server, "evalsha", 2*times-2)
}

func TestScript_IsSentAgainToAServerThatForgotIt(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for range 5 {
			requireYes(t, n, newAcquire("key", "token", ttl))
			requireYes(t, n, newExtend("key", "token", 2*ttl))
			do(t, server, "SCRIPT", "FLUSH")
			requireYes(t, n, newRelease("key", "token", ttl))
			require.Empty(t, holds(t, server, "key"))
		}
	})
}

func TestScript_SourceIsSentEachTimeToAServerThatKeepsNone(t *testing.T) {
	f := newFake(t, answering("EVALSHA", "-NOSCRIPT No matching script. Please use EVAL.\r\n"))
	n := f.open(t, patient())
	for range 3 {
		for kind, cmd := range everyKind() {
			require.Equal(t, quorum.Yes, ask(t, n, cmd).Answer, kind)
		}
	}
}

// A release whose end was reported still has to be done; an extension must not come late.
func TestScript_AfterItsTimeoutOnlyAReleaseIsSentAgain(t *testing.T) {
	for _, kind := range []string{"release", "extend"} {
		cmd := everyKind()[kind]
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sources atomic.Int32
				f := newFake(t, func(c *peer, args []string) string {
					switch args[0] {
					case "EVALSHA":
						return ""
					case "EVAL":
						sources.Add(1)
					}
					return likeRedis(c, args)
				})
				n := f.open(t, withMaxOverdue(time.Hour))
				requireYes(t, n, cmd)
				require.EqualValues(t, 1, sources.Load())
				reply := send(n, cmd)
				requireReply(t, quorum.Unknown, nodeerr.ErrTimeout, reply.next(t))
				_, err := io.WriteString(f.peer(1), "-NOSCRIPT No matching script.\r\n")
				require.NoError(t, err)
				synctest.Wait()
				if kind == "release" {
					require.EqualValues(t, 2, sources.Load())
				} else {
					require.EqualValues(t, 1, sources.Load())
				}
				require.Empty(t, reply, "answered twice")
			})
		})
	}
}

// If the server asks for the script again: an acquire or an extension that went out behind its release would
// make a key that nobody knows of.
func TestScript_NothingThatCreatesTheKeyIsSentAgainBehindItsRelease(t *testing.T) {
	release := newRelease("key", "token", ttl)
	for name, tt := range map[string]struct {
		cmd, then *wire.Command
		again     bool
	}{
		"acquire, release":           {newAcquireFenced("key", "token", ttl, counted{}), newReleaseFenced("key", "token", 0, ttl), false},
		"extend, release":            {newExtend("key", "token", ttl), release, false},
		"fenced extend, release":     {newExtendFenced("key", "token", 7, ttl, keep), newReleaseFenced("key", "token", 7, ttl), false},
		"acquire, another's release": {newAcquireFenced("key", "other", ttl, counted{}), release, true},
		"acquire, another key's":     {newAcquireFenced("another", "token", ttl, counted{}), release, true},
		"extend, extend":             {newExtend("key", "token", ttl), newExtend("key", "token", 2*ttl), true},
		"release, release":           {release, release, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mute atomic.Bool
				var sources atomic.Int32
				f := newFake(t, func(c *peer, args []string) string {
					if isScript(args) && mute.Load() {
						if args[0] == "EVAL" {
							sources.Add(1)
							return likeRedis(c, args)
						}
						return ""
					}
					return likeRedis(c, args)
				})
				n := f.open(t, withTimeout(bound/2))
				requireYes(t, n, tt.cmd) // they are known now
				requireYes(t, n, tt.then)
				mute.Store(true)
				reply, behind := send(n, tt.cmd), send(n, tt.then)
				synctest.Wait()
				_, err := io.WriteString(f.peer(1), "-NOSCRIPT No matching script.\r\n:1\r\n")
				require.NoError(t, err)
				require.Equal(t, quorum.Yes, behind.next(t).Answer)
				if tt.again {
					synctest.Wait()
					require.EqualValues(t, 1, sources.Load())
					_, err := io.WriteString(f.peer(1), ":1\r\n")
					require.NoError(t, err)
					require.Equal(t, quorum.Yes, reply.next(t).Answer)
				} else {
					requireServerError(t, reply.next(t), quorum.Refused, "NOSCRIPT")
					require.Zero(t, sources.Load())
				}
			})
		})
	}
}

// What is sent again for its source would have nothing before it that makes it tracked.
func TestObserve_IsNeverSentByItsHash(t *testing.T) {
	server, n := openReal(t)
	for range 3 {
		requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, form.Exclusive{}.Observe("key")))
		do(t, server, "SCRIPT", "FLUSH")
	}
	requireCalls(t, server, "eval", 3)
	requireCalls(t, server, "evalsha", 0)
	requireCalls(t, server, "client|caching", 0)
}

func TestCounter_BeginsAtTheTimeOfTheClientsAndCountsOn(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		begin := uint64(0)
		promptly(t, func(now uint64) (want, got uint64) {
			begin = now
			do(t, server, "DEL", "key", counterKey)
			return now + 1, granted(t, n, "first", at(now))
		}, "it begins")
		do(t, server, "DEL", "key")
		for i := range uint64(3) {
			i++
			token := fmt.Sprint("token-", i)
			require.Equal(t, begin+1+i, granted(t, n, token, at(begin)))
			require.Equal(t, fenced(token, begin+1+i), holds(t, server, "key"))
			require.Equal(t, begin+1+i, number(t, server))
			require.InDelta(t, ttl, left(t, server, "key"), float64(time.Minute))
			require.InDelta(t, keep+ttl, left(t, server, counterKey), float64(time.Minute))
			requireYes(t, n, newReleaseFenced("key", token, begin+1+i, ttl))
		}
		do(t, server, "DEL", counterKey)
		granted(t, n, "last", counted{Keep: form.DefaultKeep, Now: now()})
		require.InDelta(t, form.DefaultKeep+ttl, left(t, server, counterKey), float64(time.Minute))
	})
}

func TestCounter_AdvancesIfItIsBehind(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, tt := range []struct {
			what    string
			counter int64 // from now
			ask     counted
			floor   uint64 // from now
			want    int64  // from now
		}{
			{"by more than a second", -3 * second, counted{}, 0, 1},
			{"by less", -second / 2, counted{}, 0, -second/2 + 1},
			{"it is ahead", 7, counted{}, 0, 8},
			{"it is ahead by hours", 7200 * second, counted{}, 0, 7200*second + 1},
			{"by less, but in any case", -second / 2, counted{Advance: true}, 0, 1},
			{"it is ahead, and never goes back", 7, counted{Advance: true}, 0, 8},
			{"beyond the floor", 0, counted{}, 50, 51},
			{"beyond the floor already", 60, counted{}, 50, 61},
		} {
			promptly(t, func(now uint64) (want, got uint64) {
				do(t, server, "DEL", "key")
				do(t, server, "SET", counterKey, int64(now)+tt.counter, "EX", 60)
				ask := tt.ask
				ask.Keep, ask.Now = keep, now
				if tt.floor > 0 {
					ask.Floor = now + tt.floor
				}
				got = granted(t, n, "token", ask)
				require.Equal(t, got, number(t, server), tt.what)
				require.Equal(t, tt.ask.Advance || tt.floor > 0 || tt.counter < -second, left(t, server, counterKey) > time.Hour, "kept for longer if it advances")
				return uint64(int64(now) + tt.want), got
			}, tt.what)
		}
	})
}

// Whatever it is that a client takes for the time: no counter that advances lies behind the server's own clock for more than a second.
func TestCounter_AdvancesToTheServersTimeIfTheClientIsWrong(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, counter := range []uint64{0, now() - 3600*second} {
			for _, wrong := range []uint64{2 * second, now() - 3600*second, now() + 3600*second} {
				do(t, server, "DEL", "key", counterKey)
				if counter > 0 {
					do(t, server, "SET", counterKey, counter, "EX", 60)
				}
				before := now()
				got := granted(t, n, "token", counted{Keep: keep, Now: wrong, Advance: true})
				require.Greater(t, got, before)
				require.LessOrEqual(t, got, now()+1)
			}
		}
	})
}

// The top of a block is what is granted. All of its numbers lie above what the counter had reached.
func TestCounter_GrantsBlocks(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, tt := range []struct {
			what    string
			counter int64 // from now; 1 means that it is missing
			floor   int64 // from now; 0 means none
			advance bool
			before  int64 // the number before the block, from now
		}{
			{"a counter that is near", -7, 0, false, -7},
			{"ahead", 3600 * second, 0, false, 3600 * second},
			{"missing", 1, 0, false, 0},
			{"behind", -60 * second, 0, false, 0},
			{"advanced", -7, 0, true, 0},
			{"advanced, but ahead", 7, 0, true, 7},
			{"above the floor", -7, 100, false, 100},
			{"above the floor already", 200, 100, false, 200},
			{"missing, and above the floor", 1, 100, false, 100},
			{"missing, and above a floor that the time has passed", 1, -100, false, 0},
		} {
			for _, block := range []uint64{0, 1, 2, 50, form.MaxBlock} {
				promptly(t, func(now uint64) (want, got uint64) {
					do(t, server, "DEL", "key", counterKey)
					if tt.counter != 1 {
						do(t, server, "SET", counterKey, int64(now)+tt.counter, "EX", 60)
					}
					ask := counted{Keep: keep, Now: now, Advance: tt.advance, Block: block}
					if tt.floor != 0 {
						ask.Floor = uint64(int64(now) + tt.floor)
					}
					got = granted(t, n, "token", ask)
					require.Equal(t, got, number(t, server), tt.what)
					require.Equal(t, fenced("token", got), holds(t, server, "key"), tt.what)
					require.InDelta(t, ttl, left(t, server, "key"), float64(time.Minute))
					advances := tt.advance || tt.floor != 0 || tt.counter == 1 || tt.counter < -second
					require.Equal(t, advances || block > 1, left(t, server, counterKey) > time.Hour, "kept for longer: %s", tt.what)
					return uint64(int64(now)+tt.before) + max(1, block), got
				}, fmt.Sprintf("%s, a block of %d", tt.what, block))
			}
		}
	})
}

func TestCounter_RefusesALargerBlock(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, block := range []uint64{form.MaxBlock + 1, 1 << 52, 1<<64 - 1} {
			for _, counter := range []uint64{0, 7} {
				do(t, server, "DEL", counterKey)
				if counter > 0 {
					do(t, server, "SET", counterKey, counter)
				}
				ask := ask(t, n, newAcquireFenced("key", "token", ttl, counted{Keep: keep, Now: now(), Block: block}))
				requireServerError(t, ask, quorum.Refused, "ERR")
				require.Empty(t, holds(t, server, "key"))
				require.Equal(t, counter, number(t, server))
			}
		}
	})
}

func TestCounter_StaysAsItIsIfTheKeyIsHeld(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		now := now()
		for _, holder := range []string{"other", "token", "token|5"} {
			for _, counter := range []uint64{0, now - 3, now - 50_000_000} {
				do(t, server, "SET", "key", holder)
				do(t, server, "DEL", counterKey)
				if counter > 0 {
					do(t, server, "SET", counterKey, counter, "EX", 60)
				}
				for _, block := range []uint64{0, 50} {
					ask := ask(t, n, newAcquireFenced("key", "token", ttl, counted{Keep: keep, Now: now, Block: block}))
					requireReply(t, quorum.No, nodeerr.ErrHeld, ask)
					require.Equal(t, holder, holds(t, server, "key"))
					require.Equal(t, counter, number(t, server))
					if counter > 0 {
						require.Positive(t, left(t, server, counterKey))
					}
				}
			}
		}
	})
}

func TestCounter_ThatHasRunOutRefusesAndSetsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		do(t, server, "SET", counterKey, "9007199254740991")
		requireServerError(t, ask(t, n, newAcquireFenced("key", "token", ttl, at(now()))), quorum.Refused, "ERR")
		require.Empty(t, holds(t, server, "key"))
		require.Equal(t, "9007199254740991", holds(t, server, counterKey))
		do(t, server, "SET", counterKey, int64(9007199254740990))
		block := newAcquireFenced("key", "token", ttl, counted{Keep: keep, Now: now(), Block: 2})
		requireServerError(t, ask(t, n, block), quorum.Refused, "ERR")
		require.Empty(t, holds(t, server, "key"))
		require.EqualValues(t, int64(9007199254740990), number(t, server), "a block of two would go beyond")
		require.EqualValues(t, int64(9007199254740991), granted(t, n, "token", at(now())), "the last one, to the digit")
		require.Equal(t, "token|9007199254740991", holds(t, server, "key"))
	})
}

func TestRaise_ReplacesExactlyWhatWasGranted(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, tt := range []struct {
			what, held, counter string
			answer              quorum.Answer
			reason              error
			after               string
		}{
			{"what was granted", "token|5", "5", quorum.Yes, nil, "9"},
			{"the counter is beyond", "token|5", "12", quorum.Yes, nil, "12"},
			{"granted twice", "token|6", "6", quorum.No, nodeerr.ErrHeld, "6"},
			{"raised already", "token|9", "9", quorum.No, nodeerr.ErrHeld, "9"},
			{"without a number", "token", "5", quorum.No, nodeerr.ErrHeld, "5"},
			{"another's", "other|5", "5", quorum.No, nodeerr.ErrHeld, "5"},
			{"gone", "", "5", quorum.No, nodeerr.ErrAbsent, "5"},
			{"the counter is gone", "token|5", "", quorum.No, nodeerr.ErrAbsent, ""},
		} {
			do(t, server, "FLUSHALL")
			if tt.held != "" {
				do(t, server, "SET", "key", tt.held, "EX", 60)
			}
			if tt.counter != "" {
				do(t, server, "SET", counterKey, tt.counter, "EX", 3600)
			}
			reply := ask(t, n, newRaise("key", "token", 5, 9))
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

// With a number behind the token, too: another's key is never taken for ours.
func TestReleaseFenced_AndExtendFencedCompareTheWholeToken(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		commands := []*wire.Command{
			newReleaseFenced("key", "token", 7, ttl), newReleaseFenced("key", "token", 0, ttl),
			newExtendFenced("key", "token", 7, ttl, keep),
		}
		for _, other := range []string{"other|7", "token", "token|", "token|7x", "token|7|8", "tokentoken|7", "|7", "to.*n|7", "token|-7"} {
			do(t, server, "SET", "key", other)
			for _, cmd := range commands {
				requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, cmd))
				require.Equal(t, other, holds(t, server, "key"))
				require.Negative(t, left(t, server, "key"))
			}
		}
		do(t, server, "DEL", "key")
		for _, cmd := range commands {
			if cmd == commands[2] {
				continue // recreates the key
			}
			requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, cmd))
		}
		require.Zero(t, number(t, server))
	})
}

func TestReleaseFenced_RaisesACounterThatIsBehind(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
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
			require.Equal(t, ours, ask(t, n, newReleaseFenced("key", "token", 7, ttl)).Answer == quorum.Yes)
			require.Equal(t, tt.held != "" && !ours, holds(t, server, "key") != "")
			require.Equal(t, tt.after, holds(t, server, counterKey), "%+v", tt)
			if tt.after != "" {
				require.InDelta(t, time.Hour, left(t, server, counterKey), float64(time.Minute))
			}
		}
	})
}

func TestExtendFenced_CarriesTheNumber(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, tt := range []struct{ held, counter, after string }{
			{"token|7", "7", "7"}, {"token|5", "5", "7"}, {"token|5", "9", "9"}, {"token|5", "", ""},
		} {
			do(t, server, "FLUSHALL")
			do(t, server, "SET", "key", tt.held, "EX", 60)
			if tt.counter != "" {
				do(t, server, "SET", counterKey, tt.counter, "EX", 60)
			}
			requireYes(t, n, newExtendFenced("key", "token", 7, 10*ttl, keep))
			require.Equal(t, "token|7", holds(t, server, "key"))
			require.InDelta(t, 10*ttl, left(t, server, "key"), float64(time.Minute))
			require.Equal(t, tt.after, holds(t, server, counterKey), "%+v", tt)
			if tt.after != "" {
				require.InDelta(t, keep+10*ttl, left(t, server, counterKey), float64(time.Minute))
			}
			requireYes(t, n, newExtendFenced("key", "token", 7, ttl, keep))
			require.InDelta(t, 10*ttl, left(t, server, "key"), float64(time.Minute), "never shorter")
		}
	})
}

func TestExtendFenced_RecreatesTheKeyAndACounterBeyondTheNumber(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		now := now()
		requireReply(t, quorum.Recreated, nodeerr.ErrRecreated, ask(t, n, newExtendFenced("key", "token", now+1_000_000_000, ttl, keep)))
		require.Equal(t, fenced("token", now+1_000_000_000), holds(t, server, "key"))
		require.Equal(t, now+1_000_000_000, number(t, server), "ahead of the server's clock")

		do(t, server, "FLUSHALL")
		requireReply(t, quorum.Recreated, nodeerr.ErrRecreated, ask(t, n, newExtendFenced("key", "token", 7, ttl, keep)))
		require.Equal(t, "token|7", holds(t, server, "key"))
		require.GreaterOrEqual(t, number(t, server), now, "behind it: no less than an acquire would begin with")

		do(t, server, "DEL", "key")
		do(t, server, "SET", counterKey, 9, "EX", 60)
		requireReply(t, quorum.Recreated, nodeerr.ErrRecreated, ask(t, n, newExtendFenced("key", "token", 7, ttl, keep)))
		require.EqualValues(t, 9, number(t, server), "what is there stays")
	})
}
