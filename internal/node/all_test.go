package node_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// allKeys are those that are taken together, unless a test says otherwise.
var allKeys = []string{"a", "b", "c"}

// takingAll are both ways to take them, and whether the keys have counters.
func takingAll() map[bool]*wire.Command {
	return map[bool]*wire.Command{
		false: newAcquireAll("token", ttl, allKeys...), true: newAcquireAllFenced("token", ttl, at(now()), allKeys...),
	}
}

// requireDenied fails the test unless the reply says that these keys were held, and only these.
func requireDenied(t testing.TB, reply wire.Reply, held ...bool) {
	t.Helper()
	requireReply(t, quorum.No, nodeerr.ErrHeld, reply)
	require.NotErrorIs(t, reply.Err, form.ErrOthersHeld)
	require.Len(t, reply.Each, len(held))
	for i, each := range reply.Each {
		require.Equal(t, quorum.No, each.Answer)
		require.ErrorIs(t, each.Err, nodeerr.ErrHeld)
		require.Equal(t, !held[i], errors.Is(each.Err, form.ErrOthersHeld), "the key at %d: %v", i, each.Err)
		require.Zero(t, each.Fence)
	}
}

// requireNone fails the test unless none of the keys exists.
func requireNone(t testing.TB, server testredis.Server, keys ...string) {
	t.Helper()
	require.Zero(t, count(t, server, keys...), keys)
}

// count returns how many of the keys exist.
func count(t testing.TB, server testredis.Server, keys ...string) int {
	t.Helper()
	n, err := redis.Int(do(t, server, "EXISTS", redis.Args{}.AddFlat(keys)...), nil)
	require.NoError(t, err)
	return n
}

func TestAcquireAll_TakesAllKeysIfNoneExists(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for range 2 { // by the source, and by the hash
			for fencing, cmd := range takingAll() {
				reply := ask(t, n, cmd)
				requireReply(t, quorum.Yes, nil, reply)
				require.Len(t, reply.Each, len(allKeys))
				for i, key := range allKeys {
					each, want := reply.Each[i], "token"
					requireReply(t, quorum.Yes, nil, each)
					require.Equal(t, fencing, each.Fence > 0)
					if fencing {
						want = fenced("token", each.Fence)
						require.Equal(t, entry{fmt.Sprint(each.Fence), keep + ttl}, entryOf(t, server, counterOf(key)))
					} else {
						requireNone(t, server, counterOf(key))
					}
					require.Equal(t, briefly(want), entryOf(t, server, key))
				}
				requireDenied(t, ask(t, n, cmd), true, true, true)
				do(t, server, "FLUSHALL")
			}
		}
	})
}

// counterOf is the key of a counter, as clients of any version know it.
func counterOf(key string) string { return "{" + key + "}:fence" }

// Whatever it is that the keys hold.
func TestAcquireAll_TakesNoKeyIfOneExistsAndNamesThoseThatDo(t *testing.T) {
	holders := []data{
		{"token of another", "SET", []any{"other"}}, {"same token", "SET", []any{"token"}}, {"empty", "SET", []any{""}}, {"list", "RPUSH", []any{"7"}},
		{"hash", "HSET", []any{"field", "7"}}, {"set", "SADD", []any{"7"}}, {"sorted set", "ZADD", []any{"7", "7"}}, {"stream", "XADD", []any{"1-1", "field", "7"}},
	}
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		do(t, server, "MSET", counterOf("a"), 7, counterOf("b"), 8, counterOf("c"), 9)
		for _, cmd := range takingAll() {
			for i, d := range holders {
				for some := 1; some < 1<<len(allKeys); some++ {
					if i > 0 && some != 1+i%7 { // each set of keys with one of them, one set with the others
						continue
					}
					held, taken := make([]bool, len(allKeys)), []string(nil)
					for k, key := range allKeys {
						if held[k] = some&(1<<k) != 0; held[k] {
							do(t, server, d.command, append([]any{key}, d.args...)...)
							taken = append(taken, key)
						}
					}
					requireDenied(t, ask(t, n, cmd), held...)
					require.Equal(t, len(taken), count(t, server, allKeys...))
					for _, key := range taken {
						if text, is := d.isText(); is {
							require.Equal(t, text, holds(t, server, key))
						}
						require.EqualValues(t, -1, redisInt(t, server, "PTTL", key), "%s under %s", d.what, key)
					}
					do(t, server, "DEL", redis.Args{}.AddFlat(taken)...)
				}
			}
		}
		counted, err := redis.Ints(do(t, server, "MGET", counterOf("a"), counterOf("b"), counterOf("c")), nil)
		require.NoError(t, err)
		require.Equal(t, []int{7, 8, 9}, counted)
	})
}

