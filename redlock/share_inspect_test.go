package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// read takes a shared lock. If it is held when the test ends, it is released.
func read(tb testing.TB, locker *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	tb.Helper()
	return got(locker.TryLock(tb.Context(), name, append(opts, redlock.Shared())...))(tb)
}

// shared waits until so many readers are on each of some servers, all by default.
func (c *cluster) shared(name string, readers int, on ...int) {
	c.tb.Helper()
	for i := range c.servers {
		if on == nil || slices.Contains(on, i) {
			eventually(c.tb, func() bool { return c.do(i, "ZCARD", "{"+name+"}:sharers") == int64(readers) }, "%d readers on server %d", readers, i)
		}
	}
}

// eventuallyWaiting waits until each server has an entry of each process that waits for a shared name.
func (c *cluster) eventuallyWaiting(name string, processes int) {
	c.tb.Helper()
	c.each(func(i int) {
		eventually(c.tb, func() bool { return c.do(i, "ZCARD", "{"+name+"}:wanted") == int64(processes) }, "%d on server %d", processes, i)
	})
}

// want tells the first n servers that a process waits for a lock that others share.
func (c *cluster) want(n int, name, entry string) {
	c.tb.Helper()
	c.doFirst(n, "EVAL", form.Scripts["share_want"].Source, 1, "{"+name+"}:wanted", entry, 3000)
}

// crowd puts readers on servers as if they had come one by one: the i-th has the token reader-i, and an hour and i minutes left.
func (c *cluster) crowd(name string, readers int, on ...int) {
	c.tb.Helper()
	const script = `local time = redis.call('TIME')
for i = 1, tonumber(ARGV[1]) do redis.call('ZADD', KEYS[2], time[1] * 1000 + 3600000 + i * 60000, 'reader-' .. i) end
redis.call('SET', KEYS[1], '|shared', 'PX', 864000000)
redis.call('PEXPIRE', KEYS[2], 864000000)`
	for i := range c.servers {
		if on == nil || slices.Contains(on, i) {
			c.do(i, "EVAL", script, 2, name, "{"+name+"}:sharers", readers)
		}
	}
}

func TestInspect_ShowsTheReaders(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker(redlock.WithFencing())
		short := read(t, locker, "name", redlock.TTL(long/2), redlock.Metadata("report of db3"))
		lasting := read(t, c.locker(), "name", redlock.TTL(long))
		c.shared("name", 2)
		c.do(2, "ZREM", "{name}:sharers", lasting.Token())
		c.do(1, "ZADD", "{name}:sharers", time.Now().Add(long).UnixMilli(), "on one")
		s := inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictHeld, s.Verdict)
		require.Equal(t, redlock.KindShared, s.Kind)
		require.Len(t, s.Holders, 2)
		for i, want := range []redlock.Holder{
			{Token: short.Token(), Metadata: "report of db3", TTL: long / 2, Nodes: 3},
			{Token: lasting.Token(), TTL: long, Nodes: 2},
		} {
			require.InDelta(t, want.TTL, s.Holders[i].TTL, float64(time.Minute))
			want.TTL = s.Holders[i].TTL
			require.Equal(t, want, s.Holders[i])
		}
		for i, readers := range []int{2, 3, 1} {
			n := s.Nodes[i]
			require.Len(t, n.Holders, readers)
			require.Equal(t, short.Token(), n.Holders[0].Token)
			require.Equal(t, 1, n.Holders[0].Nodes)
			n.Holders = nil
			require.Greater(t, n.TTL, long, "the mark's")
			require.Equal(t, redlock.NodeState{Addr: c.servers[i].Addr(), Kind: redlock.KindShared, TTL: n.TTL}, n)
		}
		unlock(t, short, lasting)
		c.doAll("DEL", "name", "{name}:sharers")
		require.Equal(t, redlock.VerdictNobody, inspect(t, locker, "name").Verdict)
		require.Empty(t, inspect(t, locker, "name").Kind)
	})
}

func TestInspect_OfAReaderAsksTheNodesThatAnswer(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.crowd("name", 1)
		c.do(1, "ZREM", "{name}:sharers", "reader-1")
		c.do(1, "ZADD", "{name}:sharers", time.Now().Add(long).UnixMilli(), "another")
		locker := lockerOver(t, c.nodes())
		s := inspect(t, locker, "name")
		require.EqualValues(t, "reader-1", s.Holders[0].Token)
		require.Equal(t, 2, s.Holders[0].Nodes)
		c.servers[2].Stop()
		s = inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictUnknown, s.Verdict, "the node that is down decides")
		require.Equal(t, redlock.KindShared, s.Kind)
		require.Nil(t, s.Holders)
		require.Len(t, s.Nodes[1].Holders, 1)
		c.servers[1].Stop()
		s, err := locker.Inspect(t.Context(), "name")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, redlock.VerdictUnknown, s.Verdict)
	})
}

