package node_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// data is what a stranger, who knows nothing of locks, keeps under a key of theirs.
type data struct {
	what, command string
	args          []any // of the command, behind the key
}

// strangersData is what can be no fence counter: anything but a number from 1 to 2^53-1 as scripts write it.
func strangersData() (all []data) {
	for _, text := range []string{
		"", "0", "-0", "-1", "+1", " 12", "12 ", "0012", "12\n", "3.14", "1e5", "1e15", "0x10", "inf", "nan", "-inf", "hello", "token|7", "\x00",
		"9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808", "12345678901234567890", strings.Repeat("9", 400),
		strings.Repeat("1", 500_000),
	} {
		all = append(all, data{fmt.Sprintf("%.24q of %d", text, len(text)), "SET", []any{text}})
	}
	return append(all,
		data{"list", "RPUSH", []any{"7"}}, data{"hash", "HSET", []any{"field", "7"}}, data{"set", "SADD", []any{"7"}},
		data{"sorted set", "ZADD", []any{"7", "7"}}, data{"stream", "XADD", []any{"1-1", "field", "7"}},
	)
}

// isText reports whether the data is a string, and which one.
func (d data) isText() (text string, is bool) { return d.args[0].(string), d.command == "SET" }

// onStrangersData runs a test with each of a stranger's data under the key, with a TTL and without. keeps empties the server and puts
// the data there. The function that it returns fails the test if the data, or its TTL, has changed.
func onStrangersData(t *testing.T, key string, test func(t *testing.T, server testredis.Server, n *node.Node, d data, keeps func() (intact func(string)))) {
	process, n := openReal(t)
	server := testredis.Lasting(t, process)
	for _, d := range strangersData() {
		for _, expires := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, expires: %t", d.what, expires), func(t *testing.T) {
				test(t, server, n, d, func() func(string) {
					do(t, server, "FLUSHALL")
					do(t, server, d.command, append([]any{key}, d.args...)...)
					if expires {
						do(t, server, "PEXPIRE", key, 40_000) // far less than any TTL that scripts set
					}
					before := do(t, server, "DUMP", key)
					return func(what string) {
						t.Helper()
						require.Equal(t, before, do(t, server, "DUMP", key), "%s: the data under %s", what, key)
						ms := redisInt(t, server, "PTTL", key)
						require.Equal(t, expires, ms > 0 && ms <= 40_000, "%s: the TTL of %s is %d", what, key, ms)
						require.Equal(t, !expires, ms == -1, "%s: the TTL of %s is %d", what, key, ms)
					}
				})
			})
		}
	}
}

