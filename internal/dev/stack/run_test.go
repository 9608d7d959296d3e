package stack_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// run is a plan under way, in a bubble of its own.
type run struct {
	plan    *plan
	begin   time.Time
	servers []*server
	clients []*client
	serving sync.WaitGroup // the servers' connections
	paused  atomic.Uint64

	mu         sync.Mutex
	trace      []string
	violations []string
	happened   map[string]int
	locks      []*held        // every Lock that was won
	pending    sync.Map       // calls that have not returned
	left       sync.Map       // the tokens of locks that a client has left to another
	renewed    sync.Map       // the tokens of locks that are renewed
	watching   sync.WaitGroup // of Done
}

// maxTrace is how many lines of what happened are kept.
const maxTrace = 4000

// play runs a plan in a bubble.
func play(t *testing.T, p *plan) *run {
	r := &run{plan: p, happened: map[string]int{}}
	defer func() { // a deadlock in the bubble, for example
		if what := recover(); what != nil {
			panic(fmt.Sprintf("%v\n%s", what, r.report()))
		}
	}()
	defer threads()()
	synctest.Test(t, func(*testing.T) {
		r.begin = time.Now()
		for i := range p.nodes {
			r.servers = append(r.servers, newServer(r, i))
		}
		for i := range p.clients {
			r.clients = append(r.clients, newClient(r, i))
		}
		r.play()
	})
	return r
}

func (r *run) play() {
	var troubled, working sync.WaitGroup
	for _, f := range r.plan.faults {
		troubled.Go(func() { r.strike(f) })
	}
	for _, c := range r.clients {
		for i, steps := range c.plan.workers {
			working.Go(func() { c.work(i, steps) })
		}
	}
	if r.plan.abrupt > 0 {
		pass(r.plan.abrupt)
		r.end()
	}
	r.await(&working)
	r.await(&troubled)
	r.note("all faults are over")
	pass(calmTime)
	if r.plan.abrupt == 0 {
		r.rest()
	}
	for _, s := range r.servers {
		r.checkLeft(s)
	}
	if r.plan.abrupt == 0 {
		r.end()
	}
	r.await(&r.watching)
	r.await(&r.serving) // the servers' ends of connections go with the clients' ends
	r.checkVotes()
	r.checkNoGoroutineIsLeft()
}

// end closes everything, as programs that end at once do.
func (r *run) end() {
	var all sync.WaitGroup
	for _, c := range r.clients {
		all.Go(c.end)
	}
	r.await(&all)
}

// strike lets a fault happen, and ends it.
func (r *run) strike(f fault) {
	pass(f.at)
	hit := r.servers[f.node : f.node+1]
	if n := len(r.servers); f.wide {
		hit = slices.Concat(r.servers, r.servers)[f.node : f.node+n/2+1]
	}
	r.note("%v", f)
	r.count(f.kind.String())
	var lifts []func()
	for _, s := range hit {
		lifts = append(lifts, f.strike(s))
	}
	pass(f.lasts)
	for _, lift := range lifts {
		lift()
	}
	r.note("over: %v", f)
}

// await waits for far longer than anything may take.
func (r *run) await(group *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * long):
		var calls []string
		for call := range r.pending.Range {
			calls = append(calls, *call.(*string))
		}
		panic("this does not end: " + strings.Join(calls, ", ") + "\n" + r.report() + "\n" + stacks())
	}
}

// yield lets others go first now and then, at a place where that could matter.
func (r *run) yield() {
	const often, long = 8, 50
	if r.paused.Add(1)*0x9e3779b97f4a7c15>>32%often != 0 {
		return
	}
	for range long {
		runtime.Gosched()
	}
}

func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked(format, args...)
}

func (r *run) noteLocked(format string, args ...any) {
	if len(r.trace) < maxTrace {
		r.trace = append(r.trace, fmt.Sprintf("%9.3f ms  ", float64(time.Since(r.begin))/float64(unit))+fmt.Sprintf(format, args...))
	}
}

func (r *run) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.happened[what]++
}

// isLeft reports whether a client has left a lock to another.
func (r *run) isLeft(token string) bool {
	_, left := r.left.Load(token)
	return left
}

// violate notes that a promise was broken.
func (r *run) violate(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := fmt.Sprintf(format, args...)
	r.noteLocked("VIOLATION: %s", what)
	r.violations = append(r.violations, what)
}

// report returns what happened, line by line.
func (r *run) report() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%s\n%v\n%s", strings.Join(r.violations, "\n"), r.plan, strings.Join(r.trace, "\n"))
}

// pass lets time go by.
func pass(d time.Duration) { <-time.After(d) }

func stacks() string {
	buffer := make([]byte, 1<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}
