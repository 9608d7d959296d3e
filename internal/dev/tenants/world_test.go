package tenants_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/testredis"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

const (
	size     = 5
	minority = size / 2
	prefix   = "lock:" // of the locks' keys
	ttl      = 10 * time.Second
	// timeout is the node timeout: no healthy node may take that long, even if the machine is busy with other things.
	timeout = 5 * time.Second
	// bound ends what never ends. It is far above everything that is waited for.
	bound   = 2 * time.Minute
	lastLog = 40 // disturbances of servers, and of names, that the first failure shows
	enough  = 10 // failures that end the test
)

// lockerRules are the rights of the user that the Lockers log in as: what docs/operations.md says, for all names.
var lockerRules = strings.Fields("on >secret resetkeys ~lock:* ~{lock:*}:fence resetchannels &quorumlock:* -@all +set +getrange +del " +
	"+pttl +pexpire +eval +evalsha +ping +info +client|id +client|kill +client|tracking +client|caching +subscribe " +
	"+unsubscribe +publish +incrby +time +select +client|setname")

// weather is which servers are in trouble. Two pointers to it differ if anything has changed in between.
type weather struct {
	victims []int // in trouble, or not recovered yet
	number  int
}

// fair reports whether a majority of the servers is untouched.
func (w *weather) fair() bool { return len(w.victims) <= minority }

func (w *weather) spared(server int) bool { return !slices.Contains(w.victims, server) }

// world is the servers, the Lockers on them, and a test that watches both.
type world struct {
	t         *testing.T
	seed      uint64
	began     time.Time
	processes []*testredis.Process
	members   []*member
	oracle    oracle
	payload   string // large, for messages and values
	old       bool   // the servers do not know all rules of an ACL
	admin     *tenant
	weather   atomic.Pointer[weather]
	samples   []sample
	pulse     pulse
	served    atomic.Int64 // calls of which the result was checked
	planted   atomic.Int64 // foreign keys that were given names of their own
	stalls    atomic.Int64 // times when the machine did not keep up

	ctx     context.Context
	stop    context.CancelFunc
	workers sync.WaitGroup

	mu       sync.Mutex
	servers  history // the last disturbances of servers
	names    history // and of names
	failures int
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, began: time.Now(), payload: strings.Repeat("\n", 24<<20)}
	w.processes = testredis.Real(t, size, append([]string{"--user", "locker"}, lockerRules...)...)
	w.old = testredis.IsOld(t, w.processes[0])
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.weather.Store(&weather{})
	t.Cleanup(w.stop)
	w.admin = w.newTenant()
	w.members = []*member{
		w.newMember("plain"),
		w.newMember("fenced", redlock.WithFencing()),
		w.newMember("healing", redlock.WithHeal(200*time.Millisecond)),
	}
	return w
}

// dice returns the source of choices of one actor.
func (w *world) dice(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, actor)) }

// history is the last things that were done.
type history []string

// disturbed notes what a tenant has done, in one of the histories.
func (w *world) disturbed(h *history, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*h = append(*h, fmt.Sprintf("%8.3f s  ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
	if len(*h) > lastLog {
		*h = slices.Delete(*h, 0, len(*h)-lastLog)
	}
}

// failed notes a broken promise.
func (w *world) failed(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures++
	if w.failures <= enough {
		w.t.Errorf("%.3f s, weather %d: %s", time.Since(w.began).Seconds(), w.weather.Load().number, fmt.Sprintf(format, args...))
	}
	if w.failures == 1 {
		w.t.Logf("%s=%d; until then, the last disturbances of servers:\n%s\nand of names:\n%s", seedVariable, w.seed,
			strings.Join(w.servers, "\n"), strings.Join(w.names, "\n"))
	}
	if w.failures >= enough {
		w.stop()
	}
}

// work runs a worker again and again until the end.
func (w *world) work(actor uint64, worker func(d *rand.Rand)) {
	w.workers.Go(func() {
		for d := w.dice(actor); w.ctx.Err() == nil; {
			worker(d)
		}
	})
}

// spawn starts the workers and those who disturb the names that are to be disturbed.
func (w *world) spawn() {
	for i := range size {
		w.beat(i)
	}
	actor := uint64(100)
	next := func() uint64 { actor++; return actor }
	for _, m := range w.members {
		for i := range 2 {
			w.work(next(), func(d *rand.Rand) { w.alone(d, m, i) })
			w.work(next(), func(d *rand.Rand) { w.together(d, m) })
			w.work(next(), func(d *rand.Rand) { w.onDisturbed(d, m) })
		}
		c := w.newTenant()
		w.work(next(), func(d *rand.Rand) { w.onForeign(d, m, c) })
	}
	for range 2 {
		c := w.newTenant()
		w.work(next(), func(d *rand.Rand) { w.mischief(d, c) })
	}
}

// end stops everybody, takes the foreign keys away, and checks what is left.
func (w *world) end() {
	w.stop()
	stopped := make(chan struct{})
	go func() {
		w.workers.Wait()
		w.pulse.beating.Wait()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(bound):
		stacks := make([]byte, 1<<20)
		w.t.Fatalf("a worker does not end:\n%s", stacks[:runtime.Stack(stacks, true)])
	}
	w.sample()
	for i := range size {
		for _, key := range append(disturbedKeys(), w.admin.keys(i, "*foreign-*")...) {
			w.admin.must(i, "DEL", key)
		}
	}
	for _, m := range w.members {
		for i := range hot {
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			lock, err := m.locker.Lock(ctx, hotName(i))
			cancel()
			require.NoError(w.t, err, "%s: a name is not served after its foreign keys are gone", m.name)
			require.NoError(w.t, lock.Unlock(context.Background()))
		}
		require.NoError(w.t, m.locker.Close())
	}
	for i := range size {
		var left []string
		for begin := time.Now(); time.Since(begin) < bound; <-time.After(50 * time.Millisecond) {
			if left = w.admin.keys(i, prefix+"*"); len(left) == 0 {
				break
			}
		}
		require.Empty(w.t, left, "keys of ours stay on server %d", i)
	}
	require.Positive(w.t, w.served.Load())
	w.t.Logf("%s=%d: %d episodes, %d calls checked, %d failures, %d stalls of the machine", seedVariable, w.seed, w.weather.Load().number,
		w.served.Load(), w.failures, w.stalls.Load())
}

// member is a Locker, and what it notifies.
type member struct {
	name    string
	locker  *redlock.Locker
	fenced  bool
	heals   bool
	tallies tallies
}

func (w *world) newMember(name string, opts ...redlock.Option) *member {
	urls := make([]string, size)
	for i, p := range w.processes {
		urls[i] = "redis://locker:secret@" + p.Addr()
	}
	m := &member{name: name, fenced: name == "fenced", heals: name == "healing"}
	m.tallies.yes, m.tallies.rounds = map[string]int{}, map[string]int{}
	opts = append([]redlock.Option{
		redlock.WithKeyPrefix(prefix), redlock.TTL(ttl), redlock.WithClock(shared), redlock.WithObserver(&m.tallies, protocol.Rounds, protocol.Votes),
		pool.WithTimeout(timeout), pool.WithDialTimeout(timeout), pool.WithMaxOverdue(100 * time.Millisecond),
		pool.WithClientName("tenants-" + name),
	}, opts...)
	var err error
	m.locker, err = redlock.Open(urls, opts...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = m.locker.Close() })
	return m
}