// What a fenced command does to the key when a stranger's data is where its counter should be, for everything that the key
// may hold. Nobody's data under a key of the counter is changed, whatever the command.
func TestScript_LeavesDataOfOthersAloneInThePlaceOfTheCounter(t *testing.T) {
	const other = "other|5"
	extend := newExtendFenced("key", "token", 7, 10*ttl, keep)
	tests := []struct {
		what   string
		cmd    *wire.Command
		held   string // by the key before, with a TTL; "" means that it is missing
		answer quorum.Answer
		reason error
		after  string
	}{
		{"acquire", newAcquireFenced("key", "token", ttl, at(now())), "", quorum.Refused, nodeerr.ErrForeign, ""},
		{"acquire what is held", newAcquireFenced("key", "token", ttl, at(now())), other, quorum.Refused, nodeerr.ErrForeign, other},
		{"acquire without the time", newAcquireFenced("key", "token", ttl, counted{Keep: keep}), "", quorum.Refused, nodeerr.ErrForeign, ""},
		{"acquire, advancing", newAcquireFenced("key", "token", ttl, counted{Keep: keep, Now: now(), Advance: true}), "", quorum.Refused, nodeerr.ErrForeign, ""},
		{"acquire above a floor", newAcquireFenced("key", "token", ttl, counted{Keep: keep, Now: now(), Floor: now()}), "", quorum.Refused, nodeerr.ErrForeign, ""},
		{"acquire a block", newAcquireFenced("key", "token", ttl, counted{Keep: keep, Now: now(), Block: 50}), "", quorum.Refused, nodeerr.ErrForeign, ""},
		{"acquire a block of what is held", newAcquireFenced("key", "token", ttl, counted{Keep: keep, Block: 50}), other, quorum.Refused, nodeerr.ErrForeign, other},

		{"raise", newRaise("key", "token", 5, 7), "token|5", quorum.Refused, nodeerr.ErrForeign, "token|5"},
		{"raise another's", newRaise("key", "token", 5, 7), other, quorum.No, nodeerr.ErrHeld, other},
		{"raise nothing", newRaise("key", "token", 5, 7), "", quorum.No, nodeerr.ErrAbsent, ""},

		{"extend", extend, "token|7", quorum.Yes, nil, "token|7"},
		{"extend with another number", extend, "token|5", quorum.Yes, nil, "token|7"},
		{"extend another's", extend, other, quorum.No, nodeerr.ErrHeld, other},
		{"extend nothing", extend, "", quorum.No, nodeerr.ErrForeign, ""},

		{"release", newReleaseFenced("key", "token", 7, ttl), "token|7", quorum.Yes, nil, ""},
		{"release with another number", newReleaseFenced("key", "token", 7, ttl), "token|5", quorum.Yes, nil, ""},
		{"release another's", newReleaseFenced("key", "token", 7, ttl), other, quorum.No, nodeerr.ErrHeld, other},
		{"release nothing", newReleaseFenced("key", "token", 7, ttl), "", quorum.No, nodeerr.ErrAbsent, ""},
		{"delete", newDeleteFenced("key", "token", 7), "token|5", quorum.Yes, nil, ""},
		{"delete another's", newDeleteFenced("key", "token", 7), other, quorum.No, nodeerr.ErrHeld, other},
	}
	onStrangersData(t, counterKey, func(t *testing.T, server testredis.Server, n *node.Node, d data, keeps func() func(string)) {
		for _, tt := range tests {
			if text, isText := d.isText(); isText && text == "" && tt.answer == quorum.Refused && tt.held == other {
				tt.answer, tt.reason = quorum.No, nodeerr.ErrHeld // an empty string is noticed when the counter is to be set
			}
			intact := keeps()
			if tt.held != "" {
				do(t, server, "SET", "key", tt.held, "PX", ttl.Milliseconds())
			}
			reply := ask(t, n, tt.cmd)
			require.Equal(t, tt.answer, reply.Answer, "%s: %v", tt.what, reply.Err)
			require.ErrorIs(t, reply.Err, tt.reason, tt.what)
			require.Equal(t, tt.after, holds(t, server, "key"), tt.what)
			intact(tt.what)
			switch {
			case tt.cmd == extend && tt.answer == quorum.Yes:
				require.Greater(t, left(t, server, "key"), 5*ttl, "the lock lives on")
			case tt.after != "":
				require.LessOrEqual(t, left(t, server, "key"), ttl, tt.what)
			}
			if tt.what == "extend nothing" {
				require.ErrorIs(t, reply.Err, nodeerr.ErrAbsent)
			}
		}
	})
}

// The joined script has paths of its own, and others of the same script before and after.
func TestBatch_LeavesDataOfOthersAloneInThePlaceOfTheCounter(t *testing.T) {
	onStrangersData(t, counterKey, func(t *testing.T, server testredis.Server, _ *node.Node, _ data, keeps func() func(string)) {
		intact := keeps()
		n := newNode(server.Addr(), patient())
		defer closeInTime(t, n)
		ask := at(now())
		replies := together(t, n, []*wire.Command{
			newAcquireFenced("a", "token", ttl, ask), newAcquireFenced("key", "token", ttl, ask),
			newReleaseFenced("key", "token", 7, ttl), newAcquireFenced("b", "token", ttl, ask),
			newAcquireFenced("key", "token", ttl, ask), newReleaseFenced("a", "token", 7, ttl),
		})
		for i, want := range []quorum.Answer{quorum.Yes, quorum.Refused, quorum.No, quorum.Yes, quorum.Refused, quorum.Yes} {
			require.Equal(t, want, replies[i].Answer, "command %d: %v", i, replies[i].Err)
		}
		require.EqualValues(t, 1, do(t, server, "EXISTS", "a", "key", "b"))
		intact("joined commands")
	})
}

