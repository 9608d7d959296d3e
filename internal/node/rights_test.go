package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// forms are all ways in which a server keeps a lock.
var forms = map[string]form.Form{
	"readers": form.Shared{Kind: form.Read}, "permits": form.Shared{Kind: form.Permit, Limit: 2},
}

// newOf makes a command of a form.
func newOf(fill func(c *wire.Command)) *wire.Command {
	c := new(wire.Command)
	fill(c)
	return c
}

// sharing are the commands that scripts about those who share a key call.
var sharing = []string{
	"getrange", "pttl", "time", "set", "del", "pexpireat", "zadd", "zrem", "zremrangebyscore", "zcard", "zcount", "zscore", "zrangebyscore", "zrevrange",
}

// besides are the keys of a lock that some share.
var besides = []string{"key", "{key}:sharers", "{key}:slots", "{key}:wanted"}

// requireEnds fails the test if a key never ends.
func requireEnds(t testing.TB, server testredis.Server) {
	t.Helper()
	keys, err := redis.Strings(do(t, server, "KEYS", "*"), nil)
	require.NoError(t, err)
	for _, key := range keys {
		require.NotEqualValues(t, -1, do(t, server, "PTTL", key), "%s has no TTL", key)
	}
}

// The danger: a lock is granted that can neither be extended nor released, as the user may not do all that this takes.
func TestAcquire_GrantsNothingThatCannotBeGivenBack(t *testing.T) {
	for kind, f := range forms {
		for _, command := range sharing {
			for _, beside := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s without %s, beside another: %t", kind, command, beside), func(t *testing.T) {
					t.Parallel()
					server, n := restricted(t, "-"+command)
					mark := form.Mark{Key: "key", Token: "token"}
					if beside {
						other := open(t, server.Addr(), patient())
						requireYes(t, other, newOf(func(c *wire.Command) { f.Acquire(c, form.Mark{Key: "key", Token: "other"}, form.Ask{TTL: ttl}) }))
					}
					reply := ask(t, n, newOf(func(c *wire.Command) { f.Acquire(c, mark, form.Ask{TTL: ttl}) }))
					mark.Number = reply.Number
					if reply.Answer != quorum.Yes {
						requireServerError(t, reply, quorum.Refused, "NOPERM")
						requireEnds(t, server)
						ask(t, n, newOf(func(c *wire.Command) { f.Release(c, mark, ttl) }))
						requireEnds(t, server)
						return
					}
					if !beside || command != "del" { // the other one may do that
						requireYes(t, n, newOf(func(c *wire.Command) { f.Extend(c, mark, 2*ttl) }))
						requireYes(t, n, newOf(func(c *wire.Command) { f.Release(c, mark, ttl) }))
					}
					requireEnds(t, server)
				})
			}
		}
	}
}

// oldest names the oldest connection to a server.
func oldest(t testing.TB, server testredis.Server) string {
	t.Helper()
	list, err := redis.String(do(t, server, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	id, _, _ := strings.Cut(list, " ")
	return id
}

// The danger: of a full server only some kinds of locks notice that it is full.
func TestAcquire_IsRefusedByAServerThatIsOutOfMemory(t *testing.T) {
	for kind, f := range forms {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server, n := openReal(t)
			full := func(limit int) { do(t, server, "CONFIG", "SET", "maxmemory", limit) }
			acquire := func(token string) wire.Reply {
				return ask(t, n, newOf(func(c *wire.Command) { f.Acquire(c, form.Mark{Key: "key", Token: token}, form.Ask{TTL: ttl}) }))
			}
			full(1)
			requireRefused(t, acquire("first"), "OOM")
			requireNone(t, server, besides...)
			full(0)
			first := acquire("first")
			requireReply(t, quorum.Yes, nil, first)
			full(1)
			requireRefused(t, acquire("second"), "OOM")
			mark := form.Mark{Key: "key", Token: "first", Number: first.Number}
			requireYes(t, n, newOf(func(c *wire.Command) { f.Extend(c, mark, 2*ttl) }))
			requireYes(t, n, newOf(func(c *wire.Command) { f.Release(c, mark, ttl) }))
			requireNone(t, server, besides...)
		})
	}
}

// Data of another program beside the key is foreign. It must not end the connection, nor look like an outage, and stays as it is.
func TestShared_DataBesideTheKeyIsForeignAndStays(t *testing.T) {
	members := func(n int, score func(i int) any) (args []any) {
		for i := range n {
			args = append(args, score(i), fmt.Sprint("member-", i))
		}
		return args
	}
	rising := func(i int) any { return i }
	huge := time.Now().Add(24 * time.Hour).UnixMilli()
	for what, data := range map[string][]any{
		"9,000 members":              append([]any{"ZADD", "{key}:slots"}, members(9000, rising)...),
		"9,000 members in 9 slots":   append([]any{"ZADD", "{key}:slots"}, members(9000, func(i int) any { return i % 9 })...),
		"a slot that is none":        {"ZADD", "{key}:slots", 1024, "member"},
		"a slot below all":           {"ZADD", "{key}:slots", -1, "member"},
		"a slot without end":         {"ZADD", "{key}:slots", "inf", "member"},
		"slots of another type":      {"RPUSH", "{key}:slots", "member"},
		"a time without end":         {"ZADD", "{key}:sharers", "inf", "member"},
		"a time that is none":        {"ZADD", "{key}:sharers", "9007199254740992", "member"},
		"more times than slots":      append([]any{"ZADD", "{key}:sharers"}, members(9000, func(int) any { return huge })...),
		"sharers that are of a type": {"SET", "{key}:sharers", "data"},
	} {
		for kind, f := range forms {
			if kind == "readers" && (strings.Contains(data[1].(string), "slots") || strings.Contains(what, "slots")) {
				continue // who has no slots does not look
			}
			for _, marked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, marked: %t", what, kind, marked), func(t *testing.T) {
					t.Parallel()
					server, n := openReal(t)
					requireYes(t, n, newAcquire("another", "token", ttl))
					connection := oldest(t, server)
					do(t, server, data[0].(string), data[1:]...)
					if marked {
						do(t, server, "SET", "key", map[string]string{"readers": "|readers", "permits": "|permits"}[kind], "PX", ttl.Milliseconds())
					}
					before := do(t, server, "DUMP", data[1])
					mark := form.Mark{Key: "key", Token: "token", Number: 1}
					reply := ask(t, n, newOf(func(c *wire.Command) { f.Acquire(c, mark, form.Ask{TTL: ttl}) }))
					requireReply(t, quorum.Refused, nodeerr.ErrForeign, reply)
					requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, newOf(func(c *wire.Command) { f.Extend(c, mark, ttl) })))
					if marked {
						requireReply(t, quorum.Refused, nodeerr.ErrForeign, ask(t, n, f.Observe("key")))
						requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, newOf(func(c *wire.Command) { f.Release(c, mark, ttl) })))
					}
					require.Equal(t, before, do(t, server, "DUMP", data[1]))
					require.Equal(t, connection, oldest(t, server), "the node has connected again")
				})
			}
		}
	}
}
