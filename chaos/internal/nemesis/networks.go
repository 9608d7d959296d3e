//go:build linux

package nemesis

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/cluster"
)

// links returns the links between the clients and nodes of the attack, and at times those of the clients to the registers.
func (a *attack) links() (links []*cluster.Link, paths []cluster.Path, nodes []int) {
	nodes = a.nodes
	if a.dice.IntN(4) == 0 {
		nodes = append(nodes, a.Register)
	}
	direction := [...]cluster.Direction{cluster.ToServer, cluster.ToServer, cluster.ToClient, cluster.Both}[a.dice.IntN(4)]
	for _, i := range a.clients {
		for _, j := range nodes {
			links = append(links, a.Cluster.Link(i, j))
			paths = append(paths, cluster.Path{Client: i, Server: j, Direction: direction})
		}
	}
	return links, paths, nodes
}

// onLinks changes links at the beginning and at the end of the fault.
func (a *attack) onLinks(what string, begin, end func(*cluster.Link, cluster.Direction)) error {
	release, ok := a.take(what, a.clients...)
	if !ok {
		return nil
	}
	defer release()
	links, paths, nodes := a.links()
	all := func(do func(*cluster.Link, cluster.Direction)) func() error {
		return func() error {
			for i, l := range links {
				do(l, paths[i].Direction)
			}
			return nil
		}
	}
	return a.during(fmt.Sprintf("%s, %v", what, paths[0].Direction), nodes, a.clients, all(begin), all(end))
}

func partition(a *attack) error {
	release, ok := a.take("partition", a.clients...)
	if !ok {
		return nil
	}
	defer release()
	_, paths, nodes := a.links()
	return a.during(fmt.Sprintf("partition, %v", paths[0].Direction), nodes, a.clients,
		func() error { return a.Cluster.Partition(paths...) },
		func() error { return a.Cluster.Heal(paths...) })
}

// hold holds one direction back, or both, for longer than the node timeout: what was sent is executed late.
func hold(a *attack) error {
	a.lasting = 350*time.Millisecond + time.Duration(a.dice.Int64N(int64(1500*time.Millisecond)))
	return a.onLinks("hold", (*cluster.Link).Hold, (*cluster.Link).Release)
}

func delay(a *attack) error {
	most := time.Duration(a.dice.Int64N(int64(400 * time.Millisecond)))
	return a.onLinks("delay",
		func(l *cluster.Link, d cluster.Direction) { l.Delay(d, most/4, most) },
		func(l *cluster.Link, d cluster.Direction) { l.Delay(d, 0, 0) })
}

func loss(a *attack) error {
	share := 0.2 * a.dice.Float64()
	return a.onLinks("loss",
		func(l *cluster.Link, _ cluster.Direction) { l.Loss(share) },
		func(l *cluster.Link, _ cluster.Direction) { l.Loss(0) })
}

func cut(a *attack) error {
	a.lasting = 0
	return a.onLinks("cut",
		func(l *cluster.Link, _ cluster.Direction) { l.Cut() },
		func(*cluster.Link, cluster.Direction) {})
}
