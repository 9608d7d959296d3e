package node_test

import (
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by their SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
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

const (
	counterKey = "{key}:fence"
	keep       = 6 * time.Hour
	second     = 1_000_000
	// later is a time that no server's clock comes to in a test: counters that are ahead of it only count on.
	later int64 = 1 << 52
	// lastNumber is the highest that a counter can have.
	lastNumber = uint64(1<<53 - 1)
)

// With a wrong hash every call would take two round trips, and nobody would notice.
func TestScript_HashIsThatOfTheSource(t *testing.T) {
	for name, script := range form.Scripts {
		sum := sha1.Sum([]byte(script.Source)) //nolint:gosec // see the import
		require.Equal(t, hex.EncodeToString(sum[:]), script.Hash, "the Hash of %s.lua", name)
	}
}

func TestCommand_OnTheWire(t *testing.T) {
	const ms = time.Millisecond
	fencedAcquire := func(keep time.Duration, a counted) *wire.Command {
		a.Keep, a.Now = keep, 5
		return newAcquireFenced("k", "t", time.Second, a)
	}
	for want, cmd := range map[string]*wire.Command{
		"SET k t NX PX 1000": newAcquire("k", "t", time.Second),
		"SET k t NX PX 1":    newAcquire("k", "t", 2*ms-1),
		"release 1 k t":      newRelease("k", "t", ttl),
		"release 1 k w":      newDelete("k", "w"),
		"extend 1 k t 1000":  newExtend("k", "t", time.Second),
		"extend 1 k t 1":     newExtend("k", "t", 2*ms-1),
		"heal 1 k v":         form.Exclusive{}.Heal("k", "v"),
		"observe 1 k":        form.Exclusive{}.Observe("k"),
		"PUBLISH c m":        node.Publish("c", "m"),

		"fenced_acquire 2 k {k}:fence t 1000 5":               fencedAcquire(2*time.Hour, counted{Block: 1}),
		"fenced_acquire 2 k {k}:fence t 1000 5 60000":         fencedAcquire(time.Minute, counted{}),
		"fenced_acquire 2 k {k}:fence t 1000 5 7200000 3":     fencedAcquire(2*time.Hour, counted{Floor: 3}),
		"fenced_acquire 2 k {k}:fence t 1000 5 7200000 0":     fencedAcquire(2*time.Hour, counted{Advance: true}),
		"fenced_acquire 2 k {k}:fence t 1000 5 7200000  4096": fencedAcquire(2*time.Hour, counted{Block: 4096}),
		"fenced_acquire 2 k {k}:fence t 1000 5 7200000 3 2":   fencedAcquire(2*time.Hour, counted{Floor: 3, Block: 2}),
		"raise 2 k {k}:fence t|5 t|7 7":                       newRaise("k", "t", 5, 7),
		"fenced_release 2 k {k}:fence t|7":                    newReleaseFenced("k", "t", 7, ttl),
		"fenced_release 2 k {k}:fence t|0":                    newReleaseFenced("k", "t", 0, ttl),
		"fenced_extend 2 k {k}:fence t 7 1000 60000":          newExtendFenced("k", "t", 7, time.Second, time.Minute),
		"fenced_extend 2 k {k}:fence t 9007199254740991 1 0":  newExtendFenced("k", "t", lastNumber, ms, 0),

		"all_acquire 1 k t 1000":     newAcquireAll("t", time.Second, "k"),
		"all_acquire 3 k l m t 1999": newAcquireAll("t", 2*time.Second-1, "k", "l", "m"),
		"fenced_all_acquire 6 k {k}:fence l {l}:fence m {m}:fence t 1000 5 60000  3 0": newAcquireAllCounted("t", time.Second,
			[]counted{{Keep: time.Minute, Now: 5}, {Floor: 3}, {Advance: true}}, "k", "l", "m"),
	} {
		got := strings.Join(cmd.Words(nil, cmd.Script, false), " ")
		for name, script := range form.Scripts {
			got = strings.Replace(got, "EVALSHA "+script.Hash, name, 1)
		}
		require.Equal(t, want, got)
	}
}

// entry is what a key holds, and for how long in whole minutes. The zero entry stands for a key that does not exist.
type entry struct {
	value string
	ttl   time.Duration // wire.NoTTL for ever
}

func forever(value any) entry { return entry{fmt.Sprint(value), wire.NoTTL} }

func briefly(value any) entry { return entry{fmt.Sprint(value), ttl} }

// put replaces what a key holds.
func (e entry) put(t testing.TB, server testredis.Server, key string) {
	t.Helper()
	do(t, server, "DEL", key)
	switch e.ttl {
	case 0:
	case wire.NoTTL:
		do(t, server, "SET", key, e.value)
	default:
		do(t, server, "SET", key, e.value, "PX", e.ttl.Milliseconds())
	}
}

// entryOf returns what a key holds.
func entryOf(t testing.TB, server testredis.Server, key string) entry {
	t.Helper()
	if redisInt(t, server, "EXISTS", key) == 0 {
		return entry{}
	}
	e := forever(holds(t, server, key))
	if redisInt(t, server, "PTTL", key) != -1 {
		e.ttl = left(t, server, key).Round(time.Minute)
	}
	return e
}

func redisInt(t testing.TB, server testredis.Server, cmd, key string) int64 {
	t.Helper()
	n, err := redis.Int64(do(t, server, cmd, key), nil)
	require.NoError(t, err)
	return n
}

// effect is what a command does to what it finds.
type effect struct {
	what                   string
	cmd                    *wire.Command
	key, counter           entry
	answer                 quorum.Answer
	reason                 error // of a No; any other answer but Yes is an error of code ERR
	keyAfter, counterAfter entry
}

// effects are those of all commands on all that they may find.
func effects() (all []effect) {
	add := func(e effect) { all = append(all, e) }
	changes := func(what string, cmd *wire.Command, key, after entry) {
		add(effect{what: what, cmd: cmd, key: key, answer: quorum.Yes, keyAfter: after})
	}
	denied := func(what string, cmd *wire.Command, key entry, reason error) {
		add(effect{what: what, cmd: cmd, key: key, answer: quorum.No, reason: reason, keyAfter: key})
	}
	acquire, extend, release := newAcquire("key", "token", ttl), newExtend("key", "token", 2*ttl), newRelease("key", "token", ttl)
	heal := form.Exclusive{}.Heal("key", "token")

	changes("acquire a free key", acquire, entry{}, briefly("token"))
	// SET with PX 0 is an error, and without PX it would be a lock for ever.
	add(effect{what: "acquire for less than a millisecond", cmd: newAcquire("key", "token", time.Millisecond-1), answer: quorum.Refused})
	for _, holder := range []string{"other", "token", ""} {
		denied("acquire", acquire, forever(holder), nodeerr.ErrHeld)
	}
	changes("release", release, briefly("token"), entry{})
	changes("release what has no TTL", release, forever("token"), entry{})
	changes("heal", heal, forever("token"), entry{})
	changes("heal what is empty", form.Exclusive{}.Heal("key", ""), forever(""), entry{})
	denied("heal what has a TTL", heal, briefly("token"), nodeerr.ErrHeld)
	changes("extend", extend, briefly("token"), entry{"token", 2 * ttl})
	changes("extend by less than is left", extend, entry{"token", 3 * ttl}, entry{"token", 3 * ttl})
	changes("extend what has no TTL", extend, forever("token"), entry{"token", 2 * ttl})
	add(effect{what: "extend", cmd: extend, answer: quorum.Recreated, reason: nodeerr.ErrRecreated, keyAfter: entry{"token", 2 * ttl}})
	for _, value := range []string{"", "token", "token|7"} {
		remove := newDelete("key", value)
		changes("delete", remove, forever(value), entry{})
		denied("delete", remove, entry{}, nodeerr.ErrAbsent)
		denied("delete another's", remove, briefly("another"), nodeerr.ErrHeld)
		denied("delete another's", remove, forever("token|8"), nodeerr.ErrNoExpiry)
	}
	long := strings.Repeat("x", wire.MaxToken+1)
	for what, cmd := range map[string]*wire.Command{
		"release": release, "heal": heal, "extend": extend, "fenced extend": newExtendFenced("key", "token", 7, ttl, keep),
		"fenced release": newReleaseFenced("key", "token", 7, ttl), "fenced, unnumbered release": newReleaseFenced("key", "token", 0, ttl),
	} {
		releases, extends := strings.HasSuffix(what, "release"), strings.HasSuffix(what, "extend")
		if !extends {
			denied(what, cmd, entry{}, nodeerr.ErrAbsent)
		}
		// A token that only begins like another one, or goes on behind it, is another one.
		others := []string{"other", "toke", "token2", "TOKEN", ""}
		if strings.HasPrefix(what, "fenced") {
			others = []string{"other|7", "token", "token|", "token|7x", "token|7|8", "tokentoken|7", "|7", "to.*n|7", "token|-7", ""}
		}
		for _, holder := range others {
			denied(what, cmd, entry{holder, 3 * ttl}, nodeerr.ErrHeld)
			if releases { // from which a round that is denied learns what holds the key
				denied(what, cmd, forever(holder), nodeerr.ErrNoExpiry)
			} else {
				denied(what, cmd, forever(holder), nodeerr.ErrHeld)
			}
		}
		if what != "heal" {
			denied(what, cmd, forever(long), nodeerr.ErrForeign)
			if releases {
				denied(what, cmd, briefly(long), nodeerr.ErrHeld)
			} else {
				denied(what, cmd, briefly(long), nodeerr.ErrForeign)
			}
		}
	}
	return slices.Concat(all, counterEffects())
}

// counterEffects are those of the commands that have to do with a counter.
func counterEffects() (all []effect) {
	token := func(number int) entry { return briefly(fenced("token", uint64(number))) }
	raise := func(what string, key, counter entry, reason error, after entry) {
		e := effect{what, newRaise("key", "token", 5, 9), key, counter, quorum.No, reason, key, after}
		if reason == nil {
			e.answer, e.keyAfter = quorum.Yes, token(9)
		}
		all = append(all, e)
	}
	raise("what was granted", token(5), briefly(5), nil, briefly(9))
	raise("the counter is beyond", token(5), briefly(12), nil, briefly(12))
	raise("granted twice", token(6), briefly(6), nodeerr.ErrHeld, briefly(6))
	raise("raised already", token(9), briefly(9), nodeerr.ErrHeld, briefly(9))
	raise("without a number", briefly("token"), briefly(5), nodeerr.ErrHeld, briefly(5))
	raise("another's", briefly("other|5"), briefly(5), nodeerr.ErrHeld, briefly(5))
	raise("gone", entry{}, briefly(5), nodeerr.ErrAbsent, briefly(5))
	raise("the counter is gone", token(5), entry{}, nodeerr.ErrAbsent, entry{})

	// A release raises a counter that is behind, except if the key is exactly ours: it has been there.
	for _, tt := range []struct{ key, counter, after entry }{
		{token(7), briefly(7), briefly(7)}, {token(7), briefly(6), briefly(6)}, {token(8), briefly(8), briefly(8)},
		{token(5), briefly(5), briefly(7)}, {token(5), briefly(9), briefly(9)}, {token(5), entry{}, entry{}},
		{briefly("other|5"), briefly(5), briefly(7)},
		{entry{}, briefly(5), briefly(7)}, {entry{}, briefly(9), briefly(9)},
	} {
		e := effect{"release", newReleaseFenced("key", "token", 7, ttl), tt.key, tt.counter, quorum.Yes, nil, entry{}, tt.after}
		if tt.key == (entry{}) {
			e.answer, e.reason = quorum.No, nodeerr.ErrAbsent
		} else if tt.key.value == "other|5" {
			e.answer, e.reason, e.keyAfter = quorum.No, nodeerr.ErrHeld, tt.key
		}
		all = append(all, e)
	}

	extend := newExtendFenced("key", "token", 7, 10*ttl, keep)
	extended, longer := entry{"token|7", 10 * ttl}, entry{"token|7", 20 * ttl}
	kept := func(number int64) entry { return entry{fmt.Sprint(number), keep + 10*ttl} }
	for _, e := range []effect{
		{key: token(7), counter: briefly(7), keyAfter: extended, counterAfter: kept(7)},
		{key: token(5), counter: briefly(5), keyAfter: extended, counterAfter: kept(7)},
		{key: token(5), counter: briefly(9), keyAfter: extended, counterAfter: kept(9)},
		{key: token(5), keyAfter: extended},
		{key: entry{"token|5", 20 * ttl}, keyAfter: longer},
		{key: longer, counter: entry{"7", 10 * time.Hour}, keyAfter: longer, counterAfter: entry{"7", 10 * time.Hour}},
	} {
		e.what, e.cmd, e.answer = "extend", extend, quorum.Yes
		all = append(all, e)
	}
	all = append(all,
		effect{"extend", extend, entry{}, briefly(9), quorum.Recreated, nodeerr.ErrRecreated, extended, kept(9)},
		effect{
			what: "extend, ahead of the server's clock", cmd: newExtendFenced("key", "token", uint64(later), 10*ttl, keep),
			answer: quorum.Recreated, reason: nodeerr.ErrRecreated,
			keyAfter: entry{fenced("token", uint64(later)), 10 * ttl}, counterAfter: kept(later),
		})

	acquire := func(a counted) *wire.Command {
		a.Keep, a.Now = keep, uint64(later)
		return newAcquireFenced("key", "token", ttl, a)
	}
	for _, counter := range []entry{{}, briefly(later - 3), briefly(later - 50*second)} {
		for _, holder := range []string{"other", "token", "token|5", ""} {
			for _, block := range []uint64{0, 50} {
				cmd, held := acquire(counted{Block: block}), forever(holder)
				all = append(all, effect{"acquire what is held", cmd, held, counter, quorum.No, nodeerr.ErrHeld, held, counter})
			}
		}
	}
	refused := func(counter entry, block uint64) {
		all = append(all, effect{
			what: fmt.Sprint("acquire a block of ", block), cmd: acquire(counted{Block: block}), counter: counter,
			answer: quorum.Refused, counterAfter: counter,
		})
	}
	for _, block := range []uint64{form.MaxBlock + 1, 1 << 52, math.MaxUint64} {
		refused(entry{}, block)
		refused(forever(7), block)
	}
	refused(forever(lastNumber), 0)
	refused(forever(lastNumber-1), 2) // which would go beyond
	return append(all, effect{
		"acquire the last number, to the digit", acquire(counted{}), entry{}, forever(lastNumber - 1), quorum.Yes, nil,
		briefly(fenced("token", lastNumber)), forever(lastNumber),
	})
}

func TestCommand_DoesWhatTheKeyAndTheCounterCallFor(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, e := range effects() {
			what := fmt.Sprintf("%s: %.40v, %v", e.what, e.key, e.counter)
			e.key.put(t, server, "key")
			e.counter.put(t, server, counterKey)
			reply := ask(t, n, e.cmd)
			require.Equal(t, e.answer, reply.Answer, "%s: %v", what, reply.Err)
			switch {
			case e.answer == quorum.Refused:
				requireServerError(t, reply, e.answer, "ERR")
			case e.reason == nil:
				require.NoError(t, reply.Err, what)
			default:
				require.ErrorIs(t, reply.Err, e.reason, what)
				require.Equal(t, errors.Is(e.reason, nodeerr.ErrNoExpiry), errors.Is(reply.Err, nodeerr.ErrNoExpiry), what)
			}
			require.Equal(t, e.keyAfter, entryOf(t, server, "key"), what)
			require.Equal(t, e.counterAfter, entryOf(t, server, counterKey), what)
		}
	})
}

