package engine

import (
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/clocktest"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

func TestAutoExtend_LocksThatWaitForOthersAreRenewedInTheOrderInWhichTheyAreDue(t *testing.T) {
	fake := clocktest.New()
	g := unanswered(t, fake)
	r := &g.renewals
	r.under = map[*Extend]struct{}{}
	begin := func() *Extend { // one that takes long
		e := new(Extend)
		r.under[e] = struct{}{}
		return e
	}
	for range maxRenewing - 1 {
		begin()
	}
	last := begin()
	third, first, ended, second := renewed(g, "c", 200*time.Millisecond), renewed(g, "a", 100*time.Millisecond),
		renewed(g, "d", 120*time.Millisecond), renewed(g, "b", 150*time.Millisecond)
	later := renewed(g, "e", time.Minute) // due after 0.1 s at the latest
	ended.Enter()
	ended.stopRenewingLocked()
	ended.Exit()
	fake.Advance(time.Second)
	require.Nil(t, r.next())
	for _, h := range []*Held{first, second, third, later} {
		delete(r.under, last)
		require.Same(t, h, r.next())
		last = begin()
	}
	require.Len(t, r.under, maxRenewing)
	delete(r.under, last)
	require.Nil(t, r.next())
	clear(r.under)
}

// The danger: Close gives up a renewal that has been counted, and has no turn yet.
func TestAutoExtend_ARenewalCanBeGivenUpFromWhenItIsCounted(t *testing.T) {
	g := unanswered(t, clock.System())
	h, r := renewed(g, "name", time.Hour), &g.renewals
	begun, locked, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	g.Events = renewing{begun: func() {
		close(begun)
		<-locked
	}}
	go func() {
		defer close(ended)
		r.renew(h)
	}()
	<-begun
	h.Enter()
	close(locked)
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		return waitsToRenew.Match(stacks[:runtime.Stack(stacks, true)])
	}, time.Minute, time.Millisecond)
	counted := len(r.all(func(*Extend) bool { return true }))
	h.Exit()
	<-ended
	require.Zero(t, counted)
}

// waitsToRenew matches the stack of a goroutine that waits for the mutex of an entry to renew a lock.
var waitsToRenew = regexp.MustCompile(`\(\*Entry\)\.Enter\(.*\n.*\n.*\(\*renewals\)\.renew\(`)

// unanswered returns an Engine over a node that does not answer.
func unanswered(t *testing.T, c clock.Clock) *Engine {
	nodes, err := pool.Open([]string{"redis://127.0.0.1:1"})
	require.NoError(t, err)
	g := New(Config{Nodes: []*Node{(*Node)(nodes[0])}, Own: true, Clock: c, Events: nobody{}})
	t.Cleanup(g.Close)
	return g
}

// nobody does not care for what it hears.
type nobody struct{}

func (nobody) Raising(*Round, int, uint64, uint64)             {}
func (nobody) Voted(*Round, int, quorum.Answer, string, error) {}
func (nobody) Settled(*Round)                                  {}
func (nobody) Ended(*Round)                                    {}
func (nobody) Turn(string, int, bool)                          {}
func (nobody) Stuck(string, *Stuck)                            {}
func (nobody) Healed(string, int)                              {}
func (nobody) Opposed(string, string)                          {}

func (nobody) Over(*Held, quorum.Ending) {}
func (nobody) Began(*Round)              {}
func (nobody) Refused(*Waiter)           {}
func (nobody) WaitsLong(*Entry)          {}

// renewing hears of renewals.
type renewing struct {
	nobody
	begun func()
}

func (r renewing) Began(*Round) { r.begun() }

// renewed returns a lock that has just been taken and is renewed.
func renewed(g *Engine, key string, ttl time.Duration) *Held {
	h := &Held{First: Holder{Want: Want{TTL: ttl, Renewed: true}}}
	e := g.Enter(key)
	defer e.Exit()
	e.AdoptLocked(h, form.ID{Key: "name", Token: "token"}, *quorum.NewLease(1, quorum.Grant{Start: g.Clock.Now(), TTL: ttl}))
	return h
}
