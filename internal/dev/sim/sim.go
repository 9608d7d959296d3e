// Package sim lets the protocol run against an adversary: the decisions of
// internal/quorum and the pipeline and guard of internal/wire, as programs run them, between simulated clients,
// connections and nodes in simulated time.
//
// A run is one [Plan]. Everything in it happens on one goroutine, in an order that the
// plan fixes: the same plan always runs the same way.
package sim

import (
	"slices"
	"time"
)

const (
	// restTime is how long the world has, after the last step and with all faults
	// gone, to come to rest: above every timeout and pause.
	restTime = 2 * time.Second
	// restPause is how often rest is called while there is something left to do.
	restPause = 500 * time.Millisecond
	// warmUp is the time in which connections are made first.
	warmUp = 10 * time.Millisecond
	// upBefore is how long a node has been in use at the beginning.
	upBefore = time.Hour
)

// Run carries out a plan and returns the first promise that was broken, or nil.
func Run(p Plan) *Violation { return run(p, nil, false).failed }

// Order carries out a plan. It returns how many pairs of processes have waited for a lock at the same time, and how many of
// these got it in another order than they came, in a plan in which they come one after the other.
func Order(p Plan) (all, wrong int) {
	w := run(p, nil, false)
	return w.pairs.all, w.pairs.wrong
}

// Trace carries out a plan and returns what happened, line by line.
func Trace(p Plan) []string {
	var trace []string
	_ = run(p, &trace, false)
	return trace
}

func run(p Plan, trace *[]string, recorded bool) *world {
	w := &world{plan: p, trace: trace, recorded: recorded, rounds: map[life]*round{}, turned: map[string][]turns{}, wins: map[string]int{}, patience: shortPatience}
	for i := range p.Nodes {
		w.servers = append(w.servers, newServer(w, i))
	}
	for i := range p.Clients {
		w.clients = append(w.clients, newClient(w, i))
	}
	for _, s := range p.Steps {
		at := warmUp + s.At
		w.restAt = max(w.restAt, at+s.For, warmUp+s.Until)
		w.at(at, func() { w.step(s) })
	}
	w.at(w.restAt, w.rest)
	w.run(w.restAt + restTime)
	w.checkRest()
	w.checkStorm()
	w.run(w.now + w.mostWaits())
	w.checkSets()
	w.resting = true
	w.run(w.now + 3*time.Hour) // until the last lease is over
	w.checkNames()
	w.checkFree()
	return w
}

// rest has those that hold a lock give it back, unless it ends by itself, and checks those
// that wait.
func (w *world) rest() {
	for _, c := range w.clients {
		for _, k := range slices.Clone(c.holds) {
			if k.lease.Renewal != nil || w.waits > w.served && w.chance(c.number, 12)&1 == 0 {
				c.do(func() {
					for range len(k.holds) {
						k.giveUp()
					}
				})
			}
		}
	}
	if w.now >= w.restAt+restTime {
		w.checkAsked()
	}
	if w.checkSleepers() {
		w.after(restPause, w.rest)
	}
}

// step does what a step of the plan says.
func (w *world) step(s Step) {
	switch c := w.clients[s.Client]; s.Kind {
	case Pause:
		w.log("client %d stands still for %v", c.number, s.For)
		c.paused = max(c.paused, w.now+s.For)
		c.upsets++
	case Jump:
		w.log("the clock of client %d leaps by %v", c.number, s.For)
		c.clock.leapt += s.For
		c.upsets++
	case Die: // what it has sent is on its way
		w.log("client %d dies", c.number)
		c.dead = true
		for _, l := range c.lines {
			if l.conn != nil {
				l.conn.cut = true
			}
		}
	case Rush:
		w.rush(s)
	case Throng:
		w.throng(s)
	case Freeze, Crash, Cut, Partition, Vanish, Stall, Stray, Data, Lapse, Replace, Touch, Flush, CounterData, Beside, Promote, Move, Refuse:
		for i, server := range w.servers {
			if s.Node == i || s.Node == AllNodes {
				server.trouble(s, c)
			}
		}
	default:
		c.do(func() { c.step(s) })
	}
}
