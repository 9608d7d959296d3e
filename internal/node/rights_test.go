package node_test

import (
	"fmt"
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

// forms are all ways in which a server keeps a lock, and the commands that they take.
var forms = map[string]struct {
	form.Form
	commands []string
}{
	"exclusive":         {form.Exclusive{}, plain},
	"fenced":            {&form.Fenced{Keep: keep}, counting},
	"exclusive, of two": {both{form.Exclusive{}}, plain},
	"fenced, of two":    {both{&form.Fenced{Keep: keep}}, counting},
	"readers":           {form.Shared{Kind: form.KindShared}, sharing},
	"slots":             {form.Shared{Kind: form.KindSlot, Slots: 2}, sharing},
}

var (
	plain    = []string{"getrange", "pttl", "set", "del", "pexpire", "eval"}
	counting = append([]string{"time", "incrby"}, plain...)
	// sharing are the commands that scripts about those who share a key call.
	sharing = []string{
		"getrange", "pttl", "time", "set", "del", "pexpireat", "zadd", "zrem", "zremrangebyscore", "zcard", "zcount", "zscore", "zrangebyscore", "zrevrange",
	}
)

// both takes another lock with each.
type both struct{ form.Joint }

func (b both) Acquire(c *wire.Command, id form.ID, a form.Ask) {
	b.AcquireAll(c, []form.ID{id, {Key: id.Key + "-too", Token: id.Token}}, []form.Ask{a, a})
}

// newOf makes a command of a form.
func newOf(fill func(c *wire.Command)) *wire.Command {
	c := new(wire.Command)
	fill(c)
	return c
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

// take asks for a lock, and returns what it is if that was granted.
func take(t testing.TB, n *node.Node, f form.Form, key, token string) (form.ID, wire.Reply) {
	t.Helper()
	id := form.ID{Key: key, Token: token}
	reply := ask(t, n, newOf(func(c *wire.Command) { f.Acquire(c, id, form.Ask{TTL: ttl, Time: now()}) }))
	if id.Number = reply.Number(); len(reply.Each) > 0 {
		id.Number = reply.Each[0].Number()
	}
	return id, reply
}

// The danger: a lock is granted that can neither be extended nor released, as the user may not do all that this takes.
func TestAcquire_GrantsNothingThatCannotBeGivenBack(t *testing.T) {
	for kind, f := range forms {
		_, shared := f.Form.(form.Shared)
		for _, command := range f.commands {
			for _, beside := range []bool{false, true} {
				if beside && !shared {
					continue
				}
				t.Run(fmt.Sprintf("%s without %s, beside another: %t", kind, command, beside), func(t *testing.T) {
					t.Parallel()
					server, n := restricted(t, "-"+command)
					if beside {
						_, other := take(t, open(t, server.Addr(), patient()), f, "key", "other")
						requireReply(t, quorum.Yes, nil, other)
					}
					id, reply := take(t, n, f, "key", "token")
					if reply.Answer != quorum.Yes {
						requireServerError(t, reply, quorum.Refused, "NOPERM")
						requireEnds(t, server)
						if !shared {
							require.Zero(t, do(t, server, "DBSIZE"))
						}
						ask(t, n, newOf(func(c *wire.Command) { f.Release(c, id, ttl) }))
						requireEnds(t, server)
						return
					}
					if !beside || command != "del" { // the other one may do that
						requireYes(t, n, newOf(func(c *wire.Command) { f.Extend(c, id, 2*ttl) }))
						requireYes(t, n, newOf(func(c *wire.Command) { f.Release(c, id, ttl) }))
					}
					requireEnds(t, server)
				})
			}
		}
	}
}

// The danger: what a process says while it waits stays for ever, and keeps everybody out.
func TestWant_LeavesNothingWithoutAnEnd(t *testing.T) {
	readers, entry := form.Shared{Kind: form.KindShared}, form.Demand{}
	for _, missing := range []string{"time", "zrangebyscore", "zadd", "pexpire", "zrem", "zremrangebyscore", "eval", "memory"} {
		t.Run("without "+missing, func(t *testing.T) {
			t.Parallel()
			rule := "-" + missing
			if missing == "memory" {
				rule = "+@all"
			}
			server, n := restricted(t, rule)
			if missing == "memory" {
				do(t, server, "CONFIG", "SET", "maxmemory", 1)
			}
			said := ask(t, n, form.Want("key", "process", entry))
			requireEnds(t, server)
			_ = ask(t, n, form.Unwant("key", "process", entry))
			requireEnds(t, server)
			do(t, server, "CONFIG", "SET", "maxmemory", 0)
			if missing == "zrem" { // it was said, and ends by itself
				requireReply(t, quorum.Yes, nil, said)
				return
			}
			require.NotEqual(t, quorum.Yes, said.Answer)
			_, reply := take(t, open(t, server.Addr(), patient()), readers, "key", "token")
			requireReply(t, quorum.Yes, nil, reply)
		})
	}
}

func TestWant_OfManyProcessesIsHeeded(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	n := open(t, server.Addr(), patient())
	readers := form.Shared{Kind: form.KindShared}
	for i := range 70 {
		requireYes(t, n, form.Want("key", fmt.Sprint("process-", i), form.Demand{Limit: 9, Kind: form.KindSlot}))
	}
	_, reply := take(t, n, readers, "key", "token") // a limit of slots is none of readers
	requireReply(t, quorum.Yes, nil, reply)
	requireYes(t, n, form.Want("key", "writer", form.Demand{}))
	_, reply = take(t, n, readers, "key", "another")
	requireReply(t, quorum.No, nodeerr.ErrWanted, reply)
	_, reply = take(t, n, form.Shared{Kind: form.KindShared, Pass: true}, "key", "another")
	requireReply(t, quorum.Yes, nil, reply)
	requireYes(t, n, form.Unwant("key", "writer", form.Demand{}))
	_, reply = take(t, n, readers, "key", "third")
	requireReply(t, quorum.Yes, nil, reply)
	for i := range 1024 {
		do(t, server, "ZADD", "{key}:wanted", time.Now().Add(time.Second*9).UnixMilli(), fmt.Sprintf("9|more-%d|slots", i))
	}
	_, reply = take(t, n, readers, "key", "fourth") // more entries than are read
	requireReply(t, quorum.No, nodeerr.ErrWanted, reply)
}

// An entry of a server whose clock was set back would last for long.
func TestWant_OfAClockThatWasSetBackIsIgnored(t *testing.T) {
	server := testredis.Real(t, 1)[0]
	n := open(t, server.Addr(), patient())
	do(t, server, "ZADD", "{key}:wanted", time.Now().Add(time.Hour).UnixMilli(), "0|process")
	_, reply := take(t, n, form.Shared{Kind: form.KindShared}, "key", "token")
	requireReply(t, quorum.Yes, nil, reply)
	requireYes(t, n, form.Want("key", "another", form.Demand{}))
	require.EqualValues(t, 1, do(t, server, "ZCARD", "{key}:wanted"), "it is removed")
}

// That somebody else has the key proves nothing: nor does what another connection was granted.
func TestAcquire_WhatWasNotGrantedProvesNothing(t *testing.T) {
	server, n := restricted(t, "-del")
	theirs := open(t, server.Addr(), patient())
	for range 3 {
		_, reply := take(t, theirs, form.Exclusive{}, "key", "theirs")
		requireReply(t, quorum.Yes, nil, reply)
		_, reply = take(t, n, form.Exclusive{}, "key", "token")
		requireReply(t, quorum.No, nodeerr.ErrHeld, reply)
		requireYes(t, theirs, newRelease("key", "theirs", ttl))
		_, reply = take(t, n, form.Exclusive{}, "key", "token")
		requireServerError(t, reply, quorum.Refused, "NOPERM")
		require.Zero(t, do(t, server, "DBSIZE"))
	}
}

// What a server forgets between two acquires is asked for again: that must not come behind the release.
func TestAcquire_AFirstOneIsNotSentAgainBehindItsRelease(t *testing.T) {
	first, g := form.Scripts["first_acquire"], new(gate)
	f := newFake(t, func(c *peer, args []string) string {
		switch {
		case args[0] == "EVAL" && args[1] == first.Source:
			return "+OK\r\n"
		case args[0] == "EVALSHA" && args[1] == first.Hash:
			return "-NOSCRIPT No matching script.\r\n"
		}
		return likeRedis(c, args)
	})
	f.gate, f.raw = g, true
	n := f.open(t, patient())
	requireYes(t, n, newExtend("key", "token", ttl)) // connects, and grants nothing
	replies := g.together(t, n, []*wire.Command{
		newAcquire("other", "another", ttl), newAcquire("key", "token", ttl), newRelease("key", "token", ttl), newAcquire("third", "token", ttl),
	})
	requireReply(t, quorum.Yes, nil, replies[0])
	requireServerError(t, replies[1], quorum.Refused, "NOSCRIPT")
	requireReply(t, quorum.Yes, nil, replies[2])
	requireReply(t, quorum.Yes, nil, replies[3])
}

// Such a user can set a key and delete it, and cannot see whose it is.
func TestAcquire_GrantsNothingToWhoMayNotRead(t *testing.T) {
	for kind, f := range forms {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if testredis.IsOld(t, testredis.Real(t, 1)[0]) {
				return
			}
			server, n := restricted(t, "resetkeys", "%W~*")
			_, reply := take(t, n, f, "key", "token")
			requireServerError(t, reply, quorum.Refused, "NOPERM")
			require.Zero(t, do(t, server, "DBSIZE"))
		})
	}
}

