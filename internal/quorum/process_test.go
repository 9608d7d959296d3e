package quorum_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
)

// process is one of the world's that wants the lock: it does what a queue decides, as package
// redlock does.
type process struct {
	world   *world
	name    string
	machine *quorum.Queue[int]
	pace    quorum.Pace

	waiters  []int // in the order in which they joined
	joined   int
	round    *worldRound
	rounds   int
	holds    int
	heals    int // under way
	alarm    time.Time
	listens  bool
	hears    []bool      // hears[i]: node i tells it of changes
	lines    []time.Time // lines[i]: when the last command arrives at node i
	ears     []time.Time // ears[i]: when the last that node i told is told here
	looks    []int       // looks[i]: looks under way at node i
	commands int
	reasons  int // for commands
}

func newProcess(w *world) *process {
	n := len(w.nodes)
	p := &process{
		world: w, name: fmt.Sprintf("p%d", len(w.processes)),
		hears: make([]bool, n), lines: make([]time.Time, n), ears: make([]time.Time, n), looks: make([]int, n),
	}
	p.pace = quorum.Pace{First: 2 * time.Millisecond, Most: 200 * time.Millisecond, Random: w.below}
	p.pace.Heal = w.heal
	p.machine = quorum.NewQueue[int](n, p.name, p.pace)
	return p
}

// send has a command done at a node, behind all that was sent to it before, and answered.
// done is false for one that got lost.
func (p *process) send(n *worldNode, at func(), answer func(done bool)) {
	w := p.world
	p.commands++
	arrives := w.now.Add(w.trip())
	if arrives.Before(p.lines[n.number]) {
		arrives = p.lines[n.number]
	}
	p.lines[n.number] = arrives
	w.at(arrives, func() {
		if n.down {
			w.after(w.below(nodeTimeout), func() { answer(false) })
			return
		}
		at()
		w.after(w.trip(), func() { answer(true) })
	})
}

// hear has something told by a node, behind all that it told before.
func (p *process) hear(n *worldNode, what func()) {
	at := p.world.now.Add(p.world.trip())
	if at.Before(p.ears[n.number]) {
		at = p.ears[n.number]
	}
	p.ears[n.number] = at
	p.world.at(at, func() {
		p.reasons++
		what()
	})
}

// deafen lets a process miss what a node tells, which it notices after a while.
func (p *process) deafen(n *worldNode, d time.Duration) {
	i := n.number
	if !p.hears[i] {
		return
	}
	p.hears[i] = false
	delete(n.watchers, p)
	p.hear(n, func() {
		p.world.tell("%s: node %d is deaf", p.name, i)
		p.do(p.machine.Deaf(p.world.now, i))
	})
	p.world.after(d, func() { p.listen(n) })
}

func (p *process) listen(n *worldNode) {
	if n.down {
		p.world.after(time.Millisecond, func() { p.listen(n) })
		return
	}
	p.hear(n, func() {
		p.world.tell("%s: node %d is hearing", p.name, n.number)
		p.hears[n.number] = true
		p.do(p.machine.Hearing(p.world.now, n.number))
	})
}

func (p *process) join() {
	p.joined++
	p.reasons++
	p.waiters = append(p.waiters, p.joined)
	p.world.tell("%s: %d joins", p.name, p.joined)
	p.do(p.machine.Join(p.world.now, p.joined))
}

// leave lets a waiter give up. Its round, if there is one, is stopped first.
func (p *process) leave(waiter int) {
	p.world.tell("%s: %d gives up", p.name, waiter)
	p.reasons++
	if r := p.round; r != nil && r.waiter == waiter {
		r.told, p.round = true, nil
		p.carry(r, r.machine.Stop(p.world))
	}
	p.waiters = slices.DeleteFunc(p.waiters, func(w int) bool { return w == waiter })
	p.do(p.machine.Leave(p.world.now, waiter))
}

// Now makes the world a clock.
func (w *world) Now() time.Time { return w.now }

