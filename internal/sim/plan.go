package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Plan is everything that happens in a run, but for what the protocol itself does:
// who calls what when, and what goes wrong where. A seed makes a plan, and a plan always
// runs the same way.
type Plan struct {
	Seed    uint64
	Nodes   int
	Clients int
	Names   int
	// Rates[i] is how fast the clock of machine i runs, 1 being true time: the nodes
	// first, then the clients. All are within what the drift allowance covers.
	Rates []float64
	// Durable nodes keep their keys through a crash. If none crashes, or all are
	// durable, no lock may ever be handed out twice.
	Durable bool
	// Fencing nodes permit CLIENT KILL, which ends what is left of a broken connection.
	Fencing bool
	// Tracking nodes push changes to keys (CLIENT TRACKING); others push messages only, or nothing (RESP2).
	Tracking bool
	// Fickle nodes do that on some connections only.
	Fickle bool
	// Kept means that no more than one node at a time is in trouble, and no client ever is: a lock
	// that is renewed is never lost.
	Kept bool
	// Fenced locks have fencing tokens.
	Fenced bool
	// Plain is how many clients, from the first on, take locks without fencing tokens beside those of the others.
	Plain int
	// Keep is how long counters are kept beyond TTLs; 0 means a day.
	Keep time.Duration
	// Walls[i] is how far the time of day of machine i is off, in a plan with fencing: the nodes first, then the clients.
	Walls []time.Duration
	// Echo has acquires arrive twice at times.
	Echo bool
	// Guard keeps nodes from voting that have come up less than that ago, or in the place of others; 0 means that nothing does. No
	// TTL is longer.
	Guard time.Duration
	Steps []Step
}

// Step is one thing that is done at a time of the plan. If it does not apply (an
// unlock by who holds nothing, for example) nothing happens.
type Step struct {
	At     time.Duration
	Kind   StepKind
	Client int
	Node   int // AllNodes: every one
	Name   int
	TTL    time.Duration // of an acquire or extend
	Auto   bool          // what is acquired is renewed
	Crowd  int           // how many more come with one who waits
	For    time.Duration // how long a fault lasts, or a waiter keeps what it gets
	Lose   float64       // share of what is on its way that a cut loses
}

// AllNodes is the Node of a step that is about every one, such as when a client loses its
// network.
const AllNodes = -1

// StepKind is what a step does.
type StepKind uint8

// The kinds.
const (
	Acquire StepKind = iota
	Extend
	Unlock
	Cancel    // the context of the call under way ends
	Pause     // a client stands still: garbage collection, SIGSTOP, a suspended machine
	Jump      // a client's clock leaps forward
	Die       // a client's process ends without a word
	Freeze    // a node stands still, and goes on with what has arrived
	Crash     // a node's process ends and comes back
	Cut       // the connection between a client and a node breaks
	Partition // nothing gets through between a client and a node

	Wait       // one more goroutine of a client waits for a lock, and unlocks it after a while
	CancelWait // the context of one that waits ends
	Enter      // who holds a lock takes it once more
	Attach     // a client takes up the lock of another
	Force      // a lock is released, whoever holds it
	Vanish     // the connection between a client and a node ends, and neither of them is notified
	Stray      // somebody else leaves a key without a TTL on a node

	Lapse   // a node drops a key before its time
	Replace // as Crash without data, but what comes back has been up for long
	Anew    // a client's process is another one from now on
)

// drift is the library's default allowance.
var drift = quorum.Drift{Factor: driftFactor, Floor: 2 * time.Millisecond}

const (
	driftFactor = 0.01
	// rateBound is the most that a clock may be off for the allowance to hold between any
	// two machines.
	rateBound = driftFactor / 2
)

// NewPlan makes the plan of a seed.
func NewPlan(seed uint64) Plan {
	p := plainPlan(seed)
	p.extras(rand.New(rand.NewPCG(seed, 0xbf58476d1ce4e5b9)))
	return p
}

// plainPlan makes a plan without fencing and guards.
func plainPlan(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	p := Plan{
		Seed:    seed,
		Nodes:   howMany(r),
		Clients: 2 + r.IntN(2),
		Names:   1 + r.IntN(8)/7,
		Durable: r.IntN(4) > 0,
		Fencing: r.IntN(8) > 0,
	}
	p.Rates = clockRates(r, p.Nodes+p.Clients)
	kind := r.IntN(10)
	if kind == 0 {
		p.Tracking = r.IntN(4) > 0
		p.renewing(r)
		return p
	}
	// Long locks show what is left behind, short ones what ends too late.
	ttls := []time.Duration{time.Hour, time.Hour, 300 * time.Millisecond, time.Second, 10 * time.Second}
	ttl := ttls[r.IntN(len(ttls))]
	horizon := []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second}[r.IntN(3)]
	faults := r.IntN(4) // 0 means none
	calls := contest
	switch {
	case kind < 4:
		p.Tracking, calls = r.IntN(8) > 0, queueing
	case kind == 4:
		p.Tracking, calls = r.IntN(8) > 0, sharing
	case kind == 5: // extensions that fail, and arrive late
		calls, faults = wavering, 2
		ttl, horizon = time.Hour, 3*time.Second
	case kind < 7:
		calls = tenure
	}
	for range 6 + r.IntN(20) {
		p.Steps = append(p.Steps, randomStep(r, p, calls, ttl, horizon, faults))
	}
	if kind == 5 {
		for i := range p.Steps {
			if s := &p.Steps[i]; s.Kind >= Freeze && s.Kind <= Partition && r.IntN(2) == 0 {
				s.Kind, s.Node, s.For = Partition, AllNodes, time.Duration(300+r.IntN(1200))*time.Millisecond
			}
		}
	}
	// Things that happen at once are where the traps are.
	for i := range p.Steps {
		if k := p.Steps[i].Kind; i > 0 && (r.IntN(3) == 0 || k == Cancel || k == CancelWait) {
			p.Steps[i].At = p.Steps[r.IntN(i)].At + time.Duration(r.IntN(1000))*time.Microsecond
		}
	}
	return p
}

