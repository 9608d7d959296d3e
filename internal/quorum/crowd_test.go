package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const worldsPerSize = 500

const (
	// trouble lasts for a while; then everybody who still waits gets the lock.
	trouble = 2 * time.Second
	// mostIdle is how long a lock that could be had lies about, where it is told when to take it or not.
	mostIdle = 500 * time.Millisecond
)

// Trap 21, and what else can become of those who wait.
func TestWhoeverWaitsGetsTheLockWhenTheTroubleIsOver(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(worldsPerSize) {
				random := rand.New(rand.NewPCG(uint64(n), seed))
				w := newWorld(t, n, 1+random.IntN(3), random)
				w.tell("seed %d", seed)
				w.troubled()
				w.run(start.Add(trouble), w.stopped)
				w.modest()
				w.calm()
				w.run(start.Add(time.Minute), w.satisfied)
				w.modest()
				if !w.satisfied() {
					w.fail("somebody still waits")
				}
			}
		})
	}
}

// troubled plans all kinds of trouble.
func (w *world) troubled() {
	gap := time.Duration(1+w.random.IntN(100)) * time.Millisecond
	for at := time.Duration(0); at < trouble; at += w.below(2 * gap) {
		w.after(at, func() {
			p := w.processes[w.random.IntN(len(w.processes))]
			n := w.nodes[w.random.IntN(len(w.nodes))]
			switch w.random.IntN(11) {
			case 0, 1, 2:
				w.somebodyElse()
			case 3, 4, 5:
				if len(p.waiters) < 20 {
					p.join()
				}
			case 6:
				if len(p.waiters) > 0 {
					p.leave(p.waiters[w.random.IntN(len(p.waiters))])
				}
			case 7:
				p.deafen(n, w.below(50*time.Millisecond))
			case 8:
				w.breakNode(n, w.below(min(150*time.Millisecond, start.Add(trouble).Sub(w.now))))
			case 9:
				p.takeBeside()
			case 10:
				w.tell("%s: told by node %d what is not so", p.name, n.number)
				p.machine.Heard("nobody")
				p.do(p.machine.Told(n.number, []string{"nobody", "p0"}))
			}
		})
	}
}

// stopped is when trouble is over, whatever is on the agenda.
func (w *world) stopped() bool { return false }

// satisfied is when nobody waits any more.
func (w *world) satisfied() bool {
	for _, p := range w.processes {
		if len(p.waiters) > 0 {
			return false
		}
	}
	return true
}

// modest checks how much was asked of the nodes since the last time: some commands to each for what
// has happened, and some as time goes by.
func (w *world) modest() {
	spent := w.now.Sub(w.counted).Seconds()
	w.counted = w.now
	for _, p := range w.processes {
		if most := 2 * len(w.nodes) * (10 + int(10*spent) + p.reasons); p.commands > most {
			w.fail("%s: %d commands in %.3f s, for %d reasons", p.name, p.commands, spent, p.reasons)
		}
		p.commands, p.reasons = 0, 0
	}
}