// do does what the queue asks for.
func (p *process) do(m quorum.Moves) {
	w := p.world
	if m.Try {
		p.begin()
	}
	if !m.At.IsZero() {
		if !m.At.After(w.now) {
			w.fail("%s: asks for a tick in the past", p.name)
		}
		if p.alarm.IsZero() || m.At.Before(p.alarm) {
			p.alarm = m.At
			w.at(m.At.Add(w.below(time.Millisecond)), func() { p.tick(m.At) })
		}
	}
	if m.Listen && !p.listens {
		p.listens = true
		for _, n := range w.nodes {
			p.listen(n)
		}
	}
	for _, i := range m.Look {
		p.look(w.nodes[i])
	}
	for _, i := range m.Heal {
		p.heal(w.nodes[i])
	}
	if a := m.Announce; a != nil {
		p.publish(w.nodes[a.Node], a.To, func(to *process) { to.machine.Heard(p.name) })
	}
	if m.Pass != nil {
		w.tell("%s: passes to %s, then %v", p.name, m.Pass.To, m.Pass.Rivals)
		for _, n := range w.nodes {
			p.publish(n, m.Pass.To, func(to *process) {
				w.tell("%s: told by node %d that it is its turn", to.name, n.number)
				to.do(to.machine.Told(n.number, m.Pass.Rivals))
			})
		}
	}
}

func (p *process) tick(at time.Time) {
	if p.alarm.Equal(at) {
		p.alarm = time.Time{}
		p.do(p.machine.Tick(p.world.now))
	}
}

func (p *process) look(n *worldNode) {
	w, i := p.world, n.number
	if p.looks[i]++; p.looks[i] > 1 {
		w.fail("%s: looks at node %d twice", p.name, i)
	}
	var seen quorum.Sight
	p.send(n, func() {
		token := w.lookUp(n)
		seen = quorum.Sight{Answered: true, Held: token != "", Token: token, Watched: p.hears[i]}
		if owner, _, _ := strings.Cut(token, "."); owner != "foreign" {
			seen.Owner = owner
		}
		if seen.NoTTL = seen.Held && n.ends.IsZero(); !seen.NoTTL && seen.Held {
			seen.TTL = n.ends.Sub(w.now).Truncate(time.Millisecond)
		}
		if p.hears[i] {
			n.watchers[p] = true
		}
	}, func(done bool) {
		p.looks[i]--
		if !done {
			seen = quorum.Sight{}
		}
		w.tell("%s: sees on node %d: %+v", p.name, i, seen)
		p.do(p.machine.Saw(w.now, i, seen))
	})
}

func (p *process) heal(n *worldNode) {
	w, token, healed := p.world, p.machine.Seen(n.number).Token, false
	w.tell("%s: heals node %d", p.name, n.number)
	p.heals++
	p.send(n, func() {
		healed = n.token == token && n.ends.IsZero()
		if healed {
			w.set(n, "", time.Time{})
		}
	}, func(done bool) {
		p.heals--
		p.do(p.machine.Healed(w.now, n.number, done && healed))
	})
}

// publish has another process told something through a node.
func (p *process) publish(n *worldNode, to string, what func(*process)) {
	p.send(n, func() {
		for _, other := range p.world.processes {
			if other.name == to && other.hears[n.number] {
				other.hear(n, func() { what(other) })
			}
		}
	}, func(bool) {})
}

// check looks for what must never be.
func (p *process) check() {
	if len(p.waiters) == 0 || p.round != nil || p.heals > 0 {
		return
	}
	for _, looks := range p.looks {
		if looks > 0 {
			return
		}
	}
	switch {
	case p.alarm.IsZero():
		p.world.fail("%s: %v wait, and nothing will ever happen", p.name, p.waiters)
	case p.alarm.Sub(p.world.now) > 31*time.Second:
		p.world.fail("%s: %v wait, and nothing will happen for %v", p.name, p.waiters, p.alarm.Sub(p.world.now))
	}
}