// howMany is a number of nodes.
func howMany(r *rand.Rand) int { return []int{1, 3, 3, 4, 5, 5, 7}[r.IntN(7)] }

// upTo is a time below a bound.
func upTo(r *rand.Rand, bound time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(bound)))
}

// clockRate is at one of its bounds as often as not: that is where the allowance is
// used up.
func clockRate(r *rand.Rand) float64 {
	switch r.IntN(4) {
	case 0:
		return 1 - rateBound
	case 1:
		return 1 + rateBound
	default:
		return 1 - rateBound + 2*rateBound*r.Float64()
	}
}

func clockRates(r *rand.Rand, n int) (rates []float64) {
	for range n {
		rates = append(rates, clockRate(r))
	}
	return rates
}

// renewing makes a plan in which the first client renews a lock, whatever happens to one node
// after the other. Between two troubles there is the time for a renewal, which heals what the first
// has left.
func (p *Plan) renewing(r *rand.Rand) {
	p.Kept, p.Names, p.Nodes = true, 1, 3+2*r.IntN(2)
	p.Rates = clockRates(r, p.Nodes+p.Clients)
	ttl := 1200*time.Millisecond + time.Duration(r.IntN(3))*400*time.Millisecond
	p.Steps = append(p.Steps, Step{At: 200 * time.Millisecond, Kind: Acquire, TTL: ttl, Auto: true})
	troubles := 2 + r.IntN(3)
	slot := ttl + 1500*time.Millisecond
	for i := range troubles {
		at := ttl + time.Duration(i)*slot + time.Duration(r.IntN(400))*time.Millisecond
		s := Step{At: at, Node: r.IntN(p.Nodes), For: time.Duration(1+r.IntN(300)) * time.Millisecond, Lose: []float64{0, 0.5, 1}[r.IntN(3)]}
		s.Kind = []StepKind{Freeze, Crash, Crash, Crash, Cut, Partition, Vanish}[r.IntN(7)]
		p.Steps = append(p.Steps, s)
	}
	for range r.IntN(4) {
		s := Step{At: upTo(r, slot*time.Duration(troubles)), Client: 1 + r.IntN(p.Clients-1), TTL: ttl, For: 5 * time.Millisecond}
		s.Kind = []StepKind{Wait, Acquire, Unlock}[r.IntN(3)]
		p.Steps = append(p.Steps, s)
	}
}

// What clients call: many that want the same lock, or one that keeps it for long, or gives
// up extending it at times; many that wait for it; several that hold it.
var (
	contest  = []StepKind{Acquire, Acquire, Acquire, Acquire, Extend, Extend, Unlock, Unlock, Unlock, Cancel}
	tenure   = []StepKind{Acquire, Acquire, Extend, Extend, Extend, Extend, Extend, Extend, Unlock, Cancel}
	wavering = []StepKind{Acquire, Extend, Extend, Extend, Extend, Extend, Cancel, Cancel}
	queueing = []StepKind{Wait, Wait, Wait, Wait, Wait, Acquire, Acquire, Extend, Unlock, Unlock, CancelWait, CancelWait, Stray}
	sharing  = []StepKind{Acquire, Acquire, Attach, Attach, Enter, Enter, Extend, Extend, Unlock, Unlock, Unlock, Force, Wait, Cancel}
)

func randomStep(r *rand.Rand, p Plan, calls []StepKind, ttl, horizon time.Duration, faults int) Step {
	s := Step{
		At:     upTo(r, horizon),
		Client: r.IntN(p.Clients),
		Node:   r.IntN(p.Nodes),
		Name:   r.IntN(p.Names),
		TTL:    ttl + time.Duration(r.IntN(3))*ttl/4,
		Lose:   []float64{0, 0.5, 1}[r.IntN(3)],
	}
	troubles := []StepKind{Pause, Jump, Die, Freeze, Freeze, Crash, Cut, Cut, Cut, Vanish, Partition, Partition}
	if p.Tracking {
		troubles = append(troubles, Cut, Vanish, Vanish)
		s.Auto = r.IntN(3) == 0
	}
	if r.IntN(6) < faults {
		s.Kind = troubles[r.IntN(len(troubles))]
	} else {
		s.Kind = calls[r.IntN(len(calls))]
	}
	if r.IntN(4) == 0 {
		s.Node = AllNodes
	}
	if s.Kind == Wait && r.IntN(16) == 0 {
		s.Crowd = 10 + r.IntN(10)
	}
	// From below a round trip to above every timeout.
	s.For = time.Duration(float64(200*time.Microsecond) * math.Exp2(r.Float64()*14))
	if s.Crowd > 0 {
		s.For /= 32
	}
	return s
}
