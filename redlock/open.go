package redlock

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/pool"
)

// Open makes a Locker over nodes of its own, one for each URL, which [Locker.Close] closes. The URLs are those of
// [pool.Open], such as redis://host:6379; [WithPoolOptions] passes options to it. The nodes connect on first use. The
// errors are those of pool.Open and [New].
func Open(urls []string, opts ...Option) (*Locker, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	nodes, err := pool.Open(urls, c.pool...)
	if err != nil {
		return nil, err
	}
	c.settings.Own = true
	return newLocker(nodes, c) // nothing is connected yet
}

// New makes a Locker over nodes; a lock needs len(nodes)/2 + 1 of them. An odd number is best: four nodes do not tolerate
// more failures than three, and votes split more often.
//
// The nodes stay the caller's: several Lockers may share them, and the caller closes them after the Lockers.
//
// No node, a nil node, two nodes with the same address, a nil option, an option out of range or [WithPoolOptions] is [ErrInvalid].
// Two addresses of the same server are found out when both are connected: the second vote of that server is refused then
// ([nodeerr.ErrSameServer]).
func New(nodes []*pool.Node, opts ...Option) (*Locker, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if c.pool != nil {
		return nil, invalid("WithPoolOptions: the nodes given to New have their options already")
	}
	return newLocker(nodes, c)
}

func newLocker(nodes []*pool.Node, c config) (*Locker, error) {
	if len(nodes) == 0 {
		return nil, invalid("no nodes: a lock needs at least one")
	}
	l := &Locker{config: c}
	s := &l.settings
	for i := range nodes {
		n := (*engine.Node)(nodes[i])
		if n == nil {
			return nil, invalid("node %d is nil", i)
		}
		for j, other := range s.Nodes {
			if n == other || n.Addr() == other.Addr() {
				return nil, invalid("nodes %d and %d are the same: %s", j, i, n.Addr())
			}
		}
		s.Nodes = append(s.Nodes, n)
		if guard := n.Config().MaxTTL; guard > 0 && guard < l.maxTTL {
			l.maxTTL, l.maxTTLBy = guard, "pool.WithRestartGuard of node "+n.Addr()
		}
	}
	if _, err := l.request("name", []LockOption{AutoExtend()}); err != nil {
		return nil, err
	}
	l.outages.clock, l.outages.waits = s.Clock, map[*outageWait]struct{}{}
	l.throttle.blocked = map[string]time.Time{}
	l.calling.Store(rand.Uint64())
	l.events.audience, l.events.began = &l.audience, time.Now()
	s.Program = program{l}
	l.engine = engine.New(*s)
	if l.events.wants(kindNodes) || l.events.mayLog() {
		l.engine.ReportHealth(program{l})
	}
	return l, nil
}
