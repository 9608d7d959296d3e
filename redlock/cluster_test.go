package redlock_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/outcome"
	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// scripts are what the library sends, by the names of their files.
var scripts = form.Scripts

const (
	// patient is a node timeout for tests in which every node answers, however busy the machine is.
	patient = 10 * time.Second
	// brief is a node timeout for tests in which some node does not answer.
	brief = 600 * time.Millisecond
	// long is a TTL that no test lives to see the end of.
	long = time.Hour
)

// cluster is a set of servers that a test takes locks on.
type cluster struct {
	tb        testing.TB
	servers   []testredis.Server
	processes []*testredis.Process // the servers, if they are real ones
	leaves    bool                 // the test leaves keys of ours
	named     sync.Map             // the words of its own commands, keys among them
	open      []*pool.Node         // which are closed in the end
}

// onBoth runs a test of what callers see on n servers of each kind, beside other tests.
func onBoth(t *testing.T, n int, test func(t *testing.T, c *cluster)) {
	t.Parallel()
	onBothAlone(t, n, test)
}

// onBothAlone is onBoth for a test that only its own two parts may run beside.
func onBothAlone(t *testing.T, n int, test func(t *testing.T, c *cluster)) {
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, onMini(t, n))
	})
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		test(t, onReal(t, n))
	})
}

// inTurn runs a test for each row of a table, and inParallel for all of them at once.
func inTurn[R any](t *testing.T, rows map[string]R, test func(t *testing.T, row R)) {
	for name, row := range rows {
		t.Run(name, func(t *testing.T) { test(t, row) })
	}
}

func inParallel[R any](t *testing.T, rows map[string]R, test func(t *testing.T, row R)) {
	inTurn(t, rows, func(t *testing.T, row R) {
		t.Parallel()
		test(t, row)
	})
}

// onBothSilent is onBoth with servers that tell nobody of changes: whoever waits goes many rounds.
func onBothSilent(t *testing.T, n int, test func(t *testing.T, c *cluster)) {
	onBoth(t, n, func(t *testing.T, c *cluster) {
		c.silence()
		test(t, c)
	})
}

// silence has real servers refuse what miniredis does not know, from those that connect from now on.
func (c *cluster) silence() {
	c.tb.Helper()
	for i := range c.processes {
		c.do(i, "ACL", "SETUSER", "default", "-"+c.subcommand("client|tracking"), "+client|id", "+client|kill")
	}
}

// subcommand returns the name under which servers refuse, log and count a subcommand. To Redis 6.2 it is that of the command.
func (c *cluster) subcommand(name string) string {
	c.tb.Helper()
	if testredis.IsOld(c.tb, c.servers[0]) {
		name, _, _ = strings.Cut(name, "|")
	}
	return name
}

// onMini and onReal make a cluster. When the test ends, its locks are released and its nodes closed, no key of ours is left.
func onMini(tb testing.TB, n int) *cluster {
	return checked(&cluster{tb: tb, servers: testredis.Mini(tb, n)})
}

func onReal(tb testing.TB, n int, args ...string) *cluster {
	processes := testredis.Real(tb, n, args...)
	return checked(&cluster{tb: tb, servers: testredis.Servers(processes), processes: processes})
}

func checked(c *cluster) *cluster {
	end := func() {
		for _, node := range c.open {
			assert.NoError(c.tb, node.Close())
		}
	}
	c.tb.Cleanup(func() {
		if c.processes == nil { // what was sent before is not lost
			end()
		}
		for i := range c.servers {
			if !c.leaves && !c.tb.Failed() {
				eventually(c.tb, func() bool { return len(c.ours(i)) == 0 }, "server %d still holds keys of ours", i)
			}
		}
		if c.processes != nil { // a release is sent again to a server that was away
			end()
		}
	})
	return c
}

// mayLeave is for a test after which keys of ours stay for their TTL.
func (c *cluster) mayLeave() *cluster { c.leaves = true; return c }