// What no token of ours is, under the name of a lock: it stays as it is, nothing is counted for it, and the reason is the same
// for plain and for fenced commands. A short string without a TTL may be a lock that has lost its TTL.
func TestScript_LeavesDataOfOthersAloneInThePlaceOfTheLock(t *testing.T) {
	plain := map[string]*wire.Command{
		"acquire": newAcquire("key", "token", ttl), "extend": newExtend("key", "token", 10*ttl), "release": newRelease("key", "token", ttl),
		"delete": newDelete("key", "token"), "heal": form.Exclusive{}.Heal("key", "token"),
	}
	fenced := map[string]*wire.Command{
		"acquire": newAcquireFenced("key", "token", ttl, at(now())), "extend": newExtendFenced("key", "token", 9, 10*ttl, keep),
		"release": newReleaseFenced("key", "token", 9, ttl), "delete": newDeleteFenced("key", "token", 9),
		"raise": newRaise("key", "token", 7, 9),
	}
	onStrangersData(t, "key", func(t *testing.T, server testredis.Server, n *node.Node, d data, keeps func() func(string)) {
		text, isText := d.isText()
		if text == "token|7" {
			return // that is a lock
		}
		for _, commands := range []map[string]*wire.Command{plain, fenced} {
			for what, cmd := range commands {
				for _, counter := range []uint64{0, 5, 12} {
					intact := keeps()
					if counter > 0 {
						do(t, server, "SET", counterKey, counter, "PX", ttl.Milliseconds())
					}
					reply := ask(t, n, cmd)
					switch {
					case what == "acquire", what == "heal" && isText, what == "raise" && isText:
						requireReply(t, quorum.No, nodeerr.ErrHeld, reply)
					case !isText && (what == "heal" || what == "raise"):
						requireRefused(t, reply, "WRONGTYPE")
						require.ErrorIs(t, reply.Err, nodeerr.ErrForeign)
					case (!isText || len(text) > wire.MaxToken) && (what == "extend" || left(t, server, "key") < 0):
						requireReply(t, quorum.No, nodeerr.ErrForeign, reply)
					default:
						requireReply(t, quorum.No, nodeerr.ErrHeld, reply)
						require.NotErrorIs(t, reply.Err, nodeerr.ErrForeign)
					}
					intact(what)
					if counter > 0 { // a release that may have come late raises it
						require.Contains(t, []uint64{counter, max(counter, 9)}, number(t, server), what)
						require.LessOrEqual(t, left(t, server, counterKey), ttl, what)
					} else {
						require.EqualValues(t, 0, do(t, server, "EXISTS", counterKey), what)
					}
				}
			}
		}
		intact := keeps()
		switch reply := ask(t, n, form.Exclusive{}.Observe("key")); {
		case !isText, len(text) > wire.MaxToken:
			requireReply(t, quorum.Refused, nodeerr.ErrForeign, reply)
		default:
			require.Equal(t, quorum.Yes, reply.Answer)
			require.Equal(t, text, reply.Value)
		}
		intact("observe")
	})
}

// A server that is asked about a key with megabytes of somebody's data copies none of them, neither for the reply nor for
// the script.
func TestScript_DoesNotCopySomebodysData(t *testing.T) {
	const size = 64 << 20
	server, n := openReal(t)
	for _, key := range []string{"key", counterKey} {
		do(t, server, "FLUSHALL")
		do(t, server, "SETRANGE", key, size-1, "x")
		if key == counterKey {
			do(t, server, "SET", "key", "token|5")
		}
		for kind, cmd := range everyKind() {
			before := peak(t, server)
			_ = ask(t, n, cmd)
			require.Less(t, peak(t, server)-before, size/2, "%s, with the data under %s", kind, key)
			require.EqualValues(t, size, do(t, server, "STRLEN", key), kind)
		}
	}
}

// peak returns the most memory that the server has used.
func peak(t testing.TB, server testredis.Server) int {
	t.Helper()
	bytes, err := strconv.Atoi(testredis.Info(t, server, "memory", "used_memory_peak"))
	require.NoError(t, err)
	return bytes
}
