package testredis

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// slots is how many a cluster has.
const slots = 16384

// Cluster is a Redis Cluster of three masters with a replica each, which have a third of the slots each.
type Cluster struct {
	tb      testing.TB
	servers []*Process
	ids     []string // of the servers
}

// slotRange is an entry of CLUSTER SLOTS.
type slotRange struct {
	first, last int
	owner       *Process
	replicas    []*Process
}

// NewCluster starts a cluster for a test, as [Real] does its servers. The args go to all of them. When it
// returns the replicas have attached, and all servers agree and are ready.
func NewCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, servers: Real(tb, 6, append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0",
		"--repl-ping-replica-period", "1", // CLUSTER SLOTS leaves out a replica that has got nothing yet, not even a ping
	}, args...)...)}
	for i, p := range c.servers {
		id, err := redis.String(p.Do("CLUSTER", "MYID"))
		if err != nil {
			tb.Fatal(err)
		}
		c.ids = append(c.ids, id)
		do(tb, p, "CLUSTER", "SET-CONFIG-EPOCH", i+1) // otherwise those that have the same find it out later
		for _, other := range c.servers[:i] {
			host, port, _ := net.SplitHostPort(other.Addr())
			do(tb, p, "CLUSTER", "MEET", host, port)
		}
	}
	masters, replicas := c.servers[:3], c.servers[3:]
	bounds := []int{0, 5461, 10923, slots}
	for i, p := range masters {
		add := []any{"ADDSLOTS"} // Redis 6.2 has no ADDSLOTSRANGE
		for slot := bounds[i]; slot < bounds[i+1]; slot++ {
			add = append(add, slot)
		}
		do(tb, p, "CLUSTER", add...)
	}
	for i, p := range replicas {
		eventually(tb, "the replica knows its master", func() bool {
			_, err := p.Do("CLUSTER", "REPLICATE", c.ids[i])
			return err == nil
		})
	}
	for i, p := range replicas {
		eventually(tb, "the replica has attached", func() bool { return follows(p, masters[i]) })
	}
	for i, p := range masters {
		c.agree("the slots are covered", bounds[i], func(r slotRange) bool {
			return r.owner == p && slices.Equal(r.replicas, replicas[i:][:1])
		})
	}
	return c
}

// Servers returns the servers, in an order that stays the same: at first the masters, then the replica of each.
func (c *Cluster) Servers() []*Process { return slices.Clone(c.servers) }

// Addrs returns the addresses of the servers.
func (c *Cluster) Addrs() []string { return addrs(c.servers) }

// URL returns the URL of n nodes of the cluster, without a password.
func (c *Cluster) URL(n int) string {
	return fmt.Sprintf("%s+cluster://%s/?nodes=%d", c.servers[0].scheme(), strings.Join(c.Addrs(), ","), n)
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	slot, err := redis.Int(c.live()[0].Do("CLUSTER", "KEYSLOT", key))
	if err != nil {
		c.tb.Fatal(err)
	}
	return slot
}

// Owner returns the master that has a slot, as a live server says.
func (c *Cluster) Owner(slot int) *Process {
	c.tb.Helper()
	return c.lookUp(slot).owner
}

// Replica returns the replica of the owner of a slot, as a live server says; nil if there is none that answers
// the others.
func (c *Cluster) Replica(slot int) *Process {
	c.tb.Helper()
	if r := c.lookUp(slot); len(r.replicas) > 0 {
		return r.replicas[0]
	}
	return nil
}

// FailOver has the replica take over from the owner of a slot, without a lost write. When it returns all live
// servers agree, and the former owner has become the replica. A third within seconds takes some more: masters vote
// about the same master once in two timeouts.
func (c *Cluster) FailOver(slot int) {
	c.tb.Helper()
	former, next := c.Owner(slot), c.replica(slot)
	eventually(c.tb, "the replica has attached", func() bool { return follows(next, former) })
	tries := 0
	c.agree("the replica has taken over", slot, func(r slotRange) bool {
		// The replica gives up after 5 s, for example if the others may not vote yet.
		if tries%600 == 0 && replication(next, "role") == "slave" {
			_, _ = next.Do("CLUSTER", "FAILOVER")
		}
		tries++
		return r.owner == next
	})
	eventually(c.tb, "the former owner has attached", func() bool { return follows(former, next) })
	c.agree("the former owner is the replica", slot, func(r slotRange) bool {
		return r.owner == next && slices.Contains(r.replicas, former)
	})
}

// Kill stops the owner of a slot, and returns when its replica has taken over for all live servers, and they are ready.
func (c *Cluster) Kill(slot int) {
	c.tb.Helper()
	former, next := c.Owner(slot), c.replica(slot)
	former.Stop()
	c.WaitForOwner(slot, next)
}