// inUse has the servers in use as nodes for so long, as the restart guard sees it.
func (c *cluster) inUse(age time.Duration) {
	c.tb.Helper()
	for _, server := range c.servers {
		testredis.InUse(c.tb, server, server.Addr(), age)
	}
}

// ours returns the keys on server i that a Locker has left there: all but counters and stamps, and what the test has put there under that name.
// It returns nothing if the server is down.
func (c *cluster) ours(i int) []string {
	keys, _ := redis.Strings(c.servers[i].Do("KEYS", "*"))
	return slices.DeleteFunc(keys, func(key string) bool {
		if strings.HasSuffix(key, "}:fence") || strings.HasPrefix(key, testredis.Stamps) {
			return true
		}
		value, _ := redis.String(c.servers[i].Do("GET", key))
		_, named := c.named.Load(key)
		return named && !ourToken.MatchString(value)
	})
}

var ourToken = regexp.MustCompile(`^[A-Z2-7]{8}\.[A-Za-z0-9_-]{28}`)

// freeze, thaw, kill and restart do that with servers.
func freeze(processes ...*testredis.Process)   { each(processes, (*testredis.Process).Freeze) }
func thaw(processes ...*testredis.Process)     { each(processes, (*testredis.Process).Thaw) }
func kill[S testredis.Server](servers ...S)    { each(servers, S.Stop) }
func restart[S testredis.Server](servers ...S) { each(servers, S.Start) }

func each[S any](all []S, do func(S)) {
	for _, s := range all {
		do(s)
	}
}

// nodes returns nodes for all servers that are closed when the test ends.
func (c *cluster) nodes(opts ...pool.Option) []*pool.Node {
	c.tb.Helper()
	nodes := openNodes(c.tb, testredis.URLs(c.servers), opts...)
	c.open = append(c.open, nodes...)
	return nodes
}

// locker returns a Locker with connections of its own, as another process would have.
func (c *cluster) locker(opts ...redlock.Option) *redlock.Locker {
	return lockerOver(c.tb, c.nodes(), opts...)
}

// opened returns a Locker with nodes of its own, which the test closes.
func (c *cluster) opened(opts ...redlock.Option) *redlock.Locker {
	c.tb.Helper()
	opts = append([]redlock.Option{pool.WithTimeout(patient), pool.WithDialTimeout(patient), redlock.TTL(long)}, opts...)
	locker, err := redlock.Open(testredis.URLs(c.servers), opts...)
	require.NoError(c.tb, err)
	return locker
}

// observed returns a Locker, and what its Observer is told.
func (c *cluster) observed(opts ...redlock.Option) (*redlock.Locker, *recorder) {
	return observed(c.tb, c.nodes(), opts...)
}

func observed(tb testing.TB, nodes []*pool.Node, opts ...redlock.Option) (*redlock.Locker, *recorder) {
	seen := &recorder{}
	return lockerOver(tb, nodes, append(opts, redlock.WithObserver(seen))...), seen
}

// timed is observed, with a clock that the test sets.
func (c *cluster) timed(opts ...redlock.Option) (*redlock.Locker, *clocktest.Fake, *recorder) {
	return timed(c.tb, c.nodes(), opts...)
}

func timed(tb testing.TB, nodes []*pool.Node, opts ...redlock.Option) (*redlock.Locker, *clocktest.Fake, *recorder) {
	fake := clocktest.New()
	locker, seen := observed(tb, nodes, append(opts, redlock.WithClock(fake))...)
	return locker, fake, seen
}

func openNodes(tb testing.TB, urls []string, opts ...pool.Option) []*pool.Node {
	tb.Helper()
	nodes, err := pool.Open(urls, append([]pool.Option{pool.WithTimeout(patient), pool.WithDialTimeout(patient)}, opts...)...)
	require.NoError(tb, err)
	return nodes
}