func TestExtendFenced_RecreatesACounterWithNoLessThanAnAcquireWouldBeginWith(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		now := now()
		requireReply(t, quorum.Recreated, nodeerr.ErrRecreated, ask(t, n, newExtendFenced("key", "token", 7, ttl, keep)))
		require.Equal(t, "token|7", holds(t, server, "key"))
		require.GreaterOrEqual(t, number(t, server), now)
	})
}

func TestCommand_KeysAndTokensMayHoldAnyBytes(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, text := range []string{"", "\x00", "a b\r\n$-1\r\n", "\xff\xfe", "{k}", strings.Repeat("x", 100_000)} {
			token := ("t" + text)[:min(1+len(text), wire.MaxToken)]
			requireYes(t, n, newAcquire("k"+text, token, ttl))
			require.Equal(t, token, holds(t, server, "k"+text))
			requireYes(t, n, newExtend("k"+text, token, 2*ttl))
			requireYes(t, n, newRelease("k"+text, token, ttl))
		}
	})
}

// Somebody's data under the name of a lock must not cost those who wait for it the connection: it is not fetched.
func TestObserve_ReturnsWhatAKeyHoldsAndItsTTLIfItMayBeALock(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		requireReply(t, quorum.No, nodeerr.ErrAbsent, ask(t, n, form.Exclusive{}.Observe("key")))
		for _, value := range []string{"", "token", "a\r\n\x00b", strings.Repeat("x", wire.MaxToken)} {
			for _, e := range []entry{forever(value), briefly(value)} {
				e.put(t, server, "key")
				reply := ask(t, n, form.Exclusive{}.Observe("key"))
				requireReply(t, quorum.Yes, nil, reply)
				require.Equal(t, value, reply.Value)
				require.InDelta(t, e.ttl, reply.TTL, float64(ttl/2))
				require.False(t, reply.Tracked, "nobody listens")
			}
		}
		for _, size := range []int{wire.MaxToken + 1, 2 << 20} {
			do(t, server, "SET", "key", strings.Repeat("x", size))
			reply := ask(t, n, form.Exclusive{}.Observe("key"))
			requireReply(t, quorum.Refused, nodeerr.ErrForeign, reply)
			require.Empty(t, reply.Value)
			require.Zero(t, reply.TTL)
		}
	})
}

