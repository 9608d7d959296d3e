package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// several are acquires of as many names, and their releases.
func several(n int) (acquires, releases []*wire.Command) {
	for i := range n {
		name := fmt.Sprint("name-", i)
		acquires = append(acquires, newAcquireFenced(name, "token", ttl, at(now())))
		releases = append(releases, newReleaseFenced(name, "token", 0, ttl))
	}
	return acquires, releases
}

func allYes(n int) string { return fmt.Sprintf("*%d\r\n%s", n, strings.Repeat(":1\r\n", n)) }

// joinedOf returns how many commands are joined in what the server was sent; 0: it is something else.
func joinedOf(args []string) int {
	if !isScript(args) || args[1] != form.Scripts["joined"].Source && args[1] != form.Scripts["joined"].Hash {
		return 0
	}
	keys, _ := strconv.Atoi(args[2])
	return keys / 2
}

// gate holds what a node writes, so that what it is sent meanwhile goes out together.
type gate struct {
	mu    sync.Mutex
	open  chan struct{} // nil: it is
	waits chan struct{}
}

// gatedConn is a connection behind a gate.
type gatedConn struct {
	net.Conn
	*gate
}

func (c gatedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	open := c.open
	c.mu.Unlock()
	if open != nil {
		c.waits <- struct{}{}
		<-open
	}
	return c.Conn.Write(p)
}

// behind returns a dialer of connections behind the gate.
func (g *gate) behind(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return gatedConn{c, g}, err
	}
}

// prove has a connection prove what joined acquires have to have proven.
func prove(t testing.TB, n *node.Node, key string) {
	t.Helper()
	requireYes(t, n, newAcquireFenced(key, "proof", ttl, at(now())))
	requireYes(t, n, newReleaseFenced(key, "proof", 0, ttl))
}

// together sends what is sure to go out together. The node must be connected.
func (g *gate) together(t testing.TB, n *node.Node, cmds []*wire.Command) []wire.Reply {
	t.Helper()
	g.mu.Lock()
	g.open, g.waits = make(chan struct{}), make(chan struct{}, 8)
	g.mu.Unlock()
	sendTo(n, node.Publish("nobody", "listens"), nil, 0)
	<-g.waits
	inboxes := sendAll(n, cmds)
	g.mu.Lock()
	close(g.open)
	g.open = nil
	g.mu.Unlock()
	return replies(t, inboxes)
}

// heldFake is a fake behind a gate.
type heldFake struct {
	*fake
	gate *gate
}

func newHeldFake(t testing.TB, answer func(*peer, []string) string) *heldFake {
	f, g := newFake(t, answer), new(gate)
	f.gate = g
	return &heldFake{f, g}
}

// together sends what is sure to go out together.
func (p *heldFake) together(t testing.TB, n *node.Node, cmds []*wire.Command) []wire.Reply {
	t.Helper()
	prove(t, n, "proof")
	return p.gate.together(t, n, cmds)
}

// refusing is a fake that refuses what is joined, in a way, and counts it.
func refusing(t testing.TB, refusal string) (f *heldFake, joined, single *atomic.Int32) {
	joined, single = new(atomic.Int32), new(atomic.Int32)
	f = newHeldFake(t, func(c *peer, args []string) string {
		switch {
		case joinedOf(args) > 0:
			joined.Add(1)
			return refusal
		case isScript(args) && args[3] != "proof":
			single.Add(1)
		}
		return likeRedis(c, args)
	})
	return f, joined, single
}