// open makes nodes that are closed when the test ends.
func open(tb testing.TB, urls []string, opts ...pool.Option) []*pool.Node {
	tb.Helper()
	nodes := openNodes(tb, urls, opts...)
	tb.Cleanup(func() {
		for _, node := range nodes {
			assert.NoError(tb, node.Close())
		}
	})
	return nodes
}

// lockerOver makes a Locker that is closed when the test ends.
func lockerOver(tb testing.TB, nodes []*pool.Node, opts ...redlock.Option) *redlock.Locker {
	tb.Helper()
	locker, err := redlock.New(nodes, append([]redlock.Option{redlock.TTL(long)}, opts...)...)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, locker.Close()) })
	return locker
}

// do runs one command on server i.
func (c *cluster) do(i int, cmd string, args ...any) any {
	c.tb.Helper()
	for j, arg := range args {
		if token, ok := arg.(redlock.Token); ok { // the client sends what fmt prints
			args[j] = string(token)
		}
		c.named.Store(args[j], true)
	}
	reply, err := c.servers[i].Do(cmd, args...)
	require.NoError(c.tb, err)
	return reply
}

// doAll runs one command on every server.
func (c *cluster) doAll(cmd string, args ...any) {
	c.tb.Helper()
	c.each(func(i int) { c.do(i, cmd, args...) })
}

// doFirst runs one command on the first n servers.
func (c *cluster) doFirst(n int, cmd string, args ...any) {
	c.tb.Helper()
	for i := range n {
		c.do(i, cmd, args...)
	}
}

// each calls a function for every server.
func (c *cluster) each(call func(i int)) {
	for i := range c.servers {
		call(i)
	}
}

// value returns what server i holds under key, "" if nothing.
func (c *cluster) value(i int, key string) string {
	c.tb.Helper()
	value, err := redis.String(c.servers[i].Do("GET", key))
	if !errors.Is(err, redis.ErrNil) {
		require.NoError(c.tb, err)
	}
	return value
}

// holding returns how many servers hold value under key.
func (c *cluster) holding(key string, value redlock.Token) int {
	c.tb.Helper()
	n := 0
	for i := range c.servers {
		if c.value(i, key) == string(value) {
			n++
		}
	}
	return n
}

// ttl returns how long server i keeps key: below zero if it is not there or has no TTL.
func (c *cluster) ttl(i int, key string) time.Duration {
	c.tb.Helper()
	left, err := redis.Int64(c.servers[i].Do("PTTL", key))
	require.NoError(c.tb, err)
	return time.Duration(left) * time.Millisecond
}

// eventuallyHeld waits until all servers hold value under key.
func (c *cluster) eventuallyHeld(key string, value redlock.Token) {
	c.tb.Helper()
	eventually(c.tb, func() bool { return c.holding(key, value) == len(c.servers) }, "on all servers: %s = %s", key, string(value))
}

// common waits until all servers hold the same under key, and returns it: the holder's token stays unknown.
func (c *cluster) common(key string) (value redlock.Token) {
	c.tb.Helper()
	eventually(c.tb, func() bool {
		value = redlock.Token(c.value(0, key))
		return value != "" && c.holding(key, value) == len(c.servers)
	}, "%s on all servers", key)
	return value
}

// eventuallyEmpty waits until no server holds any key.
func (c *cluster) eventuallyEmpty() {
	c.tb.Helper()
	c.each(func(i int) {
		eventually(c.tb, func() bool { return c.do(i, "DBSIZE") == int64(0) }, "server %d still holds a key: %v", i, leftKeys{c, i})
	})
}

// leftKeys prints the keys that a server holds, and what "name" has.
type leftKeys struct {
	*cluster
	server int
}

func (l leftKeys) String() string {
	return fmt.Sprintf("%q, name %q, slots %q", l.do(l.server, "KEYS", "*"), l.do(l.server, "GET", "name"),
		l.do(l.server, "ZRANGE", "{name}:slots", 0, -1))
}

// eventually waits for what is bound to happen; the bound is only there to end a test that has failed.
func eventually(tb testing.TB, happened func() bool, what string, args ...any) {
	tb.Helper()
	until(tb, 20*time.Millisecond, happened, what, args...)
}

