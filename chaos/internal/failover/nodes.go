// Package failover runs nodes that are several servers each, and has them fail over: groups that Sentinels watch, and parts of a
// Redis Cluster. Clients reach the servers at 127.0.0.1.
package failover

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/testredis"
)

// Count is how many nodes there are.
const Count = 3

// Nodes are three nodes. The methods may be called from any goroutine, for each node by one at a time.
type Nodes struct {
	system
	host *host
}

// system is what differs between groups and a cluster.
type system interface {
	// URLs returns what clients open.
	URLs() []string
	primary(node int) *testredis.Process
	replicas(node int) []*testredis.Process
	// lag keeps everything from the replicas, and freezes them.
	lag(node int)
	// failOver has a replica take over while all servers work.
	failOver(node int)
	// successor waits until one of these replicas is the primary, and returns it.
	successor(node int, former *testredis.Process, replicas []*testredis.Process) *testredis.Process
	// restored waits until the former primary follows the present one.
	restored(node int, former, primary *testredis.Process)
	// key returns a key on the servers of the node.
	key(node int, name string) string
}

// Kind is a kind of such nodes.
type Kind struct {
	Name   string
	Faults []Fault // the likely ones more than once
	start  func(*host) system
}

// Kinds returns the kinds: three groups of three servers and three Sentinels, and a Redis Cluster of three masters with a replica each.
func Kinds() []Kind {
	return []Kind{{"groups", groupFaults, newGroups}, {"cluster", slotFaults, newSlots}}
}

// Start starts the servers, of which nothing is left after an error. Their output goes to the log if something fails.
func (k Kind) Start(log io.Writer) (*Nodes, error) {
	n := &Nodes{host: &host{log: log}}
	if err := n.host.try(func() { n.system = k.start(n.host) }); err != nil {
		_ = n.host.close()
		return nil, err
	}
	return n, nil
}

// Close ends the servers.
func (n *Nodes) Close() error { return n.host.close() }

// Conn connects to the server that a node is at this moment.
func (n *Nodes) Conn(node int) (c redis.Conn, err error) {
	var primary *testredis.Process
	if err := n.host.try(func() { primary = n.primary(node) }); err != nil {
		return nil, err
	}
	return redis.Dial("tcp", primary.Addr())
}

// Pick returns some nodes, up to that many, in any order. No two of them are the same server.
func (n *Nodes) Pick(dice *rand.Rand, most int) (picked []int, err error) {
	err = n.host.try(func() {
		var taken []*testredis.Process
		for _, node := range dice.Perm(Count) {
			if p := n.primary(node); len(picked) < most && !slices.Contains(taken, p) {
				picked, taken = append(picked, node), append(taken, p)
			}
		}
	})
	return picked, err
}

// Fault is a way to have a node fail over.
type Fault struct {
	What string
	// Together says that several nodes may have it at once. Otherwise the others have to work meanwhile.
	Together bool
	run      func(*strike)
}

// Result counts what has happened.
type Result struct {
	FailedOver int // nodes of which another server has become the primary
	Lost       int // those of them whose new primary lacks a write that the former one had confirmed
	Moved      int // nodes whose slot was moved
}

// Add adds what has happened elsewhere.
func (r *Result) Add(o Result) {
	r.FailedOver, r.Lost, r.Moved = r.FailedOver+o.FailedOver, r.Lost+o.Lost, r.Moved+o.Moved
}

func (r Result) String() string {
	return fmt.Sprintf("%d failovers, %d with lost writes, %d slots moved", r.FailedOver, r.Lost, r.Moved)
}

// strike is a fault under way.
type strike struct {
	*Nodes
	Result
	node        int
	dice        *rand.Rand
	lags, rests time.Duration // how long the replicas get nothing before the crash, and the former primary is away after the failover
}

// Strike has a node fail over, and returns when all its servers work again.
func (n *Nodes) Strike(f Fault, node int, dice *rand.Rand) (Result, error) {
	upTo2s := func() time.Duration { return time.Duration(dice.Int64N(int64(2 * time.Second))) }
	s := &strike{Nodes: n, node: node, dice: dice, lags: 300*time.Millisecond + upTo2s(), rests: upTo2s()}
	err := n.host.try(func() { f.run(s) })
	return s.Result, err
}