func TestBatch_CommandsThatWaitTogetherAreJoined(t *testing.T) {
	server, g := testredis.Real(t, 1)[0], new(gate)
	dial := g.behind(new(net.Dialer).DialContext)
	for transport, n := range map[string]*node.Node{
		"connects": open(t, server.Addr(), patient(), withDialer(dial)),
		"wrapped": wrap(t, &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
			c, err := dial(ctx, "tcp", server.Addr())
			return redis.NewConn(c, 0, 0), err
		}}, patient()),
	} {
		t.Run(transport, func(t *testing.T) {
			prove(t, n, "proof")
			do(t, server, "FLUSHALL")
			do(t, server, "CONFIG", "RESETSTAT")
			acquires, releases := several(50)
			requireAllYes(t, g.together(t, n, acquires))
			require.EqualValues(t, 100, do(t, server, "DBSIZE"), "keys and counters")
			requireAllYes(t, g.together(t, n, releases))
			require.EqualValues(t, 50, do(t, server, "DBSIZE"), "counters")
			require.Equal(t, 2, calls(t, server, "eval", "evalsha"), "for 100 commands")
		})
	}
}

// Whatever commands are joined: each has the answer that it has by itself, and the server holds the same afterwards.
func TestBatch_JoinedCommandsDoWhatEachDoesByItself(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	onBoth(t, func(t *testing.T, server testredis.Server, apart *node.Node) {
		random, g := rand.New(rand.NewPCG(seed, 0)), new(gate)
		n := open(t, server.Addr(), patient(), withDialer(g.behind(new(net.Dialer).DialContext)))
		prove(t, n, "proof")
		server = testredis.Lasting(t, server)
		for i := range 30 {
			promptly(t, func(now uint64) (want, got any) {
				w := world{random, now, 60, true}
				if i%2 == 0 {
					w = world{random, uint64(later), 4, false}
				}
				found, cmds := w.found(), w.commands()
				outcome := func(send func() []wire.Reply) any {
					do(t, server, "FLUSHALL")
					for _, cmd := range found {
						do(t, server, cmd[0].(string), cmd[1:]...)
					}
					replies := send()
					for i := range replies {
						replies[i].Server, replies[i].Command = "", ""
					}
					return []any{replies, contents(t, server)}
				}
				want = outcome(func() (all []wire.Reply) {
					for _, cmd := range cmds {
						all = append(all, ask(t, apart, cmd))
					}
					return all
				})
				return want, outcome(func() []wire.Reply { return g.together(t, n, cmds) })
			}, "one by one, and joined")
		}
	})
}

// world is what commands may find and ask for at random, at a time, for some names. The joined script begins counters that are missing
// with less than an acquire by itself does.
type world struct {
	*rand.Rand
	now     uint64
	names   int
	missing bool // counters may be missing: now is the time of the servers
}

// found are commands that leave what commands may find: counters far ahead, what is no counter, another's lock, other data.
func (w world) found() (cmds [][]any) {
	for i := range w.names {
		key, counter := fmt.Sprint("name-", i), fmt.Sprintf("{name-%d}:fence", i)
		cmds = append(cmds, []any{"SET", counter, w.now + uint64(1000*i)})
		switch how := w.IntN(12); {
		case how == 0:
			cmds = append(cmds, []any{"SET", counter, "no number"})
		case how == 1:
			cmds = append(cmds, []any{"SET", counter, lastNumber - 2})
		case how == 2:
			cmds = append(cmds, []any{"DEL", counter}, []any{"LPUSH", counter, "no number"})
		case how == 3:
			cmds = append(cmds, []any{"LPUSH", key, "no lock"})
		case how == 4:
			cmds = append(cmds, []any{"SET", key, "another's", "EX", 60})
		case how < 10 && w.missing:
			cmds = append(cmds, []any{"DEL", counter})
		}
	}
	return cmds
}