// until asks whether something has happened, until it has. The pauses between are an eighth of the wait, and most at most.
func until(tb testing.TB, most time.Duration, happened func() bool, what string, args ...any) {
	tb.Helper()
	for began := time.Now(); !happened(); {
		waited := time.Since(began)
		if waited > 30*time.Second {
			require.FailNow(tb, fmt.Sprintf("never: "+what, args...))
		}
		pass(min(max(waited/8, time.Millisecond), most))
	}
}

// receive returns what comes from a channel.
func receive[T any](tb testing.TB, from <-chan T, what string) T {
	tb.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(30 * time.Second):
		require.FailNow(tb, "waited too long", what)
		panic("not reached")
	}
}

// over is a context that was cancelled.
func over(tb testing.TB) context.Context {
	ctx, cancel := context.WithCancel(tb.Context())
	cancel()
	return ctx
}

// briefly returns a context that ends soon, and within one that ends after d.
func briefly(tb testing.TB) context.Context { return within(tb, brief) }

func within(tb testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(cancel)
	return ctx
}

// take takes a lock that is free. If it is held when the test ends, it is released.
func take(tb testing.TB, locker *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	tb.Helper()
	return got(locker.TryLock(tb.Context(), name, opts...))(tb)
}

// got returns a lock that a call must have got. If it is held when the test ends, it is released.
func got(lock *redlock.Lock, err error) func(tb testing.TB) *redlock.Lock {
	return func(tb testing.TB) *redlock.Lock {
		tb.Helper()
		require.NoError(tb, err)
		tb.Cleanup(func() {
			switch err := lock.Err(); {
			case tb.Failed():
			case err == nil:
				assert.NoError(tb, lock.Unlock(context.Background()), "%s is held", lock.Name())
			case errors.Is(err, redlock.ErrExpired): // by the test's clock
				_ = lock.Unlock(context.Background())
			}
		})
		return lock
	}
}

// unlock releases locks that are held, one after the other.
func unlock(tb testing.TB, locks ...*redlock.Lock) {
	tb.Helper()
	for _, lock := range locks {
		require.NoError(tb, lock.Unlock(tb.Context()))
	}
}

// everywhere returns a lock once all servers hold it.
func (c *cluster) everywhere(lock *redlock.Lock) *redlock.Lock {
	c.tb.Helper()
	c.eventuallyHeld(lock.Name(), lock.Token())
	return lock
}

// contextOf returns the context of a lock.
func contextOf(tb testing.TB, lock *redlock.Lock) context.Context {
	ctx, cancel := lock.Context(tb.Context())
	tb.Cleanup(cancel)
	return ctx
}

// detach gives a lock up for whoever has its token.
func detach(tb testing.TB, lock *redlock.Lock) (token redlock.Token) {
	tb.Helper()
	token, err := lock.Detach(tb.Context())
	require.NoError(tb, err)
	return token
}

// requireIs fails the test unless an error is all of some others, and none of those that are in not{}.
func requireIs(tb testing.TB, err error, all ...error) {
	tb.Helper()
	for _, one := range all {
		if other, ok := one.(not); ok { //nolint:errorlint // the very value is meant
			require.NotErrorIs(tb, err, other.error)
		} else {
			require.ErrorIs(tb, err, one)
		}
	}
}

type not struct{ error }

// as returns the error of a type in err.
func as[E error](tb testing.TB, err error, args ...any) (found E) {
	tb.Helper()
	require.ErrorAs(tb, err, &found, args...)
	return found
}

// must returns the value of a call that must not fail.
func must[T any](v T, err error) func(tb testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		require.NoError(tb, err)
		return v
	}
}

// beside has a call run on another goroutine, and returns where its error comes.
func beside(call func() error) chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	return ended
}

// errOf returns the error of a call that returns something else, too.
func errOf[T any](_ T, err error) error { return err }