// What the commands for one key grant, in every state of the counters.
func TestAcquireAll_WithFencingGrantsEachKeyWhatAnAcquireOfThatKeyAloneWould(t *testing.T) {
	alone := map[string]string{"a": "d", "b": "e", "c": "f"}
	counters := []int64{1, -7, 7, -3 * second, 3600 * second} // from now; 1 means that it is missing
	asks := []counted{{}, {Floor: 100}, {Floor: 1}, {Advance: true}}
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for i := 0; i < len(counters)*len(asks); i += len(allKeys) {
			promptly(t, func(now uint64) (want, got []any) {
				do(t, server, "FLUSHALL")
				each := make([]counted, len(allKeys))
				for k, key := range allKeys {
					counter := counters[(i+k)%len(counters)]
					each[k] = asks[(i+k)/len(counters)%len(asks)]
					if each[k].Keep, each[k].Now = keep, now; each[k].Floor == 100 {
						each[k].Floor += now
					}
					for _, key := range []string{key, alone[key]} {
						if counter != 1 {
							briefly(int64(now)+counter).put(t, server, counterOf(key))
						}
					}
				}
				reply := ask(t, n, newAcquireAllCounted("token", ttl, each, allKeys...))
				requireReply(t, quorum.Yes, nil, reply)
				for k, key := range allKeys {
					single := ask(t, n, newAcquireFenced(alone[key], "token", ttl, each[k]))
					requireReply(t, quorum.Yes, nil, single)
					want = append(want, single.Fence, entryOf(t, server, alone[key]), entryOf(t, server, counterOf(alone[key])))
					got = append(got, reply.Each[k].Fence, entryOf(t, server, key), entryOf(t, server, counterOf(key)))
				}
				return want, got
			}, fmt.Sprint("case ", i))
		}
	})
}

// Keys before it are set already when a counter turns out to be none.
func TestAcquireAll_LeavesNothingSetIfACounterIsSomebodysData(t *testing.T) {
	onStrangersData(t, counterKey, func(t *testing.T, server testredis.Server, n *node.Node, _ data, keeps func() func(string)) {
		for _, keys := range [][]string{{"key", "a"}, {"a", "b", "key"}} {
			intact := keeps()
			cmd := newAcquireAllFenced("token", ttl, at(now()), keys...)
			reply := ask(t, n, cmd)
			requireReply(t, quorum.Refused, nodeerr.ErrForeign, reply)
			requireServerError(t, reply, quorum.Refused, "WRONGTYPE")
			require.Nil(t, reply.Each)
			requireNone(t, server, keys...)
			intact("acquire all")
			do(t, server, "SET", "a", "other")
			held := make([]bool, len(keys))
			held[slices.Index(keys, "a")] = true
			requireDenied(t, ask(t, n, cmd), held...)
			intact("acquire all, of which one is held")
		}
	})
}

