//go:build linux

// Package nemesis makes servers, networks and clients fail, while clients take locks.
package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
)

// Client is a client process.
type Client interface {
	Name() string
	Freeze() error            // SIGSTOP
	Thaw() error              // SIGCONT
	Jump(time.Duration) error // its clock of leases is ahead from now on
	Kill() error              // and starts another in its place
}

// World is what faults happen to.
type World struct {
	Cluster  *cluster.Cluster
	Nodes    []int         // the servers that locks are taken on
	Register int           // the server with the registers
	Clients  []Client      // the i-th is on the i-th machine
	Durable  bool          // the nodes sync every write: none forgets anything
	Longest  time.Duration // the longest TTL
	Guard    time.Duration // of the restart guard; 0 is none
	History  *history.Recorder
	Log      func(format string, args ...any)
	Prefix   string   // of all keys
	Names    []string // of the locks

	mu   sync.Mutex      // also of Nodes, while other programs use them
	busy map[string]bool // what a fault changes, so that no other does meanwhile
}

// Fault is a way to make something fail.
type Fault struct {
	What string
	Only Needs
	run  func(*attack) error
}

// Needs says in which worlds a fault breaks no assumption of the locks.
type Needs int

// The worlds.
const (
	Any      Needs = iota // every world
	Guarded               // the server forgets: only with a restart guard
	Lasting               // the server is ended, and comes back with all that it has confirmed
	Breaking              // never
)

// attack is a fault under way.
type attack struct {
	*World
	ctx     context.Context // ends when the fault has to
	dice    *rand.Rand
	nodes   []int // those that the fault may concern
	clients []int
	lasting time.Duration // how long it goes on
}

// Run lets faults happen until ctx ends, one after the other with pauses between, and then waits until all is well again.
// Several may run at a time.
func (w *World) Run(ctx context.Context, dice *rand.Rand, faults []Fault, pause time.Duration) error {
	faults = slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool {
		return f.Only == Guarded && w.Guard == 0 || f.Only == Lasting && !w.Durable
	})
	if len(faults) == 0 {
		w.Log("none of these faults is for such nodes")
		return nil
	}
	for ctx.Err() == nil {
		wait(ctx, time.Duration(dice.Int64N(int64(pause)+1)))
		if err := w.strike(ctx, dice, faults[dice.IntN(len(faults))]); err != nil {
			return err
		}
	}
	return nil
}

// strike lets one fault happen.
func (w *World) strike(ctx context.Context, dice *rand.Rand, f Fault) error {
	a := &attack{World: w, ctx: ctx, dice: dice, lasting: w.length(dice)}
	// A minority mostly, which has to do no harm; and the majority, and all.
	n := len(w.Nodes)
	hit := 1 + dice.IntN((n+1)/2)
	switch dice.IntN(6) {
	case 0, 1:
		hit = n/2 + 1
	case 2:
		hit = n
	}
	for _, i := range dice.Perm(n)[:hit] {
		a.nodes = append(a.nodes, w.Nodes[i])
	}
	a.clients = dice.Perm(len(w.Clients))[:1+dice.IntN(len(w.Clients))]
	if err := f.run(a); err != nil {
		return fmt.Errorf("fault %s: %w", f.What, err)
	}
	return nil
}

// length returns how long a fault goes on: from 30 ms to 4 s, as often below 350 ms as above.
func (w *World) length(dice *rand.Rand) time.Duration {
	return time.Duration(30 * math.Pow(130, dice.Float64()) * float64(time.Millisecond))
}

// nodes returns the nodes, to others than those who change them.
func (w *World) nodes() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Nodes
}

// setNodes changes them.
func (w *World) setNodes(nodes []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Nodes = nodes
}

// take reserves what the fault changes. It returns false if another fault has any of it.
func (a *attack) take(what string, numbers ...int) (release func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy == nil {
		a.busy = map[string]bool{}
	}
	keys := make([]string, len(numbers))
	for i, n := range numbers {
		keys[i] = fmt.Sprint(what, n)
		if a.busy[keys[i]] {
			return nil, false
		}
	}
	for _, k := range keys {
		a.busy[k] = true
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, k := range keys {
			delete(a.busy, k)
		}
	}, true
}

// during records a fault, and calls begin, and end after the length of the fault, or earlier if the run ends. End is called
// whatever begin returns.
func (a *attack) during(what string, nodes, clients []int, begin, end func() error) error {
	done := a.record(what, nodes, clients)
	err := begin()
	wait(a.ctx, a.lasting)
	err = errors.Join(err, end())
	done()
	return err
}

// record records that a fault begins.
func (w *World) record(what string, nodes, clients []int) (done func()) {
	var names []string
	for _, i := range clients {
		names = append(names, w.Clients[i].Name())
	}
	op := w.History.Begin(history.Op{Kind: history.Fault, What: what, Nodes: nodes, Clients: names})
	w.Log("%s: nodes %v, clients [%s]", what, nodes, strings.Join(names, " "))
	return func() { w.History.End(op) }
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// each calls do for each number at once.
func each(numbers []int, do func(int) error) error {
	failures := make([]error, len(numbers))
	var all sync.WaitGroup
	for i, n := range numbers {
		all.Go(func() { failures[i] = do(n) })
	}
	all.Wait()
	return errors.Join(failures...)
}