// refused returns the QuorumError in err, after having checked what it is and is not, and that it is about every node, in order.
func (c *cluster) refused(err error, is ...error) *redlock.QuorumError {
	c.tb.Helper()
	requireIs(c.tb, err, is...)
	refusal := as[*redlock.QuorumError](c.tb, err)
	require.Len(c.tb, refusal.Nodes, len(c.servers))
	for i, node := range refusal.Nodes {
		require.Equal(c.tb, c.servers[i].Addr(), node.Addr)
	}
	require.Equal(c.tb, len(c.servers)/2+1, refusal.Need)
	return refusal
}

// info returns a field of INFO of server i, "" if it is not there.
func (c *cluster) info(i int, section, field string) string {
	c.tb.Helper()
	return testredis.Info(c.tb, c.servers[i], section, field)
}

// calls returns how many commands of these names all servers together have been sent, or their scripts.
func (c *cluster) calls(names ...string) int {
	c.tb.Helper()
	sum := 0
	for i := range c.servers {
		for _, name := range names {
			stat := c.info(i, "commandstats", "cmdstat_"+name)
			if stat == "" {
				continue
			}
			n, err := strconv.Atoi(strings.TrimPrefix(strings.SplitN(stat, ",", 2)[0], "calls="))
			require.NoError(c.tb, err)
			sum += n
		}
	}
	return sum
}

// lockCommands is what rounds, looks, renewals and messages are made of.
var lockCommands = []string{"set", "eval", "evalsha", "publish"}

// asked returns how many commands about locks all servers together have been sent.
func (c *cluster) asked() int {
	c.tb.Helper()
	return c.calls(lockCommands...)
}

// settled waits until no commands about locks come in any more for a while, and returns their number.
func (c *cluster) settled() int {
	c.tb.Helper()
	last := c.asked()
	eventually(c.tb, func() bool {
		pass(300 * time.Millisecond)
		before := last
		last = c.asked()
		return last == before
	}, "no more commands")
	return last
}

// proves has the connections of a Locker with a key prefix take a lock and release it. Without that a node grants nothing that could not be
// released, and is sent other commands.
func (c *cluster) proves(locker *redlock.Locker, prefix string) {
	c.tb.Helper()
	lock := take(c.tb, locker, "proof")
	c.eventuallyHeld(prefix+"proof", lock.Token())
	unlock(c.tb, lock)
	c.settled()
}

// eventuallyTracked waits until every server has a key to tell of.
func (c *cluster) eventuallyTracked() {
	c.tb.Helper()
	c.each(func(i int) {
		eventually(c.tb, func() bool { return c.info(i, "stats", "tracking_total_keys") != "0" }, "server %d tracks", i)
	})
}

// pass lets time go by, in which something must not happen.
func pass(d time.Duration) { <-time.After(d) }

// asleep has one call of Lock wait in a Locker of its own until all servers would tell it of a change.
func (c *cluster) asleep(name string, opts ...redlock.Option) (*redlock.Locker, <-chan held) {
	c.tb.Helper()
	locker := c.locker(opts...)
	waiter := lockBeside(c.tb.Context(), locker, name)
	c.eventuallyTracked()
	return locker, waiter
}

// won returns the lock that a waiter has got.
func won(tb testing.TB, waiter <-chan held) *redlock.Lock {
	tb.Helper()
	h := receive(tb, waiter, "the lock")
	return got(h.lock, h.err)(tb)
}

// turnUntil lets the fake's time go by in steps, and time for what comes of each, until something has happened.
func turnUntil(tb testing.TB, fake *clocktest.Fake, step time.Duration, happened func() bool) {
	tb.Helper()
	until(tb, 2*time.Millisecond, func() bool {
		if happened() {
			return true
		}
		fake.Advance(step)
		return false
	}, "within many steps of %s", step)
}

