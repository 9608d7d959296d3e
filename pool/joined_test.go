package pool_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/lua"
	"github.com/quorumlock/quorumlock/internal/redistest"
	"github.com/quorumlock/quorumlock/pool"
)

// later is a time that no server's clock comes to in a test: counters that are ahead of it only count on.
const later = 1 << 52

// together sends commands, in order, and returns the replies. As the first that is sent to a node they wait for its
// connection, and so for each other.
func together(t testing.TB, node *pool.Node, cmds []*pool.Command) []pool.Reply {
	t.Helper()
	return replies(t, sendAll(node, cmds))
}

func sendAll(node *pool.Node, cmds []*pool.Command) []inbox {
	inboxes := make([]inbox, len(cmds))
	for i, cmd := range cmds {
		inboxes[i] = send(node, cmd)
	}
	return inboxes
}

func replies(t testing.TB, inboxes []inbox) []pool.Reply {
	t.Helper()
	replies := make([]pool.Reply, len(inboxes))
	for i, in := range inboxes {
		replies[i] = in.next(t)
		require.Empty(t, in, "told twice")
	}
	return replies
}

// several are acquires of as many names, and their releases.
func several(n int) (acquires, releases []*pool.Command) {
	for i := range n {
		name := fmt.Sprint("name-", i)
		acquires = append(acquires, pool.AcquireFenced(name, "token", ttl, at(now())))
		releases = append(releases, pool.ReleaseFenced(name, "token", 0, ttl))
	}
	return acquires, releases
}

func requireAllYes(t testing.TB, replies []pool.Reply) {
	t.Helper()
	for _, reply := range replies {
		require.NoError(t, reply.Err)
		require.Equal(t, pool.Yes, reply.Answer)
	}
}

func TestFencedCommandsThatWaitTogetherAreOneForTheServer(t *testing.T) {
	onBothNodes(t, []pool.Option{patient()}, func(t *testing.T, server *redistest.Process, node *pool.Node) {
		do(t, server, "CONFIG", "RESETSTAT")
		acquires, releases := several(50)
		requireAllYes(t, together(t, node, acquires))
		require.EqualValues(t, 100, do(t, server, "DBSIZE"), "keys and counters")
		requireAllYes(t, together(t, node, releases))
		require.EqualValues(t, 50, do(t, server, "DBSIZE"), "counters")
		require.Less(t, scripts(t, server), 50, "for 100 commands")
	})
}

// scripts is how many the server has run.
func scripts(t testing.TB, server redistest.Server) (n int) {
	for _, command := range []string{"eval", "evalsha"} {
		called, err := strconv.Atoi("0" + calls(t, server, command))
		require.NoError(t, err)
		n += called
	}
	return n
}

// Whatever commands are joined: each has the answer that it has by itself, and the server holds the same afterwards.
func TestWhatIsJoinedDoesWhatItDoesByItself(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for kind, servers := range map[string]func() []redistest.Server{
		"redis-server": func() []redistest.Server { return redistest.Servers(redistest.Real(t, 2)) },
		"miniredis":    func() []redistest.Server { return redistest.Mini(t, 2) },
	} {
		servers := servers()
		apart := open(t, servers[0].URL(), patient())
		for round := range 60 {
			what := fmt.Sprint(kind, ", round ", round)
			for _, s := range servers {
				do(t, s, "FLUSHALL")
			}
			prepare(t, random, servers)
			cmds := mixed(random, 1+random.IntN(150))
			node := open(t, servers[1].URL(), patient())
			for i, reply := range together(t, node, cmds) {
				want := ask(t, apart, cmds[i])
				want.Server, reply.Server = "", ""
				require.Equal(t, want, reply, "%s, command %d", what, i)
			}
			require.Equal(t, contents(t, servers[0]), contents(t, servers[1]), what)
			require.NoError(t, node.Close())
		}
	}
}

const names = 4

// prepare leaves on all servers what commands may find: counters far ahead, what is no counter, another's lock, other data.
func prepare(t *testing.T, random *rand.Rand, servers []redistest.Server) {
	for i := range names {
		counter := fmt.Sprintf("{name-%d}:fence", i)
		how := random.IntN(12)
		for _, s := range servers {
			do(t, s, "SET", counter, later+1000*i)
			switch how {
			case 0:
				do(t, s, "SET", counter, "no number")
			case 1:
				do(t, s, "SET", counter, 1<<53-3)
			case 2:
				do(t, s, "DEL", counter)
				do(t, s, "LPUSH", counter, "no number")
			case 3:
				do(t, s, "LPUSH", fmt.Sprint("name-", i), "no lock")
			case 4:
				do(t, s, "SET", fmt.Sprint("name-", i), "another's", "EX", 60)
			}
		}
	}
}

