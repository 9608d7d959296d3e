package failover

import (
	"slices"

	"github.com/quorumlock/quorumlock/internal/cluster"
	"github.com/quorumlock/quorumlock/internal/testredis"
)

// slots are nodes that a Redis Cluster makes: one hash slot each.
type slots struct {
	host    *host
	cluster *testredis.Cluster
	nodes   [Count]*cluster.Node
}

// For several nodes at once there are faults that need no vote: one of three masters elects nobody.
var slotFaults = []Fault{
	{"kill", false, crash{}.run},
	{"freeze", false, crash{freezes: true}.run},
	{"late-kill", false, crash{late: true}.run},
	{"late-freeze", false, crash{late: true, freezes: true}.run},
	{"fail-over", false, failsOver},
	{"migrate", false, moves},
	{"migrate", false, moves},
	{"take-over", true, crash{promote: takesOver}.run},
	{"late-kill-take-over", true, crash{late: true, promote: takesOver}.run},
	{"late-kill-take-over", true, crash{late: true, promote: takesOver}.run},
	{"late-freeze-take-over", true, crash{late: true, freezes: true, promote: takesOver}.run},
	{"late-freeze-take-over", true, crash{late: true, freezes: true, promote: takesOver}.run},
}

// takesOver makes a replica the primary by hand.
func takesOver(k *strike, replica *testredis.Process) {
	s := k.system.(*slots)
	s.cluster.TakeOver(s.slot(k.node), replica)
}

func newSlots(h *host) system {
	s := &slots{host: h, cluster: testredis.NewCluster(h, "--cluster-require-full-coverage", "no")}
	for i := range s.nodes {
		s.nodes[i] = cluster.New(nil).Node(i, Count)
	}
	return s
}

func (s *slots) URLs() []string { return []string{s.cluster.URL(Count)} }

func (s *slots) slot(node int) int { return s.nodes[node].Slot() }

func (s *slots) primary(node int) *testredis.Process { return s.cluster.Owner(s.slot(node)) }

func (s *slots) replicas(node int) []*testredis.Process {
	p := s.cluster.Replica(s.slot(node))
	if p == nil {
		s.host.Fatalf("node %d has no replica", node)
	}
	return []*testredis.Process{p}
}

func (s *slots) lag(node int) { s.cluster.Lag(s.slot(node)) }

func (s *slots) failOver(node int) { s.cluster.FailOver(s.slot(node)) }

func (s *slots) successor(node int, _ *testredis.Process, replicas []*testredis.Process) *testredis.Process {
	s.cluster.WaitForOwner(s.slot(node), replicas[0])
	return replicas[0]
}

func (s *slots) restored(node int, former, _ *testredis.Process) {
	s.cluster.WaitForReplica(s.slot(node), former)
}

// moves moves the slot to a master that has no slot of a node, if there is one, or to any other.
func moves(k *strike) {
	s := k.system.(*slots)
	var owners, others, free []*testredis.Process
	for i := range s.nodes {
		owners = append(owners, s.primary(i))
	}
	for _, p := range s.cluster.Servers() {
		switch {
		case testredis.Info(s.host, p, "replication", "role") != "master":
		case !slices.Contains(owners, p):
			free = append(free, p)
		case p != owners[k.node]:
			others = append(others, p)
		}
	}
	if free != nil {
		others = free
	}
	s.cluster.Migrate(s.slot(k.node), others[k.dice.IntN(len(others))])
	k.Moved++
}

func (s *slots) key(node int, name string) string { return s.nodes[node].Tag() + name }
