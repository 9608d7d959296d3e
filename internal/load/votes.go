package load

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

const opAcquire = "acquire"

// Votes is an Observer that counts what the nodes answer to acquires. It costs a lock
// for each vote that hardly anybody else wants, as a node's answers come one after the other.
type Votes struct {
	made  time.Time
	from  atomic.Int64             // what began before is not counted, in ns since made
	last  map[string]*atomic.Int32 // last[name] is the node that said yes last; the map never changes
	nodes []nodeVotes
	lost  atomic.Int64 // rounds
}

// nodeVotes is what one node answered.
type nodeVotes struct {
	addr string

	mu       sync.Mutex
	answers  [pool.Unsent + 1]int64 // by [pool.Answer]
	answered *histogram             // the latency of yes, no and refused
	decided  *histogram             // the latency of the rounds that were won with this node's yes
	_        [64]byte               // another node's are not on the same cache line
}

// NewVotes is for the nodes with these addresses, and the names that locks are taken under.
func NewVotes(addrs, names []string) *Votes {
	v := &Votes{made: time.Now(), last: map[string]*atomic.Int32{}, nodes: make([]nodeVotes, len(addrs))}
	for _, name := range names {
		v.last[name] = new(atomic.Int32)
	}
	v.from.Store(math.MaxInt64)
	for i := range v.nodes {
		v.nodes[i].addr = addrs[i]
		v.nodes[i].answered, v.nodes[i].decided = newHistogram(), newHistogram()
	}
	return v
}

// begin counts what begins from now on.
func (v *Votes) begin() {
	if v != nil {
		v.from.Store(int64(time.Since(v.made)))
	}
}

// counts says whether an operation that took so long until now is one to be counted.
func (v *Votes) counts(op string, took time.Duration) bool {
	return op == opAcquire && int64(time.Since(v.made)-took) >= v.from.Load()
}

// Vote implements [redlock.Observer].
func (v *Votes) Vote(vote redlock.Vote) {
	if !v.counts(vote.Op, vote.Took) {
		return
	}
	node := &v.nodes[vote.Node]
	node.mu.Lock()
	node.answers[vote.Answer]++
	if vote.Answer == pool.Yes || vote.Answer == pool.No || vote.Answer == pool.Refused {
		node.answered.record(vote.Took)
	}
	node.mu.Unlock()
	if vote.Answer == pool.Yes {
		v.last[vote.Name].Store(int32(vote.Node))
	}
}

// Verdict implements [redlock.Observer]. It comes right behind the vote that decided.
func (v *Votes) Verdict(verdict redlock.Verdict) {
	if !v.counts(verdict.Op, verdict.Took) {
		return
	}
	if verdict.Err != nil {
		v.lost.Add(1)
		return
	}
	node := &v.nodes[v.last[verdict.Name].Load()]
	node.mu.Lock()
	defer node.mu.Unlock()
	node.decided.record(verdict.Took)
}

// results returns what each node answered, and the latency of the rounds that were won.
func (v *Votes) results(shared bool) (nodes []Node, quorum Latency) {
	won := newHistogram()
	for i := range v.nodes {
		from := &v.nodes[i]
		from.mu.Lock()
		node := Node{Addr: from.addr, Latency: from.answered.latency("answer"), Answers: map[string]int64{}}
		for a := pool.Yes; a <= pool.Unsent; a++ {
			node.Answers[a.String()] = from.answers[a]
		}
		if !shared {
			node.Decided = from.decided.hdr.TotalCount()
		}
		won.merge(from.decided)
		from.mu.Unlock()
		nodes = append(nodes, node)
	}
	return nodes, won.latency("quorum")
}
