package load

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorumlock/quorumlock/redlock"
)

// Answers returns the kinds of a node's answers to an acquire, as [redlock.Answer] names them.
func Answers() []string {
	var names []string
	for _, a := range []redlock.Answer{
		redlock.AnswerYes, redlock.AnswerNo, redlock.AnswerUnknown, redlock.AnswerRefused, redlock.AnswerUnsent,
	} {
		names = append(names, a.String())
	}
	return names
}

// Votes is an Observer that counts what the nodes answer to acquires. Each vote costs a mutex
// that is hardly ever contended, as a node's answers come one after the other.
type Votes struct {
	made  time.Time
	from  atomic.Int64             // what began before is not counted, in ns since made
	last  map[string]*atomic.Int32 // last[name] is the last node that answered yes; the map is fixed
	nodes []nodeVotes
	lost  atomic.Int64 // rounds
}

// nodeVotes is what one node answered.
type nodeVotes struct {
	addr string

	mu       sync.Mutex
	answers  map[string]int64        // by kind
	answered *hdrhistogram.Histogram // the latency of yes, no and refused
	decided  *hdrhistogram.Histogram // the latency of the rounds that were won with this node's yes
	_        [64]byte                // keeps another node's fields off this cache line
}

// NewVotes counts for nodes with these addresses and locks with these names.
func NewVotes(addrs, names []string) *Votes {
	v := &Votes{made: time.Now(), last: map[string]*atomic.Int32{}, nodes: make([]nodeVotes, len(addrs))}
	for _, name := range names {
		v.last[name] = new(atomic.Int32)
	}
	v.from.Store(math.MaxInt64)
	for i := range v.nodes {
		node := &v.nodes[i]
		node.addr, node.answers = addrs[i], map[string]int64{}
		node.answered, node.decided = newHistogram(), newHistogram()
		for _, answer := range Answers() {
			node.answers[answer] = 0
		}
	}
	return v
}

// begin counts operations that begin from now on.
func (v *Votes) begin() { v.from.Store(int64(time.Since(v.made))) }

// counts reports whether to count an operation that has taken so long until now.
func (v *Votes) counts(op redlock.Op, took time.Duration) bool {
	return op == redlock.OpAcquire && int64(time.Since(v.made)-took) >= v.from.Load()
}

// Vote implements [redlock.Observer].
func (v *Votes) Vote(vote redlock.Vote) {
	if !v.counts(vote.Op, vote.Took) {
		return
	}
	node := &v.nodes[vote.Node]
	node.mu.Lock()
	node.answers[vote.Answer.String()]++
	if vote.Answer == redlock.AnswerYes || vote.Answer == redlock.AnswerNo || vote.Answer == redlock.AnswerRefused {
		record(node.answered, vote.Took)
	}
	node.mu.Unlock()
	if vote.Answer == redlock.AnswerYes {
		v.last[vote.Name].Store(int32(vote.Node))
	}
}

// Verdict implements [redlock.Observer]. It comes right after the vote that decided.
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
	record(node.decided, verdict.Took)
}

// results returns what each node answered, and the latency of the rounds that were won. If
// callers share a name, nobody knows which node decided.
func (v *Votes) results(shared bool) (nodes []Node, quorum Latency) {
	won := newHistogram()
	for i := range v.nodes {
		from := &v.nodes[i]
		from.mu.Lock()
		node := Node{Addr: from.addr, Latency: summary("answer", from.answered), Answers: maps.Clone(from.answers)}
		if !shared {
			node.Decided = from.decided.TotalCount()
		}
		won.Merge(from.decided)
		from.mu.Unlock()
		nodes = append(nodes, node)
	}
	return nodes, summary("quorum", won)
}