// The danger: nodes that have shown the mark, and not yet who the readers are, seem to show that nobody is there.
func TestInspect_ThatEndsBeforeItHasTheReadersDoesNotKnow(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.crowd("name", 1)
		ctx, cancel := context.WithCancel(t.Context())
		var asked atomic.Int64
		gate := make(chan struct{})
		locker := lockerOver(t, c.nodes(throughWires(func(_ string, w *tapped) {
			w.wrote = func(p []byte) {
				if strings.Contains(string(p), "{name}:sharers") {
					if asked.Add(1) == 3 {
						cancel()
					}
					<-gate
				}
			}
		})))
		s, err := locker.Inspect(ctx, "name")
		close(gate)
		requireIs(t, err, redlock.ErrNoQuorum, context.Canceled)
		require.Equal(t, redlock.VerdictUnknown, s.Verdict)
		c.doAll("DEL", "name", "{name}:sharers")
	})
}

// The danger: a mark without readers, which keeps writers out for ever, is shown as a lock that is free, or held.
func TestMark_ThatNobodyIsInIsHeldByNobodyAndIsRemovedByForce(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		c.crowd("name", 1)
		c.doAll("PERSIST", "name")
		c.doAll("DEL", "{name}:sharers")
		s := inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictNobody, s.Verdict)
		require.Equal(t, redlock.KindShared, s.Kind)
		require.Nil(t, s.Holders)
		for i, n := range s.Nodes {
			require.Equal(t, redlock.NodeState{Addr: c.servers[i].Addr(), Kind: redlock.KindShared, TTL: redlock.NoLimit}, n)
		}
		requireIs(t, errOf(locker.TryLock(t.Context(), "name")), redlock.ErrTaken)
		require.Nil(t, must(locker.ForceUnlock(t.Context(), "name"))(t))
		require.Equal(t, 3, c.holding("name", ""), "the marks are gone")
		unlock(t, take(t, locker, "name"))
	})
}

func TestInspect_ReadsAllPagesUpToItsBound(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		locker := c.locker()
		for _, test := range []struct{ readers, shown int }{{256, 256}, {257, 257}, {700, 700}, {2100, 2048}} {
			c.doAll("DEL", "name", "{name}:sharers")
			c.crowd("name", test.readers)
			s := inspect(t, locker, "name")
			require.Len(t, s.Holders, test.shown)
			for i, h := range s.Holders {
				require.EqualValues(t, fmt.Sprint("reader-", i+1), h.Token)
				require.Equal(t, 3, h.Nodes)
			}
		}
		c.doAll("DEL", "name", "{name}:sharers")
	})
}

// The danger: a server that names a reader twice is two nodes of three, so a reader of one node holds the lock.
func TestInspect_CountsANodeOnceHoweverOftenItNamesAReader(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, c *cluster) {
		c.crowd("name", 3, 0)
		locker := lockerOver(t, c.nodes(throughWires(func(_ string, w *tapped) {
			w.gotten = func(p []byte) bool {
				copy(p, bytes.ReplaceAll(p, []byte("reader-2"), []byte("reader-1")))
				return true
			}
		})))
		s := inspect(t, locker, "name")
		require.Equal(t, redlock.VerdictNobody, s.Verdict)
		var tokens []redlock.Token
		for _, h := range s.Nodes[0].Holders {
			tokens = append(tokens, h.Token)
		}
		require.Equal(t, []redlock.Token{"reader-1", "reader-3"}, tokens)
		c.do(0, "DEL", "name", "{name}:sharers")
	})
}

// 5,000 holders are more than are read at a time, and others try to come meanwhile.
func TestForceUnlock_EndsAllThatShareALock(t *testing.T) {
	onServers(t, 3, func(t *testing.T, c *cluster) {
		locker, other := c.locker(), c.locker()
		c.crowd("name", 5000)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		come := beside(func() error {
			for ctx.Err() == nil {
				_, _ = other.TryLock(ctx, "name", redlock.Shared(), redlock.TTL(10*time.Second))
			}
			return nil
		})
		removed, err := locker.ForceUnlock(t.Context(), "name")
		cancel()
		require.NoError(t, err)
		require.NoError(t, receive(t, come, "the end"))
		everywhere, tokens := 0, map[redlock.Token]bool{}
		for _, h := range removed {
			tokens[h.Token] = true
			if h.Nodes == 3 {
				everywhere++
			}
		}
		require.GreaterOrEqual(t, everywhere, 5000)
		require.Len(t, tokens, len(removed), "each of them once")
		c.eventuallyWaiting("name", 0)
		_, err = locker.ForceUnlock(t.Context(), "name") // and what came afterwards
		require.NoError(t, err)
		unlock(t, take(t, locker, "name"))
	})
}

