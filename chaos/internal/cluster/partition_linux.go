package cluster

import "fmt"

// Direction is where bytes flow between a client and a server.
type Direction int

// The directions.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// String returns the direction as a history names it.
func (d Direction) String() string {
	return [...]string{"neither way", "to server", "to client", "both ways"}[d]
}

// Path is the way between a client and a server, in one direction or both.
type Path struct {
	Client, Server int
	Direction      Direction
}

// Partition loses all packets on these paths from now on. Nothing is told of it, a connection is only silent: what is
// sent meanwhile, or was on its way, is sent again by the kernel, and arrives when the path is healed. The pauses between its
// attempts grow, from 200 ms to the length of the partition.
//
// The packets are lost between the client and the relay. What has passed the relay before arrives.
func (c *Cluster) Partition(paths ...Path) error { return c.route(true, paths) }

// Heal undoes Partition. A path that is whole stays so, and a direction that is not named stays as it is.
func (c *Cluster) Heal(paths ...Path) error { return c.route(false, paths) }

// HealAll undoes every Partition.
func (c *Cluster) HealAll() error {
	c.routing.Lock()
	var paths []Path
	for path := range c.lost {
		paths = append(paths, path)
	}
	c.routing.Unlock()
	return c.Heal(paths...)
}

// route makes or removes rules of the kernel in the hub: a packet that comes is lost before it is taken for a local one, and
// one that goes finds no route.
func (c *Cluster) route(lose bool, paths []Path) error {
	c.routing.Lock()
	defer c.routing.Unlock()
	for _, path := range paths {
		if path.Client < 0 || path.Client >= len(c.clients) || path.Server < 0 || path.Server >= maxServers {
			return fmt.Errorf("partition: there is no path %+v", path)
		}
	}
	var commands []string
	var changed []Path
	for _, path := range paths {
		for _, one := range []Direction{ToServer, ToClient} {
			way := Path{path.Client, path.Server, one}
			if path.Direction&one == 0 || c.lost[way] == lose {
				continue
			}
			c.lost[way] = lose
			changed = append(changed, way)
			commands = append(commands, way.rule(lose))
		}
	}
	if len(commands) == 0 {
		return nil
	}
	if err := ip("", commands...); err != nil {
		return fmt.Errorf("partition %+v: %w", changed, err)
	}
	if !lose {
		for _, way := range changed {
			delete(c.lost, way)
		}
	}
	return nil
}

// rule returns the command for one direction.
func (p Path) rule(lose bool) string {
	number := firstRule + 2*(p.Client*maxServers+p.Server) + int(p.Direction) - 1
	if !lose {
		return fmt.Sprintf("rule del pref %d", number)
	}
	from, to := clientAddr(p.Client), relayAddr(p.Client, p.Server)
	if p.Direction == ToClient {
		from, to = to, from
	}
	return fmt.Sprintf("rule add pref %d from %s to %s blackhole", number, from, to)
}
