// Package sim lets the protocol run against an adversary: the decisions of
// internal/quorum and the pipeline and guard of internal/node, as programs run them, between simulated clients,
// connections and nodes in simulated time.
//
// A run is one [Plan]. Everything in it happens on one goroutine, in an order that the
// plan fixes: the same plan always runs the same way.
package sim

import "time"

// restTime is how long the world has, after the last step and with all faults
// gone, to come to rest: above every timeout and pause.
const restTime = 2 * time.Second

// Run carries out a plan and returns the first promise that was broken, or nil.
func Run(p Plan) *Violation { return run(p, nil) }

// Trace carries out a plan and returns what happened, line by line.
func Trace(p Plan) []string {
	var trace []string
	_ = run(p, &trace)
	return trace
}

func run(p Plan, trace *[]string) *Violation {
	w := &world{plan: p, trace: trace, rounds: map[string]*round{}}
	for i := range p.Nodes {
		w.servers = append(w.servers, newServer(w, i))
	}
	for i := range p.Clients {
		w.clients = append(w.clients, newClient(w, i))
	}
	var last time.Duration
	for _, s := range p.Steps {
		// Connections are made first.
		at := warmUp + s.At
		last = max(last, at+s.For)
		w.at(at, func() { w.step(s) })
	}
	w.at(last, w.rest)
	w.run(last + restTime)
	if w.failed == nil {
		w.checkRest()
	}
	w.resting = true
	w.run(w.now + 3*time.Hour) // until the last lease is over
	return w.failed
}

// upBefore is how long a node has been up when it is met for the first time.
const upBefore = time.Hour

const warmUp = 10 * time.Millisecond

// rest has those that hold a lock give it back, unless it ends by itself, and checks those
// that wait.
func (w *world) rest() {
	for _, c := range w.clients {
		k := c.holds
		if k != nil && (k.renewal != nil || w.waits > w.served && w.chance(c.number, 12)&1 == 0) {
			c.do(func() {
				for c.holds == k {
					k.unlock()
				}
			})
		}
	}
	if w.checkSleepers() {
		w.after(restPause, w.rest)
	}
}

// restPause is how often rest is called while there is something left to do.
const restPause = 500 * time.Millisecond

// step does what a step of the plan says.
func (w *world) step(s Step) {
	c := w.clients[s.Client]
	switch s.Kind {
	case Acquire:
		c.do(func() { c.acquire(s) })
	case Extend:
		c.do(func() { c.extend(s.TTL) })
	case Unlock:
		c.do(c.unlock)
	case Cancel:
		c.do(c.cancel)
	case Wait:
		for range 1 + s.Crowd {
			c.do(func() { c.wait(s) })
		}
	case CancelWait:
		c.do(func() {
			if q := c.queue(key(s.Name)); q != nil && len(q.waiters) > 0 {
				q.waiters[(s.Node+1)%len(q.waiters)].cancel()
			}
		})
	case Enter:
		c.do(c.enter)
	case Attach:
		c.do(func() { c.attach(s) })
	case Force:
		c.do(func() { c.force(s.Name) })
	case Pause:
		w.log("client %d stands still for %v", c.number, s.For)
		c.pause(s.For)
	case Jump:
		w.log("the clock of client %d leaps by %v", c.number, s.For)
		c.clock.leapt += s.For
		c.upsets++
	case Anew:
		c.do(c.anew)
	case Die:
		w.log("client %d dies", c.number)
		c.die()
	default:
		for i := range w.servers {
			if s.Node == i || s.Node == AllNodes {
				w.trouble(s, c, i)
			}
		}
	}
}

// trouble does what a step of the plan says to one node, or between a client and it.
func (w *world) trouble(s Step, c *client, i int) {
	n, l := w.servers[i], c.lines[i]
	switch s.Kind {
	case Freeze:
		w.log("node %d stands still for %v", i, s.For)
		n.freeze(s.For)
	case Crash:
		w.log("node %d crashes for %v", i, s.For)
		w.amnesia = w.amnesia || !w.plan.Durable
		n.crash(s.For, w.plan.Durable, 0)
	case Replace:
		if n.known() {
			w.log("another takes the place of node %d after %v", i, s.For)
			w.amnesia = true
			n.crash(s.For, false, upBefore)
		}
	case Lapse:
		n.lapses(key(s.Name))
	case Cut:
		if l.conn != nil {
			l.conn.breakOff(s.Lose)
		}
	case Stray:
		n.stray(s.Name, "stray-"+s.At.String())
	case Vanish:
		if l.conn != nil {
			l.conn.vanish()
		}
	case Partition:
		w.log("nothing gets through between client %d and node %d for %v", c.number, i, s.For)
		for _, conn := range l.conns {
			// Connections that are there already try again ever more seldom.
			late := time.Duration(w.chance(c.number, i, conn.number, int(s.At), 7) % uint64(s.For))
			conn.blocked = max(conn.blocked, w.now+s.For+late)
		}
		l.blocked = max(l.blocked, w.now+s.For)
	}
}