// Whatever the key holds, if it is not a lock it is somebody's data.
func TestCommand_DataOfAnotherTypeIsReportedAndLeftAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		do(t, server, "RPUSH", "key", "somebody's", "data")
		requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, newAcquire("key", "token", ttl)))
		for _, cmd := range []*wire.Command{newRelease("key", "token", ttl), newExtend("key", "token", ttl), newDelete("key", "token")} {
			requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, cmd))
		}
		requireRefused(t, ask(t, n, form.Exclusive{}.Heal("key", "token")), "WRONGTYPE")
		requireRefused(t, ask(t, n, form.Exclusive{}.Observe("key")), "WRONGTYPE")
		require.EqualValues(t, 2, do(t, server, "LLEN", "key"))
		require.Negative(t, left(t, server, "key"))

		do(t, server, "PEXPIRE", "key", ttl.Milliseconds()) // it ends by itself
		requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, newAcquire("key", "token", ttl)))
		for _, cmd := range []*wire.Command{newRelease("key", "token", ttl), newDelete("key", "token"), newReleaseFenced("key", "token", 7, ttl)} {
			requireReply(t, quorum.No, nodeerr.ErrHeld, ask(t, n, cmd))
		}
		requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, newExtend("key", "token", ttl)))
		reply := ask(t, n, form.Exclusive{}.Observe("key"))
		requireReply(t, quorum.Refused, nodeerr.ErrForeign, reply)
		require.InDelta(t, ttl, reply.TTL, float64(ttl/2))
		require.EqualValues(t, 2, do(t, server, "LLEN", "key"))
	})
}