// Each error ends the whole command, whatever comes before it.
func TestAcquireAll_LeavesNothingSetIfTheServerRefusesIt(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, keys := range [][]string{{"full", "a"}, {"a", "full", "b"}, {"a", "b", "full"}} {
			forever(lastNumber).put(t, server, counterOf("full"))
			reply := ask(t, n, newAcquireAllFenced("token", ttl, at(now()), keys...))
			requireServerError(t, reply, quorum.Refused, "ERR")
			require.ErrorContains(t, reply.Err, "no numbers left")
			requireNone(t, server, keys...)
			require.Equal(t, forever(lastNumber), entryOf(t, server, counterOf("full")))
			requireYes(t, n, newAcquireAllFenced("token", ttl, at(now()), "a", "b"))
			do(t, server, "DEL", "a", "b")
		}
		for _, cmd := range []*wire.Command{ // SET with PX 0 is an error
			newAcquireAll("token", time.Millisecond-1, allKeys...), newAcquireAllFenced("token", time.Millisecond-1, at(now()), allKeys...),
		} {
			requireServerError(t, ask(t, n, cmd), quorum.Refused, "ERR")
			requireNone(t, server, allKeys...)
		}
	})
}

func TestAcquireAll_AServerOutOfMemoryGrantsNothing(t *testing.T) {
	server, n := openReal(t)
	do(t, server, "CONFIG", "SET", "maxmemory", 1)
	for _, cmd := range takingAll() {
		requireRefused(t, ask(t, n, cmd), "OOM")
		requireNone(t, server, allKeys...)
	}
}

func TestAcquireAll_OfAKeyThatIsForbiddenTakesNone(t *testing.T) {
	server, n := restricted(t, "resetkeys", "~a", "~b", "~{a}*", "~{b}*")
	for _, cmd := range takingAll() {
		requireServerError(t, ask(t, n, cmd), quorum.Refused, "NOPERM")
		requireNone(t, server, allKeys...)
	}
}

// Some of the commands that the script calls are forbidden: the first that is shows it, or what was set before goes.
func TestAcquireAll_LeavesNothingSetIfACommandIsForbidden(t *testing.T) {
	for _, command := range []string{"pttl", "set", "getrange", "time", "incrby"} {
		server, n := restricted(t, "-"+command)
		if command == "incrby" { // of which only the last key has a use
			do(t, server, "SET", counterOf("c"), later)
		}
		for fencing, cmd := range takingAll() {
			if fencing || command == "pttl" || command == "set" {
				requireServerError(t, ask(t, n, cmd), quorum.Refused, "NOPERM")
				requireNone(t, server, allKeys...)
			}
		}
	}
}

// Each releases its own, so that none is left if another has gone meanwhile.
func TestAcquireAll_KeysAreReleasedOneByOne(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for fencing, cmd := range takingAll() {
			reply := ask(t, n, cmd)
			requireReply(t, quorum.Yes, nil, reply)
			for i, key := range allKeys {
				release, extend := newRelease(key, "token", ttl), newExtend(key, "token", 2*ttl)
				if fencing {
					number := reply.Each[i].Fence
					release, extend = newReleaseFenced(key, "token", number, ttl), newExtendFenced(key, "token", number, 2*ttl, keep)
				}
				requireYes(t, n, extend)
				require.Equal(t, 2*ttl, left(t, server, key).Round(time.Minute))
				requireYes(t, n, release)
				requireNone(t, server, allKeys[:i+1]...)
				require.Equal(t, len(allKeys)-i-1, count(t, server, allKeys...))
			}
		}
	})
}

// Nobody would notice that each call takes two round trips.
func TestAcquireAll_IsOneCallOfAScript(t *testing.T) {
	server, n := openReal(t)
	const times = 20
	for range times {
		for _, cmd := range takingAll() {
			requireYes(t, n, cmd)
			do(t, server, "DEL", "a", "b", "c")
		}
	}
	requireCalls(t, server, "eval", 4) // the first of each kind, and the second
	requireCalls(t, server, "evalsha", 2*times-4)
}