// commands are some that can be joined, with some that cannot.
func (w world) commands() []*wire.Command {
	cmds := make([]*wire.Command, 1+w.IntN(150))
	for i := range cmds {
		at := w.IntN(w.names)
		key, token := fmt.Sprint("name-", at), fmt.Sprint("token-", w.IntN(3))
		counter := counted{Keep: form.DefaultKeep, Now: w.now, Block: uint64(w.IntN(4) / 2 * w.IntN(9))}
		number := w.now + uint64(1000*at+w.IntN(8))
		if w.missing {
			number += 10 * second // which is beyond what an extension would begin with
		}
		if w.IntN(4) == 0 {
			counter.Now += 10 * second // which is not believed
			if w.missing {
				counter.Floor = w.now + 60*second
			}
		}
		switch w.IntN(12) {
		case 0:
			counter.Keep = keep
		case 1:
			counter.Floor = max(counter.Floor, w.now+1000)
		case 2:
			cmds[i] = newExtendFenced(key, token, number, 2*ttl, keep)
			continue
		case 3:
			cmds[i] = newAcquire(key, token, ttl)
			continue
		case 4, 5, 6, 7:
			cmds[i] = newReleaseFenced(key, token, number, ttl)
			continue
		}
		cmds[i] = newAcquireFenced(key, token, time.Duration(1+w.IntN(2))*ttl, counter)
	}
	return cmds
}

// contents is what a server holds, with TTLs in minutes.
func contents(t *testing.T, server testredis.Server) (all []string) {
	keys, err := redis.Strings(server.Do("KEYS", "*"))
	require.NoError(t, err)
	for _, key := range keys {
		value, err := redis.String(server.Do("GET", key))
		if err != nil {
			value = "no string"
		}
		minutes, err := redis.Int(server.Do("TTL", key))
		require.NoError(t, err)
		all = append(all, fmt.Sprint(key, " = ", value, " for ", (minutes+30)/60))
	}
	slices.Sort(all)
	return all
}

// Otherwise every call would take two round trips from there on, and nobody would notice.
func TestBatch_TheScriptIsSentAgainToAServerThatForgotIt(t *testing.T) {
	onBoth(t, func(t *testing.T, server testredis.Server, n *node.Node) {
		for range 5 {
			acquires, releases := several(20)
			requireAllYes(t, together(t, n, acquires))
			do(t, server, "SCRIPT", "FLUSH")
			requireAllYes(t, together(t, n, releases))
			do(t, server, "SCRIPT", "FLUSH")
		}
	})
}

func TestBatch_CommandsAreJoinedAgainAfterNoScript(t *testing.T) {
	var joined atomic.Int32
	f := newHeldFake(t, func(c *peer, args []string) string {
		n := joinedOf(args)
		switch {
		case n == 0:
			return likeRedis(c, args)
		case joined.Add(1) == 2:
			return "-NOSCRIPT No matching script.\r\n"
		}
		return allYes(n)
	})
	n := f.open(t, patient())
	acquires, _ := several(20)
	requireAllYes(t, f.together(t, n, acquires))
	source := "EVAL " + form.Scripts["joined"].Source
	for range 100 {
		if f.count(source) < 2 {
			requireAllYes(t, together(t, n, acquires))
		}
	}
	require.Equal(t, 2, f.count(source))
}

func TestBatch_NothingIsJoinedOnAClusterNode(t *testing.T) {
	t.Parallel()
	server := testredis.Real(t, 1, "--cluster-enabled", "yes")[0]
	slots := []any{"ADDSLOTS"}
	for slot := range 16384 {
		slots = append(slots, slot)
	}
	do(t, server, "CLUSTER", slots...)
	require.Eventually(t, func() bool {
		_, err := server.Do("GET", "key")
		return err == nil
	}, bound, tick)
	n := open(t, server.Addr(), patient())
	acquires, releases := several(20)
	for range 3 {
		requireAllYes(t, together(t, n, acquires))
		requireAllYes(t, together(t, n, releases))
	}
	do(t, server, "CONFIG", "RESETSTAT")
	requireAllYes(t, together(t, n, acquires))
	requireCalls(t, server, "evalsha", 20)
}

// What the user may not do to one key is no reason to refuse the others.
func TestBatch_AForbiddenKeyDoesNotFailTheOthers(t *testing.T) {
	g := new(gate)
	_, n := restrictedBehind(t, g, "resetkeys", "~name-*", "~{name-*")
	acquires, _ := several(20)
	acquires[7] = newAcquireFenced("another", "token", ttl, at(now()))
	prove(t, n, "name-proof")
	for i, reply := range g.together(t, n, acquires) {
		if i == 7 {
			requireServerError(t, reply, quorum.Refused, "NOPERM")
		} else {
			require.Equal(t, quorum.Yes, reply.Answer, reply.Err)
		}
	}
}

