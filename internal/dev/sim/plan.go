package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// Plan is everything that happens in a run, but for what the protocol itself does:
// who calls what when, and what goes wrong where. A seed makes a plan, and a plan always
// runs the same way.
type Plan struct {
	Seed                  uint64
	Nodes, Clients, Names int
	// Rates[i] is how fast the clock of machine i runs, 1 being true time: the nodes
	// first, then the clients. All are within what the drift allowance covers.
	Rates []float64
	// Durable nodes keep their keys through a crash. If none crashes, or all are
	// durable, no lock may ever be handed out twice.
	Durable bool
	// Fencing nodes permit CLIENT KILL, which ends what is left of a broken connection.
	Fencing bool
	// Tracking nodes push changes to keys (CLIENT TRACKING); others push messages only, or
	// nothing (RESP2). Fickle nodes track on some connections only.
	Tracking, Fickle bool
	// Kept means that no more than one node at a time is in trouble, and no client ever is: a lock
	// that is renewed is never lost.
	Kept bool
	// Watched means that the first client renews a lock, that keys are only deleted, and that the client can know of it.
	Watched bool
	// Fenced locks have fencing tokens, but for those of the first Plain clients.
	Fenced bool
	Plain  int
	// Keep is how long counters are kept beyond TTLs; 0 means two hours.
	Keep time.Duration
	// Walls[i] is how far the time of day of machine i is off, in a plan with fencing: the
	// nodes first, then the clients.
	Walls []time.Duration
	// Echo has acquires arrive twice at times.
	Echo bool
	// Guard keeps nodes from voting that have come up less than that ago, or in the place of
	// others; 0 means that nothing does. No TTL is longer.
	Guard time.Duration
	// LookEvery is how often clients look where the name of a node leads; 0 means never.
	LookEvery time.Duration
	// Handoff is for how long a client hands a lock off from hand to hand; 0 means that none does.
	Handoff time.Duration
	// Calm means that nothing takes much longer than usual on its way.
	Calm bool
	// Far is by how many times everything takes longer between a node and the last client. If it is 0, nothing does.
	Far int
	// Storm means that one of the callers at an instant gets the lock, but for one such instant at most. No message takes for
	// longer than the node timeout.
	Storm bool
	// Busy means that writers of some clients and readers of another come again and again, without a pause.
	Busy bool
	// Sets is how many take several locks again and again. In a Steady plan nobody keeps a lock for long, and there is no trouble.
	Sets   int
	Steady bool
	// Refusing means that nodes refuse commands. Nothing has no end.
	Refusing bool
	Steps    []Step
}

// Step is one thing that is done at a time of the plan. If it does not apply (an
// unlock by who holds nothing, for example) nothing happens.
type Step struct {
	At     time.Duration
	Kind   StepKind
	Client int
	Node   int // AllNodes: every one
	Name   int
	TTL    time.Duration // of an acquire or extend; of somebody's data, if it has one
	Grace  time.Duration // of what is acquired
	Auto   bool          // what is acquired is renewed
	Read   bool          // what is acquired is a shared lock
	Slots  uint16        // how many slots there are of what is acquired; 0: it has none
	Crowd  int           // how many more come with one who waits
	Detach bool          // what a waiter gets it leaves to another client
	For    time.Duration // how long a fault lasts, or a waiter keeps what it gets
	Lose   float64       // share of what is on its way that a cut loses
	All    int           // how many locks are taken at once, from that of Name on
	// Who comes again and again does so until Until, after a pause of less than Pause each time, and waits for as long as Patience; 0: for ever.
	Until, Pause, Patience time.Duration
	Command                string // that is refused; "": the node is full
	passing                bool   // who waits is one of those who come and go
	Value                  string // what a key without a TTL holds; "": what no other key does
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
	Data       // somebody else keeps data on a node, under the name of a lock
	Rush       // others, which do not wait in a queue, take a lock in turn for a while

	Lapse   // a node drops a key before its time
	Replace // as Crash without data, but what comes back has been up for long
	Anew    // a client's process is another one from now on
	Touch   // somebody else gives a key another TTL
	Flush   // a node drops all keys (FLUSHALL)
	Stall   // what a client sends to a node is held up on its way, as by a lost TCP segment

	AcquireAll  // a client takes several locks at once, or none
	CounterData // somebody else keeps data on a node, in the place of a lock's counter
	Beside      // likewise, in the place of what a writer sets that waits
	Again       // a goroutine of a client waits for a lock again and again
	Throng      // readers, or those who want a slot, come and go
	Promote     // a replica takes a node's place, without what the node has done in the time before; it keeps its connections
	Move        // the name of a node leads to another server; the former one goes on with those who are connected
	Try         // goroutines of a client each try once to take a lock, and unlock it after a while
	WaitAll     // a goroutine of a client waits for several locks again and again
	Nested      // a goroutine of a client waits for a lock, and then for another one, again and again
	Refuse      // a node refuses a command of its scripts, or is full
)

// drift is the library's default allowance.
var drift = quorum.Drift{Factor: driftFactor, Floor: 2 * time.Millisecond}