// visits returns who was inside so far, after having checked that it was one at a time.
func visits(tb testing.TB, judge testredis.Server) []string {
	tb.Helper()
	seen, err := redis.Strings(judge.Do("LRANGE", "visits", 0, -1))
	require.NoError(tb, err)
	var who []string
	for i := 0; i+1 < len(seen); i += 2 {
		come, goes := seen[i], seen[i+1]
		require.True(tb, come[0] == '+' && goes == "-"+come[1:], "two are inside: %v", seen[max(0, i-4):i+2])
		who = append(who, come[1:])
	}
	return who
}

// allCame waits until every process has been inside a number of times, and returns how often each was.
func allCame(tb testing.TB, judge testredis.Server, processes, times int) map[string]int {
	tb.Helper()
	var counts map[string]int
	eventually(tb, func() bool {
		counts = map[string]int{}
		for _, who := range visits(tb, judge) {
			counts[who]++
		}
		least := len(counts) == processes
		for _, n := range counts {
			least = least && n >= times
		}
		return least
	}, "everybody has been inside %d times", times)
	return counts
}

// isOver says whether a channel such as Done's is closed.
func isOver(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// watched is a context that says when somebody begins to wait for its end. Lock does so once it stands in the queue, and in its first round,
// which does not count.
type watched struct {
	context.Context
	once    sync.Once
	waiting chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	if !calledBy("(*Locker).first(") {
		w.waits()
	}
	return w.Context.Done()
}

func (w *watched) waits() { w.once.Do(func() { close(w.waiting) }) }

// calledBy reports whether a function of the library, such as (*Locker).first(, is among the callers.
func calledBy(function string) bool {
	stack := make([]byte, 1<<14)
	return bytes.Contains(stack[:runtime.Stack(stack, false)], []byte(function))
}

// queue has a call of Lock wait, and returns when it stands in the queue, or has ended.
func queue(tb testing.TB, ctx context.Context, locker *redlock.Locker, name string, opts ...redlock.LockOption) <-chan held { //nolint:revive // tb comes first in all helpers
	tb.Helper()
	w := &watched{Context: ctx, waiting: make(chan struct{})}
	result, ended := make(chan held, 1), lockBeside(w, locker, name, opts...)
	go func() {
		result <- <-ended
		w.waits()
	}()
	receive(tb, w.waiting, "its place in the queue")
	return result
}

// line is a number of calls of Lock that wait one behind the other, and what became of them.
type line struct {
	tb   testing.TB
	all  sync.WaitGroup
	mu   sync.Mutex
	came []string // who has had the lock
}

// join lets somebody wait behind all others, who gives the lock back at once.
func (l *line) join(locker *redlock.Locker, who string) {
	l.tb.Helper()
	waiter := queue(l.tb, l.tb.Context(), locker, "name")
	l.all.Go(func() {
		h := <-waiter
		if h.err != nil {
			l.tb.Errorf("%s: %v", who, h.err)
			return
		}
		l.mu.Lock()
		l.came = append(l.came, who)
		l.mu.Unlock()
		if err := h.lock.Unlock(l.tb.Context()); err != nil {
			l.tb.Errorf("%s: %v", who, err)
		}
	})
}

// end waits until all have had the lock, and returns who came when.
func (l *line) end() []string {
	l.tb.Helper()
	ended := make(chan struct{})
	go func() {
		l.all.Wait()
		close(ended)
	}()
	receive(l.tb, ended, "the end of the line")
	return l.came
}

// waits takes the lock of a name by Lock.
func waits(tb testing.TB, locker *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	tb.Helper()
	return got(locker.Lock(tb.Context(), name, opts...))(tb)
}

// recorder is an Observer that keeps what it is told.
type recorder struct {
	mu     sync.Mutex
	events []event.Event
	// These are without At and Call.
	votes    []protocol.Vote
	verdicts []protocol.Round
}

// Groups asks for all events.
func (*recorder) Groups() []event.Group { return outcome.Groups() }

func (r *recorder) Observe(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	switch v := e.(type) {
	case protocol.Vote:
		v.At, v.Call, v.Late = time.Time{}, 0, false
		r.votes = append(r.votes, v)
	case protocol.Round:
		v.At, v.Call, v.Late = time.Time{}, 0, false
		r.verdicts = append(r.verdicts, v)
	}
}

// eventsOf returns the events of a kind so far.
func eventsOf[E event.Event](r *recorder) (all []E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e, ok := e.(E); ok {
			all = append(all, e)
		}
	}
	return all
}

