// Package engine does what package lock decides, over a set of nodes: it sends the commands, runs the timers, and takes what the nodes
// answer and push. All that happens to one name goes through the mutex of its [Entry], which is held until what came of it is done.
//
// Functions whose names end with Locked are for callers who have the mutex.
package engine

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// What the program has to name of the packages below.
type (
	// Node is one server.
	Node = node.Node
	// Health is how a node is connected.
	Health = node.Health
	// Rules are the same for all names.
	Rules = lock.Rules
	// Pace is how fast calls try again.
	Pace = lock.Pace
	// Call is a call that takes a lock.
	Call = lock.Call
	// Want is what a holder asks for.
	Want = lock.Want
	// Observation is what a node has shown of a lock.
	Observation = form.Observation
	// Passing is about data of another program that has a TTL.
	Passing = form.Passing
	// Kind is what a lock keeps out.
	Kind = form.Kind
	// Stuck is about keys without a TTL.
	Stuck = lock.Stuck
)

// The constants of these.
const (
	Others      = lock.Others
	None        = lock.None
	Nothing     = lock.Nothing
	NoLimit     = lock.NoLimit
	KindShared  = form.KindShared
	KindSlot    = form.KindSlot
	MaxSlots    = form.MaxSlots
	DefaultKeep = form.DefaultKeep
	MinKeep     = form.MinKeep
)

// Config is what an Engine works with. Of the Rules the program sets Wall, Self, Drift and Pace, and Form for another lock than the plain
// one and that with Fencing. New sets the others.
type Config struct {
	Rules
	Nodes   []*Node
	Own     bool // nobody else uses the nodes: they are closed at the end
	Fencing bool
	Keep    time.Duration // how long counters of fencing tokens stay
	Clock   clock.Clock
	Events  Events
}

// Events is what the program hears of an Engine. None of its methods may block.
type Events interface {
	// The caller of these has the mutex of a name: they may put an event into a queue, and must run no user code.

	// Voted reports what a node has answered in time to which command of a round, and why it is not yes.
	Voted(r *Round, node int, answer quorum.Answer, command string, err error)
	// Raising reports that a node is asked to raise the number that it has granted.
	Raising(r *Round, node int, granted, number uint64)
	// Settled reports the outcome of a round that acquires, which is not Undecided.
	Settled(r *Round)
	// Over reports that a lock is over, and not by a release. Its holder has a Since, which Over sets to 0.
	Over(h *Held, how quorum.Ending)
	// Refused reports that the wait of a call has ended, as data of another program is in the way that stays.
	Refused(w *Waiter)
	// Stuck reports that keys without a TTL have been in the way for long.
	Stuck(key string, s *Stuck)
	// Turn reports that this process has passed its turn to the first of the processes that wait, or has received it.
	Turn(key string, waiting int, received bool)

	// Began reports that a round begins, so that the program may set Began; that of a renewal, so that it may set Of. The caller may have a
	// mutex, or not.
	Began(r *Round)

	// The caller of these has no mutex.

	// Ended reports the outcome of a round, which is not Undecided, before the wait for it ends.
	Ended(r *Round)
	// WaitsLong reports that calls have waited for a name for as long as [Entry.NoteWait] said.
	WaitsLong(e *Entry)
	// Healed reports that a node has deleted a key without a TTL.
	Healed(key string, node int)
	// Opposed takes the message that a call of another process waits for one key, and holds another.
	Opposed(wanted, held string)
}

// Engine does what is to be done about all names.
type Engine struct {
	Config

	fenced    form.Fenced
	served    atomic.Bool     // a majority of the nodes has answered
	listening atomic.Bool     // the nodes report changes and messages
	closing   context.Context // ends with Close, under mu
	stop      context.CancelFunc
	reporter  node.Reporter // nil: nobody is notified how the nodes are connected
	names     names
	watches   watches
	sweeps    []atomic.Int32 // of node i: how many times all keys were to be observed since a sweep over them began; 0 if none is under way
	renewals  renewals

	mu        sync.Mutex
	calls     sync.WaitGroup // calls under way, and what runs beside them, except functions of Do
	functions int            // that run
	ended     chan struct{}  // closed after Close, when none of them runs, nor anything else of the Engine
	endOnce   sync.Once
}

// New makes an Engine. It is the program's to check the Config.
func New(c Config) *Engine {
	g := &Engine{Config: c, sweeps: make([]atomic.Int32, len(c.Nodes)), ended: make(chan struct{})}
	for _, n := range c.Nodes {
		g.Timeout = max(g.Timeout, n.Config().Timeout)
	}
	g.Rules.Clock, g.Rules.Nodes, g.Fenced = c.Clock, len(c.Nodes), &g.fenced
	g.Closed = func() bool { return g.closing.Err() != nil }
	g.fenced.Keep = c.Keep
	g.closing, g.stop = context.WithCancel(context.Background())
	g.renewals.engine, g.renewals.epoch = g, c.Clock.Now()
	g.names = names{seed: maphash.MakeSeed()}
	switch {
	case c.Fencing:
		g.Form = &g.fenced
	case c.Form == nil:
		g.Form = form.Exclusive{}
	}
	return g
}

// ReportHealth has r notified how the nodes are connected, until the end of the Engine.
func (g *Engine) ReportHealth(r node.Reporter) {
	g.reporter = r
	for i, n := range g.Nodes {
		n.Report(r, i)
	}
}

// Served reports whether a majority of the nodes has ever answered.
func (g *Engine) Served() bool { return g.served.Load() }

// Closing returns a context that ends with Close.
func (g *Engine) Closing() context.Context { return g.closing }

// Reserved reports whether no lock may have a key.
func Reserved(key string) bool { return form.Reserved(key) }

// Begin counts a call, until End. It returns false if the Engine has been closed.
func (g *Engine) Begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing.Err() != nil {
		return false
	}
	g.calls.Add(1)
	return true
}

// End ends what Begin began.
func (g *Engine) End() { g.calls.Done() }