const (
	driftFactor = 0.01
	// rateBound is the most that a clock may be off for the allowance to hold between any
	// two machines.
	rateBound = driftFactor / 2
)

// What clients call: many that want the same lock, or one that keeps it for long, or gives
// up extending it at times; many that wait for it; several that hold it.
var (
	contest  = []StepKind{Acquire, Acquire, Acquire, Acquire, Extend, Extend, Unlock, Unlock, Unlock, Cancel}
	tenure   = []StepKind{Acquire, Acquire, Extend, Extend, Extend, Extend, Extend, Extend, Unlock, Cancel}
	wavering = []StepKind{Acquire, Extend, Extend, Extend, Extend, Extend, Cancel, Cancel}
	queueing = []StepKind{Wait, Wait, Wait, Wait, Wait, Acquire, Acquire, Extend, Unlock, Unlock,
		CancelWait, CancelWait, Stray}
	sharing = []StepKind{Acquire, Acquire, Attach, Attach, Enter, Enter, Extend, Extend, Unlock, Unlock, Unlock,
		Force, Wait, Cancel}
)

// NewPlan makes the plan of a seed.
func NewPlan(seed uint64) Plan {
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
	if kind := r.IntN(10); kind == 0 {
		p.renewing(r)
	} else {
		p.contending(r, kind)
	}
	if seed%12 == 11 {
		p.watching(r)
	} else {
		p.extras(rand.New(rand.NewPCG(seed, 0xbf58476d1ce4e5b9)))
	}
	p.neighbours(rand.New(rand.NewPCG(seed, 0x94d049bb133111eb)))
	p.handoffs(rand.New(rand.NewPCG(seed, 0xff51afd7ed558ccd)))
	p.detaches(rand.New(rand.NewPCG(seed, 0xc4ceb9fe1a85ec53)))
	p.graces(rand.New(rand.NewPCG(seed, 0xd6e8feb86659fd93)))
	p.sets(rand.New(rand.NewPCG(seed, 0xab32149f7b28b2e7)))
	p.reads(rand.New(rand.NewPCG(seed, 0x8cb92ba72f3d8dd7)))
	p.promotes(rand.New(rand.NewPCG(seed, 0x2545f4914f6cdd1d)))
	p.slots(rand.New(rand.NewPCG(seed, 0xe7037ed1a0b428db)))
	p.moves(rand.New(rand.NewPCG(seed, 0xd1342543de82ef95)))
	p.turns(rand.New(rand.NewPCG(seed, 0x9fb21c651e98df25)))
	p.storms(rand.New(rand.NewPCG(seed, 0xa0761d6478bd642f)))
	p.waitingSets(rand.New(rand.NewPCG(seed, 0x8ebc6af09c88c6e3)))
	p.refusals(rand.New(rand.NewPCG(seed, 0xd2b03a4bbc5c8ce1)))
	p.writersBesideReaders(rand.New(rand.NewPCG(seed, 0x9c6e6877736c46e3)))
	return p
}

// promotes has nodes fail over in some plans, behind their names.
func (p *Plan) promotes(r *rand.Rand) {
	if p.Guard > 0 {
		p.forgets(r)
		return
	}
	if p.Kept || p.Watched || r.IntN(8) > 0 {
		return
	}
	horizon := time.Duration(0)
	for _, s := range p.Steps {
		horizon = max(horizon, s.At)
	}
	for range 1 + r.IntN(4) {
		p.Steps = append(p.Steps, Step{At: upTo(r, horizon+time.Millisecond), Kind: Promote, Node: r.IntN(p.Nodes+1) - 1})
	}
}

// moves has the names of nodes lead to other servers in some plans with a guard, which makes up for the time until all clients have
// noticed. One that stands still, or reaches the former server only, would not notice.
func (p *Plan) moves(r *rand.Rand) {
	if p.Guard == 0 || p.Kept || r.IntN(4) > 0 {
		return
	}
	p.LookEvery = time.Duration(100+r.IntN(900)) * time.Millisecond
	p.Guard += p.LookEvery + lookTimeout + maxOverdue
	for i := range p.Steps {
		switch s := &p.Steps[i]; s.Kind {
		case Crash, Replace, Promote:
			if r.IntN(4) > 0 {
				s.Kind, s.For = Move, 0
			}
		case Pause, Freeze, Partition:
			s.Kind = Cut
		}
	}
}

// graces has the locks of some plans end before their validity.
func (p *Plan) graces(r *rand.Rand) {
	if p.Kept || p.Watched || r.IntN(4) > 0 {
		return
	}
	share := pick[time.Duration](r, 2, 3, 8)
	for i := range p.Steps {
		p.Steps[i].Grace = p.Steps[i].TTL / share
	}
}

// howMany is a number of nodes.
func howMany(r *rand.Rand) int { return pick(r, 1, 3, 3, 4, 5, 5, 7) }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// upTo is a time below a bound.
func upTo(r *rand.Rand, bound time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(bound)))
}

