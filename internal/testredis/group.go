package testredis

import (
	"slices"
	"strconv"
)

// groupSize is how many servers a group has.
const groupSize = 3

// Group is a primary and two replicas that [Sentinels] watch.
type Group struct {
	sentinels *Sentinels
	name      string
	servers   []*Process
}

// Servers returns the servers of the group, in an order that stays the same.
func (g *Group) Servers() []*Process { return slices.Clone(g.servers) }

// Primary returns the server that the sentinels name at this moment. If they disagree, the latest failover counts.
func (g *Group) Primary() *Process {
	g.sentinels.tb.Helper()
	var primary *Process
	latest := -1
	for _, sentinel := range live(g.sentinels.processes) {
		named := g.named(sentinel)
		fields, err := g.master(sentinel)
		if epoch, _ := strconv.Atoi(fields["config-epoch"]); err == nil && named != nil && epoch > latest {
			primary, latest = named, epoch
		}
	}
	if primary == nil {
		g.sentinels.tb.Fatalf("no sentinel names a primary of %q", g.name)
	}
	return primary
}

// Replicas returns the servers besides the present primary.
func (g *Group) Replicas() []*Process {
	g.sentinels.tb.Helper()
	primary := g.Primary()
	return slices.DeleteFunc(g.Servers(), func(p *Process) bool { return p == primary })
}

// FailOver asks a sentinel for another primary, and returns when all sentinels name it. The former primary
// goes on as one for a while, and takes writes that are lost: until the sentinels make it a replica, for which
// [Group.WaitForReplicas] waits.
func (g *Group) FailOver() {
	g.sentinels.tb.Helper()
	former := g.Primary()
	tries := 0
	eventually(g.sentinels.tb, "the sentinels name another primary than "+former.Addr(), func() bool {
		// A sentinel refuses while another failover goes on, or while it knows no replica well. It may also give up later.
		if asked := live(g.sentinels.processes)[0]; tries%50 == 0 && g.named(asked) == former {
			_, _ = asked.Do("SENTINEL", "FAILOVER", g.name)
		}
		tries++
		return g.agreed(former) != nil
	})
}

// Lag keeps everything from the replicas, until FailOverLate.
func (g *Group) Lag() {
	g.sentinels.tb.Helper()
	primary := g.Primary()
	for _, p := range live(g.servers) {
		if p != primary {
			p.Freeze()
		}
	}
	// Otherwise they would still read what is in their sockets.
	do(g.sentinels.tb, primary, "CLIENT", "KILL", "TYPE", "replica")
}

// FailOverLate ends the primary, and returns when the sentinels have made another of a replica, without the
// writes since Lag.
func (g *Group) FailOverLate() {
	g.sentinels.tb.Helper()
	former := g.Primary()
	former.Stop()
	for _, p := range g.servers {
		if p.PID() != 0 {
			p.Thaw()
		}
	}
	g.WaitForPrimary(former)
}

// WaitForPrimary waits until all sentinels name the same primary, which is not that one, and it is one. It
// returns the primary.
func (g *Group) WaitForPrimary(not *Process) (primary *Process) {
	g.sentinels.tb.Helper()
	eventually(g.sentinels.tb, "the sentinels name another primary than "+not.Addr(), func() bool {
		primary = g.agreed(not)
		return primary != nil
	})
	return primary
}

// WaitForReplicas waits until all other servers that are neither stopped nor frozen have attached to a primary.
func (g *Group) WaitForReplicas(primary *Process) {
	g.sentinels.tb.Helper()
	for _, p := range live(g.servers) {
		if p != primary {
			eventually(g.sentinels.tb, p.Addr()+" has attached to "+primary.Addr(), func() bool { return follows(p, primary) })
		}
	}
}

// agreed returns the server that all sentinels name, if it is a primary and not that one; otherwise nil.
func (g *Group) agreed(not *Process) *Process {
	var primary *Process
	for _, sentinel := range live(g.sentinels.processes) {
		named := g.named(sentinel)
		if named == nil || named == not || primary != nil && named != primary {
			return nil
		}
		primary = named
	}
	if primary == nil || replication(primary, "role") != "master" {
		return nil
	}
	return primary
}
