package redlock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// healthEvents makes events of what nodes report of their connections. It implements [node.Reporter].
type healthEvents struct{ locker *Locker }

func (r healthEvents) Health(i int, h node.Health) {
	l, now := r.locker, time.Now()
	if h.Up {
		l.events.emit(event.NodeUp{At: now, Node: i, Addr: l.nodes[i].Addr(), Down: h.Down, Failed: h.Failed, Quarantined: h.Quarantined, Left: h.Left})
	} else {
		l.events.emit(event.NodeDown{At: now, Node: i, Addr: l.nodes[i].Addr(), Failed: h.Failed, Err: h.Err})
	}
}

// reportNodes has the nodes report how they are connected.
func (l *Locker) reportNodes() {
	if !l.events.wants(kindNodes) && !l.events.mayLog() {
		return
	}
	for i, n := range l.nodes {
		n.Report(healthEvents{l}, i)
	}
}

// unreportNodes ends that. For the observer of a Locker that is closed its nodes are closed.
func (l *Locker) unreportNodes() {
	for _, n := range l.nodes {
		n.Unreport(healthEvents{l})
	}
}