// mixed are commands that can be joined, with some that cannot.
func mixed(random *rand.Rand, n int) []*pool.Command {
	cmds := make([]*pool.Command, n)
	for i := range cmds {
		at := random.IntN(names)
		key, token := fmt.Sprint("name-", at), fmt.Sprint("token-", random.IntN(3))
		counter := pool.Counter{Keep: day, Now: later - second}
		if random.IntN(4) == 0 {
			counter.Now = later + 10*second // the counters lie behind, and have a TTL then
		}
		number := uint64(later + 1000*at + random.IntN(8))
		switch random.IntN(12) {
		case 0:
			counter.Keep = keep
		case 1:
			counter.Floor = later + 100
		case 2:
			cmds[i] = pool.ExtendFenced(key, token, number, 2*ttl, keep)
			continue
		case 3:
			cmds[i] = pool.Acquire(key, token, ttl)
			continue
		case 4, 5, 6, 7:
			cmds[i] = pool.ReleaseFenced(key, token, number, ttl)
			continue
		}
		cmds[i] = pool.AcquireFenced(key, token, time.Duration(1+random.IntN(2))*ttl, counter)
	}
	return cmds
}

// contents is what a server holds, with TTLs in minutes.
func contents(t *testing.T, server redistest.Server) (all []string) {
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

// Trap 25, for several commands at once.
func TestJoinedCommandsAreTaughtToAServerThatForgotThem(t *testing.T) {
	onBoth(t, func(t *testing.T, server redistest.Server) {
		node := open(t, server.URL(), patient())
		for range 5 {
			acquires, releases := several(20)
			requireAllYes(t, together(t, node, acquires))
			do(t, server, "SCRIPT", "FLUSH")
			requireAllYes(t, together(t, node, releases))
			do(t, server, "SCRIPT", "FLUSH")
		}
	})
}

func TestJoinedCommandsThatWereTaughtAgainAreJoinedFromThereOn(t *testing.T) {
	var joined, sources atomic.Int32
	f := newPatience(t, func(c *peer, args []string) string {
		if n := joinedOf(args); n > 0 {
			if args[0] == "EVAL" {
				sources.Add(1)
			}
			if joined.Add(1) == 2 {
				return "-NOSCRIPT No matching script.\r\n"
			}
			return allYes(n)
		}
		return likeRedis(c, args)
	})
	node := f.open(t, patient())
	acquires, _ := several(20)
	requireAllYes(t, f.together(t, node, acquires))
	for range 100 {
		if sources.Load() < 2 {
			requireAllYes(t, together(t, node, acquires))
		}
	}
	require.EqualValues(t, 2, sources.Load())
}

func allYes(n int) string { return fmt.Sprintf("*%d\r\n%s", n, strings.Repeat(":1\r\n", n)) }

func TestOnAClusterNodeNothingIsJoined(t *testing.T) {
	server := redistest.Real(t, 1, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(redistest.FreePort(t)))[0]
	do(t, server, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	require.Eventually(t, func() bool {
		_, err := server.Do("GET", "key")
		return err == nil
	}, bound, tick)
	node := open(t, server.URL(), patient())
	for range 3 {
		acquires, releases := several(20)
		requireAllYes(t, together(t, node, acquires))
		requireAllYes(t, together(t, node, releases))
	}
	do(t, server, "CONFIG", "RESETSTAT")
	acquires, _ := several(20)
	requireAllYes(t, together(t, node, acquires))
	requireCalls(t, server, "evalsha", 20)
}

// What the user may not do to one key is no reason to refuse the others.
func TestAKeyThatTheUserMayNotTouchSpoilsNoOther(t *testing.T) {
	_, node := restricted(t, "resetkeys", "~name-*", "~{name-*")
	acquires, _ := several(20)
	acquires[7] = pool.AcquireFenced("another", "token", ttl, at(now()))
	for i, reply := range together(t, node, acquires) {
		if i == 7 {
			requireServerError(t, reply, pool.Refused, "NOPERM")
		} else {
			require.Equal(t, pool.Yes, reply.Answer, reply.Err)
		}
	}
}

// A script that ends in an error does not end the others.
func TestAnErrorOfOneJoinedCommandIsTheAnswerToThatOne(t *testing.T) {
	server, node := restricted(t, "-decr")
	do(t, server, "SET", "name-3", "another's")
	do(t, server, "SET", "{name-3}:fence", later)
	requireNoPermission := func(reply pool.Reply) {
		require.Equal(t, pool.Refused, reply.Answer)
		refusal := (*pool.ServerError)(nil)
		require.ErrorAs(t, reply.Err, &refusal)
		require.Equal(t, "NOPERM", refusal.Code)
	}
	acquires, releases := several(10)
	for i, reply := range together(t, node, slices.Concat(acquires, releases)) {
		switch i {
		case 3:
			requireNoPermission(reply)
		case 13:
			requireReply(t, pool.No, pool.ErrHeld, reply)
		default:
			require.Equal(t, pool.Yes, reply.Answer, reply.Err)
		}
	}
	requireNoPermission(ask(t, node, acquires[3])) // by itself
}

// joinedOf returns how many commands are joined in what the server was sent; 0: it is something else.
func joinedOf(args []string) int {
	if !isScript(args) || args[1] != lua.Joined().Source && args[1] != lua.Joined().Hash {
		return 0
	}
	keys, _ := strconv.Atoi(args[2])
	return keys / 2
}

// patience is a fake that serves nobody until it is told.
type patience struct {
	*fake
	served chan struct{}
}

func newPatience(t testing.TB, answer func(*peer, []string) string) *patience {
	served := make(chan struct{})
	return &patience{newFake(t, func(c *peer, args []string) string {
		<-served
		return answer(c, args)
	}), served}
}

// together sends what is sure to go out together.
func (p *patience) together(t testing.TB, node *pool.Node, cmds []*pool.Command) []pool.Reply {
	t.Helper()
	inboxes := sendAll(node, cmds)
	close(p.served)
	return replies(t, inboxes)
}

// An array of another length, or no array at all, says nothing of any command. What was sent behind it is answered as ever.
func TestAReplyThatIsNoneToJoinedCommandsIsTakenForNoAnswer(t *testing.T) {
	for name, reply := range map[string]string{
		"too few": "*3\r\n:1\r\n:1\r\n:1\r\n", "too many": "*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n", "none": "*0\r\n", "nil": "*-1\r\n",
		"a number": ":1\r\n", "OK": "+OK\r\n", "text": "$1\r\n1\r\n", "strings": "*4\r\n$1\r\n1\r\n+1\r\n$1\r\n1\r\n+OK\r\n",
		"arrays": "*4\r\n*1\r\n:1\r\n*1\r\n:1\r\n*1\r\n:1\r\n*1\r\n:1\r\n",
	} {
		for wire, open := range wires {
			t.Run(name+"/"+wire, func(t *testing.T) {
				f := newPatience(t, func(c *peer, args []string) string {
					if joinedOf(args) > 0 {
						return reply
					}
					return likeRedis(c, args)
				})
				node := open(f.fake, t, patient())
				acquires, releases := several(2)
				replies := f.together(t, node, append(append(acquires, releases...), pool.Acquire("key", "token", ttl)))
				for _, reply := range replies[:4] {
					requireReply(t, pool.Maybe, pool.ErrProtocol, reply)
				}
				require.Equal(t, pool.Yes, replies[4].Answer)
				require.Equal(t, 1, f.connections())
			})
		}
	}
}

// refusing is a fake that refuses what is joined, in a way, and counts it.
func refusing(t testing.TB, refusal string) (f *patience, joined, single *atomic.Int32) {
	joined, single = new(atomic.Int32), new(atomic.Int32)
	f = newPatience(t, func(c *peer, args []string) string {
		switch {
		case joinedOf(args) > 0:
			joined.Add(1)
			return refusal
		case isScript(args):
			single.Add(1)
		}
		return likeRedis(c, args)
	})
	return f, joined, single
}

func TestWhatAServerDoesNotTakeTogetherIsSentOneByOne(t *testing.T) {
	f, joined, single := refusing(t, "-CROSSSLOT Keys in request don't hash to the same slot\r\n")
	node := f.open(t, patient())
	acquires, _ := several(10)
	requireAllYes(t, f.together(t, node, acquires))
	requireAllYes(t, together(t, node, acquires))
	require.EqualValues(t, 1, joined.Load())
	require.EqualValues(t, 20, single.Load())
}

// Nobody knows what an error of no kind stands for. It is told as it is by itself, and not met again.
func TestAnErrorOfAllIsTheAnswerToEach(t *testing.T) {
	for _, refusal := range []string{"ERR upstream failure", "BUSY Redis is busy running a script.", "LOADING Redis is loading the dataset in memory"} {
		f, joined, single := refusing(t, "-"+refusal+"\r\n")
		node := f.open(t, patient())
		acquires, _ := several(10)
		for _, reply := range f.together(t, node, acquires) {
			require.Equal(t, pool.Refused, reply.Answer)
			require.ErrorContains(t, reply.Err, refusal)
		}
		require.EqualValues(t, 1, joined.Load())
		require.Zero(t, single.Load())
		apart := strings.HasPrefix(refusal, "ERR")
		for range 100 {
			if joined.Load() == 1 {
				together(t, node, acquires)
			}
		}
		require.Equal(t, apart, joined.Load() == 1, "never joined again: %s", refusal)
	}
}

func TestAServerThatAnswersInAnotherFormIsSentNothingJoinedAgain(t *testing.T) {
	f, joined, _ := refusing(t, "*0\r\n")
	node := f.open(t, patient())
	acquires, _ := several(10)
	f.together(t, node, acquires)
	for range 20 {
		requireAllYes(t, together(t, node, acquires))
	}
	require.EqualValues(t, 1, joined.Load())
}

// Trap 26 for joined commands: within a script Redis looks for memory only until the first write.
func TestAServerThatIsFullGrantsNothingBehindARelease(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	acquires, releases := several(60)
	requireAllYes(t, together(t, open(t, server.URL(), patient()), acquires[:30]))
	do(t, server, "CONFIG", "SET", "maxmemory", 1)
	var cmds []*pool.Command
	for i := range 30 {
		cmds = append(cmds, releases[i], acquires[30+i])
	}
	for i, reply := range together(t, open(t, server.URL(), patient()), cmds) {
		if i%2 == 0 {
			require.Equal(t, pool.Yes, reply.Answer, reply.Err)
		} else {
			requireRefused(t, reply, "OOM")
		}
	}
}

// order takes note of whose replies come.
type order chan int

func (o order) Reply(node int, _ *pool.Command, _ pool.Reply) { o <- node }

func TestJoinedCommandsAreAnsweredInTheirOrder(t *testing.T) {
	server := redistest.Real(t, 1)[0]
	node, answered := open(t, server.URL(), patient()), make(order, 50)
	acquires, _ := several(50)
	for i, cmd := range acquires {
		node.Send(time.Now(), cmd, answered, i)
	}
	for i := range acquires {
		require.Equal(t, i, <-answered)
	}
}

// Trap 3 for joined commands: of an acquire and its release only the release is sent again.
func TestOfWhatIsRefusedTogetherNoAcquireComesBehindItsRelease(t *testing.T) {
	f, _, again := refusing(t, "-NOSCRIPT No matching script.\r\n")
	node := f.open(t, patient())
	acquires, releases := several(4)
	replies := f.together(t, node, append(append(acquires, releases...), pool.AcquireFenced("name-0", "other", ttl, at(1))))
	for _, reply := range replies[:4] {
		requireServerError(t, reply, pool.Refused, "NOSCRIPT")
	}
	requireAllYes(t, replies[4:])
	require.EqualValues(t, 5, again.Load())
}

// A connection that breaks before the reply takes all acquires with it; the releases are owed.
func TestJoinedCommandsAreLostLikeSingleOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangUp atomic.Bool
		hangUp.Store(true)
		released := make(map[string]bool)
		f := newPatience(t, func(c *peer, args []string) string {
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
		node := f.open(t, pool.WithTimeout(bound/2))
		acquires, releases := several(6)
		for _, reply := range f.together(t, node, append(acquires, releases...)) {
			requireReply(t, pool.Maybe, pool.ErrBroken, reply)
		}
		synctest.Wait()
		requireYes(t, node, pool.Acquire("key", "token", ttl))
		synctest.Wait()
		require.Len(t, released, 6)
		require.Equal(t, 2, f.connections())
	})
}