// The danger: a script that goes by its hash is refused, and the lock stays for its TTL.
func TestScript_GoesByItsSourceToAServerThatAcceptsNoHash(t *testing.T) {
	for kind, f := range forms {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server, n := restricted(t, "-evalsha")
			for range 3 {
				id, reply := take(t, n, f, "key", "token")
				requireReply(t, quorum.Yes, nil, reply)
				requireYes(t, n, newOf(func(c *wire.Command) { f.Release(c, id, ttl) }))
				do(t, server, "DEL", "key-too")
			}
		})
	}
	t.Run("unknown to a proxy", func(t *testing.T) {
		f := newFake(t, answering("EVALSHA", "-ERR unknown command 'EVALSHA', with args beginning with: 'x' '1'\r\n"))
		n := f.open(t, patient())
		for range 3 {
			requireYes(t, n, newRelease("key", "token", ttl))
		}
		require.Equal(t, 1, f.count("EVALSHA"))
	})
}

// oldest names the oldest connection to a server that speaks RESP3: not one of the test, which the server may not have closed yet.
func oldest(t testing.TB, server testredis.Server) string {
	t.Helper()
	list, err := redis.String(do(t, server, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	for client := range strings.Lines(list) {
		if id, rest, _ := strings.Cut(client, " "); strings.Contains(rest, " resp=3") || !strings.Contains(rest, " resp=") { // Redis 6.2 does not show it
			return id
		}
	}
	require.Fail(t, "no node is connected", list)
	return ""
}

// The danger: of a full server only some kinds of locks notice that it is full.
func TestAcquire_IsRefusedByAServerThatIsOutOfMemory(t *testing.T) {
	for kind, f := range forms {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server, n := openReal(t)
			full := func(limit int) { do(t, server, "CONFIG", "SET", "maxmemory", limit) }
			second := "key"
			if _, shared := f.Form.(form.Shared); !shared {
				second = "second"
			}
			full(1)
			_, reply := take(t, n, f, "key", "first")
			requireRefused(t, reply, "OOM")
			require.Zero(t, do(t, server, "DBSIZE"))
			full(0)
			id, reply := take(t, n, f, "key", "first")
			requireReply(t, quorum.Yes, nil, reply)
			full(1)
			_, reply = take(t, n, f, second, "second")
			requireRefused(t, reply, "OOM")
			requireYes(t, n, newOf(func(c *wire.Command) { f.Extend(c, id, 2*ttl) }))
			requireYes(t, n, newOf(func(c *wire.Command) { f.Release(c, id, ttl) }))
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
		for _, kind := range []string{"readers", "slots"} {
			f := forms[kind]
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
						do(t, server, "SET", "key", map[string]string{"readers": "|shared", "slots": "|slots"}[kind], "PX", ttl.Milliseconds())
					}
					before := do(t, server, "DUMP", data[1])
					id := form.ID{Key: "key", Token: "token", Number: 1}
					reply := ask(t, n, newOf(func(c *wire.Command) { f.Acquire(c, id, form.Ask{TTL: ttl}) }))
					requireReply(t, quorum.Refused, nodeerr.ErrForeign, reply)
					requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, newOf(func(c *wire.Command) { f.Extend(c, id, ttl) })))
					if marked {
						requireReply(t, quorum.Refused, nodeerr.ErrForeign, ask(t, n, f.Observe("key")))
						requireReply(t, quorum.No, nodeerr.ErrForeign, ask(t, n, newOf(func(c *wire.Command) { f.Release(c, id, ttl) })))
					}
					require.Equal(t, before, do(t, server, "DUMP", data[1]))
					require.Equal(t, connection, oldest(t, server), "the node has connected again")
				})
			}
		}
	}
}