// Lag keeps everything from the replica of the owner of a slot, until FailOverLate. It returns the replica.
func (c *Cluster) Lag(slot int) *Process {
	c.tb.Helper()
	replica := c.replica(slot)
	replica.Freeze()
	do(c.tb, c.Owner(slot), "CLIENT", "KILL", "TYPE", "replica") // otherwise it would still read what is in its socket
	return replica
}

// FailOverLate ends the owner of a slot, and returns when the replica that Lag returned has taken over,
// without the writes since Lag.
func (c *Cluster) FailOverLate(slot int, replica *Process) {
	c.tb.Helper()
	c.Owner(slot).Stop()
	replica.Thaw()
	c.WaitForOwner(slot, replica)
}

// Migrate moves a slot with its keys to another master, and returns when all live servers agree.
func (c *Cluster) Migrate(slot int, to *Process) {
	c.tb.Helper()
	move, end := c.BeginMigration(slot, to)
	move()
	end()
}

// BeginMigration opens the migration of a slot: its owner sends clients that ask for other keys than it has to
// the new one (ASK). Move moves all keys, and end makes the other the owner and returns when all live servers
// agree.
func (c *Cluster) BeginMigration(slot int, to *Process) (move, end func()) {
	c.tb.Helper()
	from := c.Owner(slot)
	do(c.tb, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(from))
	do(c.tb, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(to))
	move = func() {
		c.tb.Helper()
		for {
			keys, err := redis.Strings(from.Do("CLUSTER", "GETKEYSINSLOT", slot, 100))
			if err != nil {
				c.tb.Fatal(err)
			}
			if len(keys) == 0 {
				return
			}
			host, port, _ := net.SplitHostPort(to.Addr())
			migrate := []any{host, port, "", 0, 5000}
			if to.password != "" {
				migrate = append(migrate, "AUTH", to.password)
			}
			do(c.tb, from, "MIGRATE", redis.Args(append(migrate, "KEYS")).AddFlat(keys)...)
		}
	}
	end = func() {
		c.tb.Helper()
		// The new owner comes first: if it were told last and failed, nobody would have the slot.
		for _, p := range append([]*Process{to, from}, c.live()...) {
			if replication(p, "role") == "master" {
				do(c.tb, p, "CLUSTER", "SETSLOT", slot, "NODE", c.id(to))
			}
		}
		c.WaitForOwner(slot, to)
	}
	return move, end
}

// agree waits until all live servers are ready and say of a slot what is expected.
func (c *Cluster) agree(what string, slot int, expected func(slotRange) bool) {
	c.tb.Helper()
	eventually(c.tb, fmt.Sprintf("for all servers slot %d: %s", slot, what), func() bool {
		for _, p := range c.live() {
			ready, _ := redis.String(p.Do("CLUSTER", "INFO"))
			if r, found := c.ask(p, slot); !found || !expected(r) || field(ready, "cluster_state") != "ok" {
				return false
			}
		}
		return true
	})
}

// lookUp returns what a live server says about a slot.
func (c *Cluster) lookUp(slot int) slotRange {
	c.tb.Helper()
	for _, p := range c.live() {
		if r, found := c.ask(p, slot); found {
			return r
		}
	}
	c.tb.Fatalf("no server says who has slot %d", slot)
	return slotRange{}
}

// ask returns what a server says about a slot.
func (c *Cluster) ask(p *Process, slot int) (slotRange, bool) {
	entries, _ := redis.Values(p.Do("CLUSTER", "SLOTS"))
	for _, entry := range entries {
		parts, err := redis.Values(entry, nil)
		if err != nil || len(parts) < 3 {
			return slotRange{}, false
		}
		first, _ := redis.Int(parts[0], nil)
		last, _ := redis.Int(parts[1], nil)
		if slot < first || slot > last {
			continue
		}
		r := slotRange{first: first, last: last}
		for i, part := range parts[2:] {
			node, _ := redis.Values(part, nil)
			port, _ := redis.Int(node[1], nil) // the servers may have been told to announce other hosts
			server := at(c.servers, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if i == 0 {
				r.owner = server
			} else if server != nil {
				r.replicas = append(r.replicas, server)
			}
		}
		return r, r.owner != nil
	}
	return slotRange{}, false
}

// replica returns the replica of the owner of a slot, without which the test fails.
func (c *Cluster) replica(slot int) *Process {
	c.tb.Helper()
	p := c.Replica(slot)
	if p == nil {
		c.tb.Fatalf("the owner of slot %d has no replica", slot)
	}
	return p
}

// id returns the name of a server in the cluster.
func (c *Cluster) id(p *Process) string { return c.ids[slices.Index(c.servers, p)] }

func (c *Cluster) live() []*Process { return live(c.servers) }