// The danger: those who leave while a page is on its way move others to the page before, which was read.
func TestInspect_MissesNobodyThoughOthersLeave(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1)
	c.crowd("name", 400)
	pages := 0
	opt := throughWires(func(_ string, w *tapped) {
		w.wrote = func(p []byte) {
			if strings.Contains(string(p), "{name}:sharers") {
				if pages++; pages == 2 {
					c.do(0, "ZREMRANGEBYRANK", "{name}:sharers", 0, 49)
				}
			}
		}
	})
	s := inspect(t, lockerOver(t, c.nodes(opt)), "name")
	require.Equal(t, 2, pages)
	require.Len(t, s.Holders, 400)
	c.do(0, "DEL", "name", "{name}:sharers")
}

func TestInspect_OfAPlainLockAsksEachNodeOnce(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3)
	locker := c.locker()
	c.doAll("SET", "plain", "token")
	c.crowd("shared", 1)
	for _, name := range []string{"shared", "plain", "free"} {
		inspect(t, locker, name)
	}
	for name, want := range map[string]int{"plain": 3, "free": 3, "shared": 6} {
		before := c.calls("eval", "evalsha")
		s := inspect(t, locker, name)
		require.Equal(t, want, c.calls("eval", "evalsha")-before, name)
		if name == "plain" {
			require.Equal(t, []redlock.Holder{{Token: "token", TTL: redlock.NoLimit, Nodes: 3}}, s.Holders)
			require.Equal(t, redlock.KindExclusive, s.Kind)
			on := []redlock.Holder{{Token: "token", TTL: redlock.NoLimit, Nodes: 1}}
			require.Equal(t, redlock.NodeState{Addr: s.Nodes[0].Addr, Kind: redlock.KindExclusive, Holders: on, TTL: redlock.NoLimit}, s.Nodes[0])
		}
	}
	c.doAll("DEL", "shared", "{shared}:sharers")
}

func TestInspect_SomebodysDataInThePlaceOfTheReaders(t *testing.T) {
	t.Parallel()
	c := onReal(t, 3) // miniredis reports the type in another way
	locker := c.locker()
	c.crowd("name", 1)
	spoil := func(i int) {
		c.do(i, "DEL", "{name}:sharers")
		c.do(i, "SET", "{name}:sharers", "data")
	}
	spoil(0)
	s := inspect(t, locker, "name")
	require.ErrorIs(t, s.Nodes[0].Err, nodeerr.ErrForeign)
	require.Equal(t, redlock.VerdictHeld, s.Verdict)
	require.Equal(t, 2, s.Holders[0].Nodes)
	spoil(1)
	require.Equal(t, redlock.VerdictForeign, inspect(t, locker, "name").Verdict)
	require.ErrorIs(t, errOf(locker.Attach(t.Context(), "name", "reader-1")), redlock.ErrNotHeld)
	removed, err := locker.ForceUnlock(t.Context(), "name")
	require.ErrorIs(t, c.refused(err, redlock.ErrForeign).Nodes[0].Err, nodeerr.ErrForeign)
	require.Equal(t, []redlock.Holder{{Token: "reader-1", Nodes: 1}}, removed)
	require.Equal(t, "data", c.value(0, "{name}:sharers"), "it is left alone")
	c.doAll("DEL", "name", "{name}:sharers")
}

// One server that is reached under two names is no majority of three.
func TestInspect_CountsTheReadersOfAServerUnderTwoNamesOnce(t *testing.T) {
	t.Parallel()
	c := onReal(t, 1)
	_, port, err := net.SplitHostPort(c.servers[0].Addr())
	require.NoError(t, err)
	locker := lockerOver(t, open(t, []string{c.servers[0].URL(), "redis://localhost:" + port, "redis://127.0.0.1:1"}))
	c.crowd("name", 300)
	eventually(t, func() bool {
		_, err = locker.Inspect(t.Context(), "name")
		return errors.Is(err, nodeerr.ErrSameServer)
	}, "the server is known")
	for range 10 {
		s, err := locker.Inspect(t.Context(), "name")
		requireIs(t, err, redlock.ErrNoQuorum, nodeerr.ErrSameServer)
		require.Equal(t, redlock.VerdictUnknown, s.Verdict)
		require.Len(t, append(s.Nodes[0].Holders, s.Nodes[1].Holders...), 300)
		require.ErrorIs(t, errOf(locker.Attach(t.Context(), "name", "reader-1")), redlock.ErrNoQuorum)
	}
	c.do(0, "DEL", "name", "{name}:sharers")
}