// clockRates are at one of their bounds as often as not: that is where the allowance is used up.
func clockRates(r *rand.Rand, n int) (rates []float64) {
	for range n {
		share := float64(r.IntN(4))
		if share > 1 {
			share = r.Float64()
		}
		rates = append(rates, 1-rateBound+2*rateBound*share)
	}
	return rates
}

// renewing makes a plan in which the first client renews a lock, whatever happens to one node
// after the other, and for however long. Between two troubles there is the time for a renewal, which
// heals what the first has left, and for the one that follows soon.
func (p *Plan) renewing(r *rand.Rand) {
	p.Tracking = r.IntN(4) > 0
	p.Kept, p.Names, p.Nodes = true, 1, 3+2*r.IntN(2)
	p.Rates = clockRates(r, p.Nodes+p.Clients)
	ttl := 1200*time.Millisecond + time.Duration(r.IntN(3))*400*time.Millisecond
	p.Steps = append(p.Steps, Step{At: 200 * time.Millisecond, Kind: Acquire, TTL: ttl, Auto: true})
	troubles, rivals := 2+r.IntN(3), r.IntN(4)
	at, gap := ttl, ttl/3+healing
	if rivals > 0 { // a rival may have the key of a node for a moment, when a renewal comes there
		gap += 2 * ttl / 3
	}
	for range troubles {
		s := Step{At: at + upTo(r, 400*time.Millisecond), Node: r.IntN(p.Nodes)}
		s.For, s.Lose = time.Millisecond+upTo(r, pick(r, 300*time.Millisecond, 2*ttl)), pick(r, 0, 0.5, 1)
		s.Kind = pick(r, Freeze, Crash, Crash, Crash, Cut, Partition, Vanish)
		at = s.At + s.For + gap
		if s.Kind == Partition {
			s.For /= 2 // it may last twice as long
		}
		p.Steps = append(p.Steps, s)
	}
	for range rivals {
		s := Step{At: upTo(r, at), TTL: ttl, For: 5 * time.Millisecond}
		s.Client = 1 + r.IntN(p.Clients-1)
		s.Kind = pick(r, Wait, Acquire, Unlock)
		p.Steps = append(p.Steps, s)
	}
}

// healing is for how long, beside the time until a renewal, a node that is well again may not count for the lock.
const healing = 500 * time.Millisecond

// contending makes a plan of one of the other kinds, from 1 to 9.
func (p *Plan) contending(r *rand.Rand, kind int) {
	// Long locks show what is left behind, short ones what ends too late.
	ttl := pick(r, time.Hour, time.Hour, 300*time.Millisecond, time.Second, 10*time.Second)
	horizon := pick(r, 200*time.Millisecond, time.Second, 3*time.Second)
	faults := r.IntN(4)
	p.Tracking = kind <= 4 && r.IntN(8) > 0
	if kind == 5 { // extensions that fail, and arrive late
		ttl, horizon, faults = time.Hour, 3*time.Second, 2
	}
	calls := [][]StepKind{queueing, queueing, queueing, sharing, wavering, tenure, contest, contest, contest}[kind-1]
	p.random(r, 6+r.IntN(20), calls, ttl, horizon, faults)
	for i := range p.Steps {
		if s := &p.Steps[i]; kind == 5 && s.Kind >= Freeze && s.Kind <= Partition && r.IntN(2) == 0 {
			s.Kind, s.Node, s.For = Partition, AllNodes, time.Duration(300+r.IntN(1200))*time.Millisecond
		}
	}
	p.bunch(r, Cancel, CancelWait)
}

// random adds n steps. faults is how many of six are no calls.
func (p *Plan) random(r *rand.Rand, n int, calls []StepKind, ttl, horizon time.Duration, faults int) {
	troubles := []StepKind{Pause, Jump, Die, Freeze, Freeze, Crash, Cut, Cut, Cut, Vanish, Partition, Partition}
	if p.Tracking {
		troubles = append(troubles, Cut, Vanish, Vanish)
	}
	for range n {
		s := Step{
			At:     upTo(r, horizon),
			Client: r.IntN(p.Clients),
			Node:   r.IntN(p.Nodes),
			Name:   r.IntN(p.Names),
			TTL:    ttl + time.Duration(r.IntN(3))*ttl/4,
			Lose:   pick(r, 0, 0.5, 1),
			Auto:   p.Tracking && r.IntN(3) == 0,
		}
		kinds := calls
		if r.IntN(6) < faults {
			kinds = troubles
		}
		s.Kind = pick(r, kinds...)
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
		p.Steps = append(p.Steps, s)
	}
}

// bunch moves steps to others, of some kinds always: things that happen at once are where the traps are.
func (p *Plan) bunch(r *rand.Rand, always ...StepKind) {
	for i := range p.Steps {
		if i > 0 && (r.IntN(3) == 0 || slices.Contains(always, p.Steps[i].Kind)) {
			p.Steps[i].At = p.Steps[r.IntN(i)].At + time.Duration(r.IntN(1000))*time.Microsecond
		}
	}
}
