package quorum_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// nodeTimeout is after which a command of the world is answered at the latest.
const nodeTimeout = 50 * time.Millisecond

// world is some nodes that hold one key, and the processes that want it, in simulated time.
type world struct {
	t         *testing.T
	random    *rand.Rand
	now       time.Time
	agenda    agenda
	planned   int
	nodes     []*worldNode
	processes []*process
	heal      time.Duration
	foreign   int // tokens of others made so far
	quiet     bool
	story     []line
	freed     time.Time // when a lock, or what stood in the way of one, was last taken away
	counted   time.Time // when commands were last counted
}

type worldNode struct {
	number   int
	down     bool
	token    string
	ends     time.Time         // zero: no TTL
	watchers map[*process]bool // to be told of the next change
}

func newWorld(t *testing.T, n, processes int, random *rand.Rand) *world {
	w := &world{t: t, random: random, now: start, counted: start}
	if w.chance(2) {
		w.heal = 50 * time.Millisecond
	}
	for i := range n {
		w.nodes = append(w.nodes, &worldNode{number: i, watchers: map[*process]bool{}})
	}
	for range processes {
		w.processes = append(w.processes, newProcess(w))
	}
	return w
}

// line is one of the story that a failure prints.
type line struct {
	at     time.Time
	format string
	values []any
}

func (l line) String() string {
	return fmt.Sprintf("%9.3f ", float64(l.at.Sub(start))/1e6) + fmt.Sprintf(l.format, l.values...)
}

func (w *world) tell(format string, values ...any) {
	w.story = append(w.story, line{w.now, format, values})
}

func (w *world) fail(format string, values ...any) {
	w.t.Helper()
	var story strings.Builder
	for _, l := range w.story[max(0, len(w.story)-100):] {
		story.WriteString(l.String() + "\n")
	}
	require.Fail(w.t, fmt.Sprintf(format, values...), "%s", story.String())
}

func (w *world) at(at time.Time, what func()) {
	w.planned++
	heap.Push(&w.agenda, &appointment{at: at, number: w.planned, what: what})
}

func (w *world) after(d time.Duration, what func()) { w.at(w.now.Add(d), what) }

func (w *world) below(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(w.random.Int64N(int64(d)))
}

// chance is true once in so many times.
func (w *world) chance(in int) bool { return w.random.IntN(in) == 0 }

// trip is a way to a node or back, most of the time a short one.
func (w *world) trip() time.Duration {
	if w.chance(50) {
		return w.below(10 * time.Millisecond)
	}
	return 100*time.Microsecond + w.below(time.Millisecond)
}

// run lets the world go on until an instant, or until it is done.
func (w *world) run(until time.Time, done func() bool) {
	for len(w.agenda) > 0 && !w.agenda[0].at.After(until) && !done() {
		next := heap.Pop(&w.agenda).(*appointment)
		w.now = next.at
		next.what()
		for _, p := range w.processes {
			p.check()
		}
	}
}

func foreign(token string) bool { return strings.HasPrefix(token, "foreign") }

// set changes what a node holds, which those that watch are told.
func (w *world) set(n *worldNode, token string, ends time.Time) {
	if foreign(n.token) && token == "" {
		w.freed = w.now
	}
	n.token, n.ends = token, ends
	for _, p := range w.processes { // a map has no order to replay
		if n.watchers[p] {
			delete(n.watchers, p)
			p.hear(n, func() {
				w.tell("%s: node %d has changed", p.name, n.number)
				p.do(p.machine.Changed(w.now, n.number))
			})
		}
	}
	if token != "" && !ends.IsZero() { // expiry is announced late
		w.at(ends.Add(w.below(100*time.Millisecond)), func() { w.lookUp(n) })
	}
}

// lookUp returns the token that a node holds by now.
func (w *world) lookUp(n *worldNode) string {
	if n.token != "" && !n.ends.IsZero() && !w.now.Before(n.ends) {
		w.freed = w.now
		w.set(n, "", time.Time{})
	}
	return n.token
}

func (w *world) acquire(n *worldNode, token string, ttl time.Duration) quorum.Vote {
	if w.lookUp(n) != "" {
		return quorum.No
	}
	w.set(n, token, w.now.Add(ttl))
	return quorum.Yes
}

func (w *world) release(n *worldNode, token string) quorum.Vote {
	if w.lookUp(n) != token {
		return quorum.No
	}
	w.set(n, "", time.Time{})
	return quorum.Yes
}

// somebodyElse takes what nodes it gets, as clients do that tell nobody of themselves, and lets go of
// them after a while: at each in its own time, or not before their TTL.
func (w *world) somebodyElse() {
	w.foreign++
	token := fmt.Sprintf("foreign.%d", w.foreign)
	ttl := []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, time.Second, time.Hour}[w.random.IntN(4)]
	releases, all := w.chance(2), w.chance(2)
	hold := w.below(200 * time.Millisecond)
	noTTL := w.heal > 0 && w.chance(10)
	w.tell("%s takes the lock for %s, all: %t, no TTL: %t, lets go of it: %t", token, ttl, all, noTTL, releases)
	for _, n := range w.nodes {
		if n.down || !all && w.chance(2) {
			continue
		}
		w.after(w.trip(), func() {
			if !w.quiet && w.acquire(n, token, ttl) == quorum.Yes && noTTL {
				n.ends = time.Time{}
			}
		})
		if noTTL {
			continue
		}
		if w.chance(2) {
			w.after(hold/2+w.trip(), func() {
				if w.lookUp(n) == token {
					w.set(n, token, w.now.Add(ttl))
				}
			})
		}
		if releases {
			w.after(hold+20*time.Millisecond+w.trip(), func() { w.release(n, token) })
		}
	}
}

// breakNode cuts a node off for a while.
func (w *world) breakNode(n *worldNode, d time.Duration) {
	if n.down {
		return
	}
	w.tell("node %d is cut off for %s", n.number, d)
	n.down = true
	for _, p := range w.processes {
		p.deafen(n, d)
	}
	w.after(d, func() { n.down = false })
}

// calm ends all trouble within a while, but for what somebody has left behind for long on a minority of
// the nodes. Nodes and ears have been given back by then.
func (w *world) calm() {
	w.tell("quiet")
	w.quiet = true
	for _, n := range w.nodes[w.random.IntN(len(w.nodes)-majorityOf(len(w.nodes))+1):] {
		w.after(w.below(5*time.Millisecond), func() {
			if foreign(n.token) && n.ends.After(w.now.Add(time.Second)) {
				w.set(n, "", time.Time{})
			}
		})
	}
}

// agenda is a heap of what is going to happen.
type agenda []*appointment

type appointment struct {
	at     time.Time
	number int
	what   func()
}

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if a[i].at.Equal(a[j].at) {
		return a[i].number < a[j].number
	}
	return a[i].at.Before(a[j].at)
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(*appointment)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