// A script that ends in an error does not end the others.
func TestBatch_AnErrorOfOneCommandIsTheAnswerToThatOne(t *testing.T) {
	g := new(gate)
	server, n := restrictedBehind(t, g, "-time")
	do(t, server, "SET", "{proof}:fence", later)
	prove(t, n, "proof")
	for i := range 10 {
		if i != 3 { // of which the counter begins with the time
			do(t, server, "SET", fmt.Sprintf("{name-%d}:fence", i), later)
		}
	}
	acquires, releases := several(10)
	for i, reply := range g.together(t, n, slices.Concat(acquires, releases)) {
		switch i {
		case 3:
			requireRefused(t, reply, "NOPERM")
		case 13:
			requireReply(t, quorum.No, nodeerr.ErrAbsent, reply)
		default:
			require.Equal(t, quorum.Yes, reply.Answer, reply.Err)
		}
	}
	requireRefused(t, ask(t, n, acquires[3]), "NOPERM") // by itself
}

// An array of another length, or no array at all, is an answer to none of the commands, and ends the connection. Nobody knows what
// comes behind it.
func TestBatch_AnOddReplyIsAnUnknownAnswerToEach(t *testing.T) {
	for name, reply := range map[string]string{
		"too few": "*3\r\n:1\r\n:1\r\n:1\r\n", "too many": "*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "none": "*0\r\n", "nil": "*-1\r\n",
		"a number": ":1\r\n", "OK": "+OK\r\n", "text": "$1\r\n1\r\n", "strings": "*4\r\n$1\r\n1\r\n+1\r\n$1\r\n1\r\n+OK\r\n",
		"arrays": "*4\r\n*1\r\n:1\r\n*1\r\n:1\r\n*1\r\n:1\r\n*1\r\n:1\r\n",
	} {
		for transport, open := range transports {
			t.Run(name+"/"+transport, func(t *testing.T) {
				f := newHeldFake(t, func(c *peer, args []string) string {
					if joinedOf(args) > 0 {
						return reply
					}
					return likeRedis(c, args)
				})
				n := open(f.fake, t, patient())
				acquires, releases := several(2)
				replies := f.together(t, n, append(append(acquires, releases...), newAcquire("key", "token", ttl)))
				for _, reply := range replies[:4] {
					requireReply(t, quorum.Unknown, nodeerr.ErrProtocol, reply)
				}
				requireReply(t, quorum.Unknown, nodeerr.ErrBroken, replies[4])
				require.Eventually(t, func() bool { return f.connections() > 1 }, bound, tick)
			})
		}
	}
}

// Nobody knows what an error of no kind stands for. It is reported as that of one command is, and not met again.
func TestBatch_AnErrorOfTheWholeIsTheAnswerToEach(t *testing.T) {
	for _, refusal := range []string{"ERR upstream failure", "BUSY Redis is busy running a script.", "LOADING Redis is loading the dataset in memory"} {
		f, joined, single := refusing(t, "-"+refusal+"\r\n")
		n := f.open(t, patient())
		acquires, _ := several(10)
		for _, reply := range f.together(t, n, acquires) {
			require.Equal(t, quorum.Refused, reply.Answer)
			require.ErrorContains(t, reply.Err, refusal)
		}
		require.EqualValues(t, 1, joined.Load())
		require.Zero(t, single.Load())
		apart := strings.HasPrefix(refusal, "ERR")
		for range 100 {
			if joined.Load() == 1 {
				together(t, n, acquires)
			}
		}
		require.Equal(t, apart, joined.Load() == 1, "never joined again: %s", refusal)
	}
}