// waitFor waits for n events of a kind, and returns the events of that kind.
func waitFor[E event.Event](tb testing.TB, r *recorder, n int) (all []E) {
	tb.Helper()
	eventually(tb, func() bool {
		all = eventsOf[E](r)
		return len(all) >= n
	}, "%d events of type %T", n, *new(E))
	return all
}

// votesOn returns the votes so far on an operation and a name ("": any), in the order of the nodes.
func (r *recorder) votesOn(op event.Op, name string) []protocol.Vote {
	r.mu.Lock()
	defer r.mu.Unlock()
	votes := slices.DeleteFunc(slices.Clone(r.votes), func(v protocol.Vote) bool {
		return v.Op != op || name != "" && v.Name != name
	})
	slices.SortStableFunc(votes, func(a, b protocol.Vote) int { return a.Node - b.Node })
	return votes
}

// verdictsOn returns the verdicts on an operation so far.
func (r *recorder) verdictsOn(op event.Op) []protocol.Round {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.verdicts), func(v protocol.Round) bool { return v.Op != op })
}

// yes returns how many nodes have said yes so far to the acquires of a name.
func (r *recorder) yes(name string) int {
	votes := r.votesOn("acquire", name)
	return len(slices.DeleteFunc(votes, func(v protocol.Vote) bool { return v.Answer != protocol.AnswerYes }))
}

// waitForVotes waits until n votes on an operation and a name ("": any) have come in, stragglers included.
func (r *recorder) waitForVotes(tb testing.TB, op event.Op, name string, n int) {
	tb.Helper()
	eventually(tb, func() bool { return len(r.votesOn(op, name)) >= n }, "%d votes on %s %s", n, op, name)
}

// takeOnAll takes locks until one is held on all n nodes, and returns that one, the others released.
func (r *recorder) takeOnAll(tb testing.TB, locker *redlock.Locker, n int, opts ...redlock.LockOption) *redlock.Lock {
	tb.Helper()
	var lock *redlock.Lock
	eventually(tb, func() bool {
		name := rand.Text()
		var err error
		if lock, err = locker.TryLock(tb.Context(), name, opts...); err != nil {
			return false
		}
		r.waitForVotes(tb, "acquire", name, n)
		if r.yes(name) == n {
			return true
		}
		_ = lock.Unlock(tb.Context())
		return false
	}, "a lock on all nodes")
	return got(lock, nil)(tb)
}

// connect waits until all n nodes take part. By then they have also carried out what was sent to them before.
func (r *recorder) connect(tb testing.TB, locker *redlock.Locker, n int) {
	tb.Helper()
	lock := r.takeOnAll(tb, locker, n)
	require.NoError(tb, lock.Unlock(tb.Context()))
	r.waitForVotes(tb, "unlock", lock.Name(), n)
}

// tokens is a token source that keeps what it gave.
type tokens struct {
	mu    sync.Mutex
	given []string
}

func (s *tokens) next() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = append(s.given, rand.Text())
	return s.given[len(s.given)-1], nil
}

func (s *tokens) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.given)
}

// renewalIn returns when the i-th renewal of a lock with a TTL is due, after the one before: the first comes early.
func renewalIn(i int, ttl time.Duration) time.Duration {
	if i == 0 {
		return 100 * time.Millisecond
	}
	return ttl / 3
}

// nextAt waits until the next thing that the Locker does by the clock is due in d, and lets that time go by.
func nextAt(tb testing.TB, fake *clocktest.Fake, d time.Duration) {
	tb.Helper()
	var next time.Duration
	eventually(tb, func() bool {
		var pending bool
		next, pending = fake.Next()
		return pending && next == d
	}, "due in %s", d)
	fake.Advance(d)
}

