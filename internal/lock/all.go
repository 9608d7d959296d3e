package lock

import (
	"iter"
	"math/bits"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// A call for several names waits at one name at a time, and is a waiter there like any other. At first it holds nothing
// meanwhile: on each turn it tries all names. If that fails several times, it goes on in order. It takes the free names
// up to the first that others hold, and waits there with them. It keeps them only while that name changes hands. So
// calls that keep each other's names all give them back.

const (
	// maxLostTurns is how many turns a call loses with empty hands before it goes on in order.
	maxLostTurns = 4
	// maxPatience is the longest time for which a call holds locks while the name that it waits for does not change hands.
	// A quarter of the TTL is another limit.
	maxPatience = 5 * time.Second
	// leastPatience is the shortest such time. Timers are no finer.
	leastPatience = time.Millisecond
)

// Names is a set of the names of a call, by their index. A call has 64 names at most.
type Names uint64

// Only returns the set of one name.
func Only(i int) Names { return 1 << i }

// Has reports whether name i is in the set. There is no name -1.
func (s Names) Has(i int) bool { return i >= 0 && s&Only(i) != 0 }

// first returns the first name of a set.
func (s Names) first() int { return bits.TrailingZeros64(uint64(s)) }

// Each yields the names of the set, in order.
func (s Names) Each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; s != 0; s &= s - 1 {
			if !yield(s.first()) {
				return
			}
		}
	}
}

// All decides what a call for several names does next. It has no mutex: one call owns it, and reports the result of
// each [Step].
type All struct {
	rules *Rules
	names Names
	ttl   time.Duration
	waits bool // the call waits for holders

	held  Names // the names whose locks it holds
	asked Names // the names of its last round
	alone bool  // that is the name of its turn, before the others
	at    int   // the name in whose line it has a place, or -1 if it has none
	lost  int   // how many turns it has lost

	from time.Time     // since when it has the place
	luck time.Duration // a random share of the patience, out of 1,000
	rtt  time.Duration // how long its last round took
}

// Step is what a call for several names does next. Before that it does what the flags say, in their order. GiveBack
// releases its locks, and Leave gives up its place in the line of a name.
type Step struct {
	Do       Do
	Names    Names // the names of a round
	At       int   // the name in whose line the call waits
	Missed   bool  // it has missed its turn: [Name.Lost]. Otherwise a turn goes on with [Name.Again]
	GiveBack bool
	Leave    bool
}

// Do names the action of a Step.
type Do uint8

// The actions, and the inputs that report their results.
const (
	// AskNames runs a round over Names: [All.Won] or [All.Lost]. If the call has its turn at one of the names, the round
	// takes the place of the round of that turn.
	AskNames Do = iota
	// Await waits in the line of the name At until its turn comes: [All.Turn]. It waits until the instant that [All.Until]
	// returns, and then reports [All.Impatient].
	Await
	// Refresh extends the locks of all names, so that none is about to end: [All.Refreshed].
	Refresh
	// HaveAll ends the call, which has the locks.
	HaveAll
	// GiveUp ends the call without the locks.
	GiveUp
)

// All makes the All of a call for n names. waits is false for a call that does not wait for holders.
func (r *Rules) All(n int, ttl time.Duration, waits bool) *All {
	return &All{rules: r, names: 1<<n - 1, ttl: ttl, waits: waits, at: -1}
}

// Begin begins the call. busy has the names where others come first: see [Name.Busy]. A call that waits has its turn
// there like any other.
func (a *All) Begin(busy Names) Step {
	if busy != 0 && a.waits {
		return a.await(busy.first())
	}
	return a.ask(a.names)
}

// At returns the name in whose line the call has a place, or -1 if it has none.
func (a *All) At() int { return a.at }

// Held returns the names whose locks the call holds.
func (a *All) Held() Names { return a.held }

// Won handles a round that has won the locks of all its names.
func (a *All) Won() Step {
	a.held |= a.asked
	if a.asked.Has(a.at) {
		a.at = -1
	}
	switch missing := a.names &^ a.held; {
	case a.asked == a.names:
		return Step{Do: HaveAll}
	case missing == 0:
		return Step{Do: Refresh}
	case a.alone: // it is not known whether others hold the next names
		return a.ask(missing)
	default:
		return a.reach(missing.first())
	}
}

// Lost handles a round that was lost, and took a time. others[i] is on how many nodes others hold the i-th of its
// names. over means that no other round can help.
func (a *All) Lost(others []int, took time.Duration, over bool) Step {
	a.rtt = took
	by := map[int]int{}
	for i := range a.asked.Each() {
		by[i] = others[len(by)]
	}
	if !a.asked.Has(a.at) {
		return a.next(by, -1, over)
	}
	a.lost++
	turn := a.at
	s := a.next(by, turn, over)
	s.Missed = s.Do != AskNames && (!s.Leave || Blocks(by[turn], a.rules.Nodes))
	return s
}

