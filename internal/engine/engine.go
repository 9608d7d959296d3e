// Package engine carries out the decisions of package lock over a set of nodes. It sends the commands, runs the timers,
// and handles the answers and pushes of the nodes. Each input about a name takes the mutex of its [Entry]. The mutex is
// held until the Acts that follow from the input are carried out.
//
// Functions whose names end with Locked are for callers that hold the mutex.
//
// The files:
//   - engine.go, close.go: the nodes, the settings and the events; the end of all
//   - names.go, entry.go: the names, and the mutex of one, under which its Acts are carried out
//   - inputs.go: the requests of calls
//   - round.go, together.go: a round for one name, and for several
//   - waiter.go, show.go: a call that waits, and what servers count of it
//   - held.go, renewals.go: a granted lock that its handles share, and the renewals of all
//   - push.go: the pushes of nodes, and the messages of other processes
//   - ask.go, watch.go: questions to the nodes without a round, and the callers that watch
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

// These are the types of the packages below that the program has to name. The program is package redlock.
type (
	// Node is one server.
	Node = node.Node
	// Health is the state of a node's connection.
	Health = node.Health
	// Rules are the rules for all names of an Engine.
	Rules = lock.Rules
	// Pace is how often the nodes are asked while a call waits.
	Pace = lock.Pace
	// Call is a call that takes a lock.
	Call = lock.Call
	// Repeat decides whether a call that does not wait repeats a round that it has lost.
	Repeat = lock.Repeat
	// LostRound is the record of a lost round for a Repeat.
	LostRound = lock.LostRound
	// All decides what a call for several names does next.
	All = lock.All
	// Step is the next thing that it does.
	Step = lock.Step
	// Names is a set of the names of such a call.
	Names = lock.Names
	// Want is the lock that a holder asks for: its TTL, its kind and so on.
	Want = lock.Want
	// Observation is the state of a key that a node has shown.
	Observation = form.Observation
	// Passing is the reason why a node does not grant a lock: data of another program is in the way, but it has a TTL.
	Passing = form.Passing
	// Kind is the kind of a lock. It decides which other locks of the name the lock keeps out.
	Kind = form.Kind
	// Stuck is the report that keys without a TTL have been in the way for long.
	Stuck = lock.Stuck
)

// These are constants of the same packages.
const (
	Others      = lock.Others
	None        = lock.None
	Nothing     = lock.Nothing
	NoLimit     = lock.NoLimit
	AskNames    = lock.AskNames
	Await       = lock.Await
	Refresh     = lock.Refresh
	HaveAll     = lock.HaveAll
	GiveUp      = lock.GiveUp
	KindShared  = form.KindShared
	KindSlot    = form.KindSlot
	MaxSlots    = form.MaxSlots
	DefaultKeep = form.DefaultKeep
	MinKeep     = form.MinKeep
)

// Config is the settings of an Engine. Of the Rules the program sets Wall, Self, Drift and Pace. It leaves Form nil for
// plain locks and for locks with Fencing. New sets the others, except Broken, which is for tests.
type Config struct {
	Rules
	Nodes   []*Node
	Own     bool // the nodes belong to the Engine, which closes them at its end
	Fencing bool
	Keep    time.Duration // for how long counters of fencing tokens are kept
	Clock   clock.Clock
	Events  Events
}

// Events is how the Engine notifies the program. None of its methods may block.
type Events interface {
	// The Engine calls the following methods while it holds the mutex of a name. They may put an event into a queue, and
	// must run no user code.

	// Voted reports the answer of a node to the command of a round, if it came in time. command is the name of the Redis
	// command, or "" if none was sent. err is why the answer is not yes.
	Voted(r *Round, node int, answer quorum.Answer, command string, err error)
	// Raising reports that a node is asked to replace the number that it granted with the number of the majority. The node
	// does so only if it still holds exactly the granted number. If the lock has a slot, the node is asked to take back
	// the slot that it has granted. number is the token or the slot of the majority.
	Raising(r *Round, node int, granted, number uint64)
	// Settled reports the outcome of a round that acquires. It is never Undecided.
	Settled(r *Round)
	// Over reports that a lock has ended, but not by a release. Its holder has a Since, which Over sets to 0.
	Over(h *Held, how quorum.Ending)
	// Refused reports that the wait of a call has ended, because data of another program is in the way and stays.
	Refused(w *Waiter)
	// Stuck reports that keys without a TTL have been in the way for long.
	Stuck(key string, s *Stuck)
	// Turn reports that this process has passed its turn to the first of the processes that wait, or has received it.
	// waiting is how many processes wait behind the one that has the turn now.
	Turn(key string, waiting int, received bool)

	// Began reports that a round begins, so that the program may set Began of the round. If the round is a renewal, the
	// program may set Of. The Engine calls Began with or without a mutex.
	Began(r *Round)

	// The Engine calls the following methods without a mutex.

	// Ended reports the outcome of a round before the wait for it ends. It is never Undecided.
	Ended(r *Round)
	// WaitsLong reports that calls have waited for a name for as long as [Entry.NoteWait] said.
	WaitsLong(e *Entry)
	// Healed reports that a node has deleted a key without a TTL.
	Healed(key string, node int)
	// Opposed reports a message of another process. One of its calls waits for the key wanted, and holds the lock of the
	// key held.
	Opposed(wanted, held string)
}

// Engine is a set of nodes, with the locks and calls of all names on them.
type Engine struct {
	Config

	fenced    form.Fenced
	served    atomic.Bool     // a majority of the nodes has answered
	listening atomic.Bool     // the nodes report changes and messages
	closing   context.Context // ends with Close, which ends it under mu
	stop      context.CancelFunc
	reporter  node.Reporter // is notified of the health of the nodes; nil if nobody is
	names     names
	watches   watches
	// sweeps[i] is how many times an observation of all keys on node i was requested since a sweep over them began. 0
	// means that no sweep is under way.
	sweeps   []atomic.Int32
	renewals renewals

	mu        sync.Mutex
	calls     sync.WaitGroup // calls under way, and other work that Close waits for; functions of Do do not count
	functions int            // how many functions of Do run
	ended     chan struct{}  // closed after Close, when no function and nothing else of the Engine runs
	endOnce   sync.Once
}

// New makes an Engine. The program has to check the Config before.
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

// ReportHealth makes the nodes notify r of their health, until the end of the Engine.
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

// Reserved reports whether a key is reserved: no lock may have it.
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

// End ends a call that Begin has counted.
func (g *Engine) End() { g.calls.Done() }