// If the server asks for the script of an acquire or an extension again that went out before its release, it would make a key that
// nobody knows of.
func TestCommand_MustFollowWhatCreatesTheKeyThatItReleases(t *testing.T) {
	extend, release := newExtend("key", "token", ttl), newRelease("key", "token", ttl)
	for _, creates := range []*wire.Command{
		newAcquireFenced("key", "token", ttl, counted{}), extend, newExtendFenced("key", "token", 7, ttl, keep),
	} {
		require.True(t, release.MustFollow(creates))
		require.True(t, newReleaseFenced("key", "token", 7, ttl).MustFollow(creates))
		require.False(t, extend.MustFollow(creates))
		require.False(t, newRelease("key", "other", ttl).MustFollow(creates))
		require.False(t, newRelease("another", "token", ttl).MustFollow(creates))
	}
	require.False(t, release.MustFollow(release))

	for _, all := range []*wire.Command{
		newAcquireAll("token", ttl, "another", "key", "third"), newAcquireAllFenced("token", ttl, counted{}, "another", "key", "third"),
	} {
		for _, key := range []string{"another", "key", "third"} {
			require.True(t, newRelease(key, "token", ttl).MustFollow(all))
			require.True(t, newReleaseFenced(key, "token", 0, ttl).MustFollow(all))
			require.False(t, newRelease(key, "other", ttl).MustFollow(all))
		}
		require.False(t, newRelease("fourth", "token", ttl).MustFollow(all))
		require.False(t, extend.MustFollow(all))
		require.False(t, all.MustFollow(all))
	}
}