// next returns the Step after a lost round. others has on how many nodes others hold each of its names. turn is the
// name where the call had its turn, or -1.
func (a *All) next(others map[int]int, turn int, over bool) Step {
	blocked, named := -1, -1
	for i := range a.asked.Each() {
		if named < 0 && others[i] > 0 {
			named = i
		}
		if blocked < 0 && Blocks(others[i], a.rules.Nodes) {
			blocked = i
		}
	}
	switch {
	case over:
		return a.Over()
	case a.inOrder(blocked < 0 && named >= 0):
		return a.nextInOrder(others, turn)
	case !a.waits:
		return a.Over()
	}
	for _, i := range []int{blocked, named, turn} {
		if i >= 0 {
			return a.await(i)
		}
	}
	return a.await(a.asked.first())
}

// inOrder reports whether the call takes the names in order from now on. It also does so if others hold some names, but
// each on too few nodes to keep the call from that name alone.
func (a *All) inOrder(scattered bool) bool {
	return (a.lost >= maxLostTurns || scattered) && (!a.waits || 8*a.rtt <= a.most())
}

// nextInOrder takes the free names up to the first that others hold, and waits at that one. If a round over all names
// was lost on a turn, it takes the name of the turn too.
func (a *All) nextInOrder(others map[int]int, turn int) Step {
	var free Names
	if turn >= 0 {
		free = Only(turn)
	}
	for i := range a.asked.Each() {
		if others[i] > 0 && i != turn {
			break
		}
		free |= Only(i)
	}
	switch {
	case free != 0 && free != a.asked:
		return a.ask(free)
	case turn >= 0 && a.asked != Only(turn): // others have taken one of them since the round before
		return a.ask(Only(turn))
	case turn >= 0:
		return a.await(turn)
	}
	return a.reach(a.asked.first())
}

// reach waits at a name. A call that does not wait tries that name alone, because it may be free by now.
func (a *All) reach(i int) Step {
	switch {
	case a.waits:
		return a.await(i)
	case a.asked == Only(i):
		return a.Over()
	}
	return a.ask(Only(i))
}

// Turn handles the turn of the call at the name where it waits. stands is false if a lock that it holds was lost. busy
// has the names where others come first: with empty hands the call has lost this turn then, and waits there. In order
// it takes the name of the turn alone first. Otherwise others could take it while a round over all names is lost.
func (a *All) Turn(stands bool, busy Names) (s Step) {
	back := a.held != 0 && !stands
	if back {
		a.held = 0
	}
	busy &^= Only(a.at)
	switch {
	case a.inOrder(false):
		s = a.ask(Only(a.at))
		a.alone = true
	case a.held == 0 && busy != 0:
		a.lost++
		s = a.await(busy.first())
	default:
		s = a.ask(a.names &^ a.held)
	}
	s.GiveBack = back
	return s
}

// Until returns until when the call keeps its locks, as the name where it waits changes hands like that. Zero means
// that it holds nothing.
func (a *All) Until(c Changes) time.Time {
	if a.held == 0 {
		return time.Time{}
	}
	from := a.from
	if c.At.After(from) {
		from = c.At
	}
	patience := max(4*c.Between, 8*a.rtt, leastPatience)
	return from.Add(min(patience+patience/2*a.luck/1000, a.most()))
}

// most returns the longest patience.
func (a *All) most() time.Duration { return min(a.ttl/4, maxPatience) }

// Impatient handles the end of the patience. The call gives back its locks, and keeps its place.
func (a *All) Impatient() Step {
	a.held = 0
	return Step{Do: Await, At: a.at, GiveBack: true}
}

// Refreshed handles the result of a Refresh. The call begins again if a lock was lost.
func (a *All) Refreshed(ok bool) Step {
	if ok {
		return Step{Do: HaveAll}
	}
	if !a.waits {
		return a.Over()
	}
	a.held = 0
	s := a.ask(a.names)
	s.GiveBack = true
	return s
}

func (a *All) ask(names Names) Step {
	a.asked, a.alone = names, false
	return Step{Do: AskNames, Names: names}
}

func (a *All) await(i int) Step {
	s := Step{Do: Await, At: i, Leave: a.at >= 0 && a.at != i}
	if a.at != i {
		a.at, a.from, a.luck = i, a.rules.Clock.Now(), a.rules.Pace.Random(1001)
	}
	return s
}

// Over handles the end of the context, or anything else that ends the call.
func (a *All) Over() Step {
	s := Step{Do: GiveUp, GiveBack: a.held != 0, Leave: a.at >= 0}
	a.held, a.at = 0, -1
	return s
}

// Busy reports whether a call for several names has to wait its turn at this one. Then calls wait here, this process
// has the lock, or other processes have the turn.
func (n *Name) Busy() bool {
	now := n.rules.Clock.Now()
	for l := range n.Leases {
		if l.At(now) == quorum.NotEnded {
			return true
		}
	}
	q := n.queue
	return n.first || q != nil && (q.state != idle || len(q.line.side) > 0 || now.Before(q.turn.until))
}
