package load

import (
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorumlock/quorumlock/internal/benchreport"
	"github.com/quorumlock/quorumlock/redlock/event"
	"github.com/quorumlock/quorumlock/redlock/event/protocol"
)

// Votes is an Observer that counts what the nodes answer to acquires.
type Votes struct {
	shared bool // callers share a name, so that nobody knows which node decided

	mu       sync.Mutex
	from     time.Time      // what began before is not counted; zero means nothing is
	last     map[string]int // last[name] is the last node that answered yes
	nodes    []benchreport.Node
	answered []*hdrhistogram.Histogram // the latency of a node's yes, no and refused
	won      *hdrhistogram.Histogram   // the latency of the rounds that were won
	lost     int64                     // rounds
}

// NewVotes counts for nodes with these addresses. Shared means that several callers take the lock of
// one name.
func NewVotes(addrs []string, shared bool) *Votes {
	v := &Votes{shared: shared, last: map[string]int{}, won: newHistogram()}
	for _, addr := range addrs {
		answers := map[string]int64{}
		for _, answer := range benchreport.Answers {
			answers[answer] = 0
		}
		v.nodes = append(v.nodes, benchreport.Node{Addr: addr, Answers: answers})
		v.answered = append(v.answered, newHistogram())
	}
	return v
}

// begin counts operations that begin from now on.
func (v *Votes) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.from = time.Now()
}

// countsLocked reports whether to count an operation that ended at some time and took so long.
func (v *Votes) countsLocked(op event.Op, at time.Time, took time.Duration) bool {
	return op == event.OpAcquire && !v.from.IsZero() && at.Sub(v.from) >= took
}

// Observe implements [event.Observer].
func (v *Votes) Observe(e event.Event) {
	switch e := e.(type) {
	case protocol.Vote:
		v.vote(e)
	case protocol.Round:
		v.verdict(e)
	}
}

func (v *Votes) vote(vote protocol.Vote) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.countsLocked(vote.Op, vote.At, vote.Took) {
		return
	}
	v.nodes[vote.Node].Answers[vote.Answer.String()]++
	switch vote.Answer {
	case protocol.AnswerYes:
		v.last[vote.Name] = vote.Node
		fallthrough
	case protocol.AnswerNo, protocol.AnswerRefused:
		record(v.answered[vote.Node], vote.Took)
	}
}

// verdict counts a round. It comes right after the vote that decided.
func (v *Votes) verdict(verdict protocol.Round) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !v.countsLocked(verdict.Op, verdict.At, verdict.Took):
	case verdict.Err != nil:
		v.lost++
	default:
		record(v.won, verdict.Took)
		if !v.shared {
			v.nodes[v.last[verdict.Name]].Decided++
		}
	}
}

// addTo adds what the nodes answered to a result.
func (v *Votes) addTo(r *benchreport.Result) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, node := range v.nodes {
		node.Answers = maps.Clone(node.Answers)
		node.Latency = summary("answer", v.answered[i])
		r.Nodes = append(r.Nodes, node)
	}
	r.Quorum = summary("quorum", v.won)
	r.Won, r.Lost = r.Quorum.Count, v.lost
}