// granted sends an acquire, and returns what it was granted.
func granted(t testing.TB, n *node.Node, token string, counter counted) uint64 {
	t.Helper()
	reply := ask(t, n, newAcquireFenced("key", token, ttl, counter))
	requireReply(t, quorum.Yes, nil, reply)
	return reply.Fence
}

// number is what the counter on the server holds; 0 means that it does not exist.
func number(t testing.TB, server testredis.Server) uint64 {
	t.Helper()
	n, err := strconv.ParseUint("0"+holds(t, server, counterKey), 10, 64)
	require.NoError(t, err)
	return n
}

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

// The top of a block is what is granted. All of its numbers lie above what the counter had reached. A counter is kept for longer
// if it advances, or if a block is taken from it.
func TestCounter_GrantsBlocksAndAdvancesIfItIsBehind(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, tt := range []struct {
			what    string
			counter int64 // from now; 1 means that it is missing
			floor   int64 // from now; 0 means none
			advance bool
			before  int64 // the number before the block, from now
		}{
			{"a counter that is near", -7, 0, false, -7},
			{"behind by less than a second", -second / 2, 0, false, -second / 2},
			{"ahead", 7, 0, false, 7},
			{"ahead by an hour", 3600 * second, 0, false, 3600 * second},
			{"missing", 1, 0, false, 0},
			{"behind", -3 * second, 0, false, 0},
			{"advanced", -second / 2, 0, true, 0},
			{"advanced, but ahead", 7, 0, true, 7},
			{"above the floor", -7, 100, false, 100},
			{"above the floor already", 200, 100, false, 200},
			{"missing, and above the floor", 1, 100, false, 100},
			{"missing, and above a floor that the time has passed", 1, -100, false, 0},
		} {
			for _, block := range []uint64{0, 1, 2, 50, form.MaxBlock} {
				promptly(t, func(now uint64) (want, got []any) {
					do(t, server, "DEL", "key", counterKey)
					if tt.counter != 1 {
						briefly(int64(now)+tt.counter).put(t, server, counterKey)
					}
					ask := counted{Keep: keep, Now: now, Advance: tt.advance, Block: block}
					if tt.floor != 0 {
						ask.Floor = uint64(int64(now) + tt.floor)
					}
					got = []any{granted(t, n, "token", ask), entryOf(t, server, "key"), entryOf(t, server, counterKey)}
					top := uint64(int64(now)+tt.before) + max(1, block)
					counter := briefly(top)
					if tt.advance || tt.floor != 0 || tt.counter == 1 || tt.counter < -second || block > 1 {
						counter.ttl = keep + ttl
					}
					return []any{top, briefly(fenced("token", top)), counter}, got
				}, fmt.Sprintf("%s, a block of %d", tt.what, block))
			}
		}
		do(t, server, "DEL", "key", counterKey)
		granted(t, n, "last", counted{Keep: form.DefaultKeep, Now: now()})
		require.Equal(t, form.DefaultKeep+ttl, entryOf(t, server, counterKey).ttl)
	})
}

// Whatever it is that a client takes for the time: no counter that advances lies behind the server's own clock for more than a second.
func TestCounter_AdvancesToTheServersTimeIfTheClientIsWrong(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for _, counter := range []entry{{}, briefly(now() - 3600*second)} {
			for _, wrong := range []uint64{2 * second, now() - 3600*second, now() + 3600*second} {
				do(t, server, "DEL", "key")
				counter.put(t, server, counterKey)
				before := now()
				got := granted(t, n, "token", counted{Keep: keep, Now: wrong, Advance: true})
				require.Greater(t, got, before)
				require.LessOrEqual(t, got, now()+1)
			}
		}
	})
}
