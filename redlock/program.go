package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// program makes events of what happens beside the calls. It implements [engine.Program], and the Reporter of nodes.
type program struct{ *Locker }

func (p program) Health(node int, h engine.Health) {
	if now := time.Now(); h.Up {
		p.events.emit(event.NodeUp{
			At: now, Node: node, Addr: p.addr(node), Down: h.Down, Failed: h.Failed, Quarantined: h.Quarantined, Left: h.Left,
		})
	} else {
		p.events.emit(event.NodeDown{At: now, Node: node, Addr: p.addr(node), Failed: h.Failed, Err: h.Err})
	}
}

func (p program) Turn(key string, waiting int, received bool) {
	if p.events.wants(kindTurns) {
		p.events.emit(event.Turn{At: time.Now(), Name: p.nameOf(key), Received: received, Waiting: waiting})
	}
}

func (p program) Stuck(key string, s *engine.Stuck) {
	var addrs []string
	for _, node := range s.Nodes {
		addrs = append(addrs, p.addr(node))
	}
	p.events.emit(event.Stuck{At: time.Now(), Name: p.nameOf(key), Addrs: addrs, Unchanged: s.Unchanged})
}

func (p program) Healed(key string, node int) {
	p.events.emit(event.Heal{At: time.Now(), Name: p.nameOf(key), Node: node, Addr: p.addr(node)})
}
