package testredis

import "slices"

// TakeOver has a replica of the owner of a slot take over at once, whether or not the owner and the other masters answer
// (CLUSTER FAILOVER TAKEOVER). It returns when all live servers agree and are ready.
func (c *Cluster) TakeOver(slot int, replica *Process) {
	c.tb.Helper()
	do(c.tb, replica, "CLUSTER", "FAILOVER", "TAKEOVER")
	c.WaitForOwner(slot, replica)
}

// WaitForOwner waits until all live servers say that this one has a slot, and are ready.
func (c *Cluster) WaitForOwner(slot int, owner *Process) {
	c.tb.Helper()
	c.agree("it belongs to "+owner.Addr(), slot, func(r slotRange) bool { return r.owner == owner })
}

// WaitForReplica waits until a server has attached to the owner of a slot, and all live servers say so.
func (c *Cluster) WaitForReplica(slot int, replica *Process) {
	c.tb.Helper()
	eventually(c.tb, replica.Addr()+" has attached", func() bool { return follows(replica, c.Owner(slot)) })
	c.agree(replica.Addr()+" is the replica", slot, func(r slotRange) bool { return slices.Contains(r.replicas, replica) })
}