// connections returns the ids of the connections to server i that have a name.
func (c *cluster) connections(i int, name string) []string {
	c.tb.Helper()
	var ids []string
	list := fmt.Sprintf("%s", c.do(i, "CLIENT", "LIST"))
	for line := range strings.Lines(list) {
		if strings.Contains(line, " name="+name+" ") {
			id, _, _ := strings.Cut(line, " ")
			ids = append(ids, id)
		}
	}
	return ids
}

// held is what a call of Lock on another goroutine returns.
type held struct {
	lock *redlock.Lock
	err  error
}

func lockBeside(ctx context.Context, locker *redlock.Locker, name string, opts ...redlock.LockOption) <-chan held {
	result := make(chan held, 1)
	go func() {
		lock, err := locker.Lock(ctx, name, opts...)
		result <- held{lock, err}
	}()
	return result
}

// waiting makes a Locker whose refused rounds can be waited for.
func (c *cluster) waiting(nodes []*pool.Node, opts ...redlock.Option) (*redlock.Locker, *recorder) {
	seen := &recorder{}
	opts = append([]redlock.Option{redlock.WithObserver(seen), redlock.WithBackoff(time.Millisecond, 10*time.Millisecond)}, opts...)
	return lockerOver(c.tb, nodes, opts...), seen
}

// waitForRefusals waits until n rounds have been refused.
func (r *recorder) waitForRefusals(tb testing.TB, n int) {
	tb.Helper()
	eventually(tb, func() bool { return len(r.verdictsOn("acquire")) >= n }, "%d refused rounds", n)
}

// noPolls is a back-off under which only what the servers tell can wake a waiter.
var noPolls = redlock.WithBackoff(long, long)

// foreign takes a name as other programs of the recipe do, on every server.
func (c *cluster) foreign(name string, ttl time.Duration) (release func()) {
	c.tb.Helper()
	const value = "Zm9yZWlnbg==" // any text
	c.each(func(i int) { require.Equal(c.tb, "OK", c.do(i, "SET", name, value, "NX", "PX", ttl.Milliseconds())) })
	return func() {
		c.tb.Helper()
		const script = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`
		c.each(func(i int) { require.EqualValues(c.tb, 1, c.do(i, "EVAL", script, 1, name, value)) })
	}
}

// renewed lets renewal i of a lock with a TTL come due, and waits for it.
func (r *recorder) renewed(tb testing.TB, fake *clocktest.Fake, i int, ttl time.Duration) {
	tb.Helper()
	nextAt(tb, fake, renewalIn(i, ttl))
	eventually(tb, func() bool { return r.renewals() == i+1 }, "renewal %d", i)
}

// renewals returns how many renewals have been done so far.
func (r *recorder) renewals() (n int) {
	for _, v := range r.verdictsOn("extend") {
		if v.Err == nil {
			n++
		}
	}
	return n
}

// tapped is a network connection that a test looks into.
type tapped struct {
	net.Conn
	wrote  func(p []byte)      // before p is sent
	gotten func(p []byte) bool // after p has come in; false breaks the connection instead of passing p on
}

func (w *tapped) Write(p []byte) (int, error) {
	if w.wrote != nil {
		w.wrote(p)
	}
	return w.Conn.Write(p)
}

func (w *tapped) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if err == nil && w.gotten != nil && !w.gotten(p[:n]) {
		_ = w.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// throughWires has every new connection pass through what look makes of it.
func throughWires(look func(address string, w *tapped)) pool.Option {
	return pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w := &tapped{Conn: conn}
		look(address, w)
		return w, nil
	})
}

// counting counts how often a word goes out over the connections.
func counting(word string, n *atomic.Int64) pool.Option {
	return throughWires(func(_ string, w *tapped) {
		w.wrote = func(p []byte) { n.Add(int64(bytes.Count(p, []byte(word)))) }
	})
}