// Otherwise an acquire would take effect behind the release of one of its keys, and leave that where nobody knows of it.
func TestAcquireAll_IsNotSentAgainBehindTheReleaseOfAnyOfItsKeys(t *testing.T) {
	for kind, cmd := range takingAll() {
		for i, behind := range []*wire.Command{
			newRelease("a", "token", ttl), newRelease("c", "token", ttl), newReleaseFenced("b", "token", 0, ttl),
			newRelease("b", "other", ttl), newRelease("d", "token", ttl),
		} {
			t.Run(fmt.Sprint("fenced: ", kind, ", behind it: ", i), func(t *testing.T) {
				follows := i < 3
				all := "fenced_all_acquire"
				if !kind {
					all = "all_acquire"
				}
				f := newHeldFake(t, func(c *peer, args []string) string {
					if args[0] == "EVALSHA" && args[1] == form.Scripts[all].Hash {
						return "-NOSCRIPT No matching script.\r\n"
					}
					if isScript(args) && args[1] == form.Scripts[all].Source && kind {
						return "*3\r\n:1\r\n:2\r\n:3\r\n"
					}
					return likeRedis(c, args)
				})
				n := f.open(t, patient())
				// The first is sent by its source, and the server does not know the second by its hash.
				replies := f.together(t, n, []*wire.Command{cmd, cmd, behind})
				requireReply(t, quorum.Yes, nil, replies[0])
				if follows {
					requireServerError(t, replies[1], quorum.Refused, "NOSCRIPT")
				} else {
					requireReply(t, quorum.Yes, nil, replies[1])
				}
				requireReply(t, quorum.Yes, nil, replies[2])
				require.Equal(t, map[bool]int{true: 1, false: 2}[follows], f.count("EVAL "+form.Scripts[all].Source))
			})
		}
	}
}

// A server that tracks does not tell a connection of its own changes, so others of the process that listen would never know.
func TestAcquireAll_IsReportedForEachOfItsKeys(t *testing.T) {
	server, n := openReal(t)
	one, two := listen(n, ""), listen(n, "")
	two.await(t, "0 active")
	requireTracked(t, n, "listened") // behind all answers to the two
	for _, l := range []events{one, two} {
		for len(l) > 0 {
			require.Equal(t, "0 active", <-l)
		}
	}
	for fencing, cmd := range takingAll() {
		for _, key := range allKeys {
			requireTracked(t, n, key)
		}
		requireYes(t, n, cmd)
		for _, l := range []events{one, two} {
			for _, key := range allKeys {
				require.Equal(t, "0 invalidated "+key, l.next(t))
				if fencing {
					require.Equal(t, "0 invalidated "+counterOf(key), l.next(t))
				}
			}
		}
		requireDenied(t, ask(t, n, cmd), true, true, true)
		requireTracked(t, n, "reported")
		do(t, server, "INCR", "reported")
		require.Equal(t, "0 invalidated reported", one.next(t), "and nothing before it")
		require.Equal(t, "0 invalidated reported", two.next(t))
		do(t, server, "DEL", "a", "b", "c", "reported") // of which none is tracked any more
	}
	require.Empty(t, one)
	require.Empty(t, two)
}

// Whoever sends that may send anything.
func TestAcquireAll_AReplyThatDoesNotBelongToItEndsTheConnection(t *testing.T) {
	for fencing, cmd := range takingAll() {
		for _, text := range []string{
			":7\r\n", "*0\r\n", "*1\r\n:0\r\n", "*2\r\n:-1\r\n:-1\r\n", "*3\r\n:5\r\n:6\r\n:-3\r\n", "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", "*1\r\n:-4\r\n",
			"*3\r\n:5\r\n*1\r\n:6\r\n:7\r\n", strings.Repeat("*1\r\n", 20) + ":-1\r\n",
		} {
			for transport, open := range transports {
				f := newFake(t, func(c *peer, args []string) string {
					if isScript(args) && strings.Contains(strings.Join(args[2:], " "), " a ") {
						return text
					}
					return likeRedis(c, args)
				})
				reply := ask(t, open(f, t, patient()), cmd)
				require.Equal(t, quorum.Unknown, reply.Answer, "%s, fenced: %t, %q: %v", transport, fencing, text, reply.Err)
				require.ErrorIs(t, reply.Err, nodeerr.ErrProtocol)
				require.Nil(t, reply.Each)
				require.Eventually(t, func() bool { return f.connections() > 1 }, bound, tick)
			}
		}
	}
}