// Within a script Redis checks its memory only until the first write.
func TestBatch_AServerOutOfMemoryGrantsNothingBehindARelease(t *testing.T) {
	server, g := testredis.Real(t, 1)[0], new(gate)
	acquires, releases := several(60)
	n := open(t, server.Addr(), patient(), withDialer(g.behind(new(net.Dialer).DialContext)))
	requireAllYes(t, together(t, n, acquires[:30]))
	do(t, server, "CONFIG", "SET", "maxmemory", 1)
	var cmds []*wire.Command
	for i := range 30 {
		cmds = append(cmds, releases[i], acquires[30+i])
	}
	for i, reply := range g.together(t, n, cmds) {
		if i%2 == 0 {
			require.Equal(t, quorum.Yes, reply.Answer, reply.Err)
		} else {
			requireRefused(t, reply, "OOM")
		}
	}
}

func TestBatch_RepliesComeInTheOrderOfTheCommands(t *testing.T) {
	_, n := openReal(t)
	answered := make(chan wire.Tag, 50)
	acquires, _ := several(50)
	for i, cmd := range acquires {
		sendTo(n, cmd, receiver(func(tag wire.Tag) { answered <- tag }), i)
	}
	for i := range acquires {
		require.EqualValues(t, i, (<-answered).Node)
	}
}

// An acquire that took effect behind its release would leave a key that nobody knows of.
func TestBatch_NoAcquireIsSentAgainBehindItsRelease(t *testing.T) {
	f, _, again := refusing(t, "-NOSCRIPT No matching script.\r\n")
	n := f.open(t, patient())
	acquires, releases := several(4)
	replies := f.together(t, n, append(append(acquires, releases...), newAcquireFenced("name-0", "other", ttl, at(1))))
	for _, reply := range replies[:4] {
		requireServerError(t, reply, quorum.Refused, "NOSCRIPT")
	}
	requireAllYes(t, replies[4:])
	require.EqualValues(t, 5, again.Load())
}

// A connection that breaks before the reply takes all acquires with it; the releases are sent again.
func TestBatch_ABrokenConnectionLosesAcquiresAndKeepsReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangUp atomic.Bool
		hangUp.Store(true)
		released := make(map[string]bool)
		f := newHeldFake(t, func(c *peer, args []string) string {
			if n := joinedOf(args); n > 0 {
				if hangUp.Swap(false) {
					_ = c.Close()
					return ""
				}
				for i := range n {
					released[args[3+2*i]] = true
				}
				return allYes(n)
			}
			return likeRedis(c, args)
		})
		n := f.open(t, withTimeout(bound/2))
		acquires, releases := several(6)
		for _, reply := range f.together(t, n, append(acquires, releases...)) {
			requireReply(t, quorum.Unknown, nodeerr.ErrBroken, reply)
		}
		synctest.Wait()
		requireYes(t, n, newAcquire("key", "token", ttl))
		synctest.Wait()
		require.Len(t, released, 6)
		require.Equal(t, 2, f.connections())
	})
}

func TestScript_IsSentByItsSourceOnceAndByItsHashThen(t *testing.T) {
	server, n := openReal(t)
	const times = 50
	for range times {
		requireYes(t, n, newAcquire("key", "token", ttl))
		requireYes(t, n, newExtend("key", "token", 2*ttl))
		requireYes(t, n, newRelease("key", "token", ttl))
	}
	requireCalls(t, server, "eval", 3) // the first acquire, release and extend
	requireCalls(t, server, "evalsha", 2*times-2)
	requireCalls(t, server, "set", times-1+2) // by itself; twice in the script
}

func TestScript_SourceIsSentEachTimeToAServerThatKeepsNone(t *testing.T) {
	f := newFake(t, answering("EVALSHA", "-NOSCRIPT No matching script. Please use EVAL.\r\n"))
	n := f.open(t, patient())
	for range 3 {
		for _, cmd := range everyKind() {
			requireAllYes(t, together(t, n, []*wire.Command{cmd, cmd, cmd}))
		}
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
