package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// client is one party of the story, with connections and a Locker of its own as if
// it were another program.
type client struct {
	name   string
	nodes  []*pool.Node
	locker *redlock.Locker
	seen   *recorder
	lock   *redlock.Lock // what it has to give back
	asked  int           // how many nodes the acquire of lock went to
}

// The pauses of a Lock that waits: long enough for each attempt to be seen.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

func newClient(name string, servers servers, ttl, timeout time.Duration) (*client, error) {
	nodes, err := servers.connect(pool.WithTimeout(timeout), pool.WithClientName("redlock-demo"))
	if err != nil {
		return nil, err
	}
	seen := &recorder{n: len(nodes), news: make(chan struct{}, 1)}
	locker, err := redlock.New(nodes,
		redlock.WithTTL(ttl), redlock.WithObserver(seen), redlock.WithBackoff(firstPause, mostPause))
	if err != nil {
		closeNodes(nodes)
		return nil, err
	}
	return &client{name: name, nodes: nodes, locker: locker, seen: seen}, nil
}

// close gives back what the client still holds, and ends it.
func (c *client) close() error {
	var err error
	if c.lock != nil {
		err = c.lock.Unlock(context.Background())
		if errors.Is(err, redlock.ErrNotHeld) { // it is over, which is all that is wanted here
			err = nil
		}
	}
	err = errors.Join(err, c.locker.Close())
	for _, node := range c.nodes {
		err = errors.Join(err, node.Close())
	}
	return err
}

// round is what was seen of one question to all nodes.
type round struct {
	votes   []*redlock.Vote // votes[i] is node i's; nil: it was not asked, or has not answered
	verdict *redlock.Verdict
}

func (r *round) answers() int {
	n := 0
	for _, vote := range r.votes {
		if vote != nil {
			n++
		}
	}
	return n
}

// with returns the nodes that gave one of the answers.
func (r *round) with(answers ...pool.Answer) []int {
	var nodes []int
	for i, vote := range r.votes {
		if vote != nil && slices.Contains(answers, vote.Answer) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// recorder is the Observer of one client. It puts votes and verdicts together to
// rounds: each round asks a node once, and a node's answers keep their order.
type recorder struct {
	n    int           // how many nodes there are
	news chan struct{} // something was seen

	mu     sync.Mutex
	op     string // what is looked at
	rounds []*round
}

// watch forgets what was seen, and looks at op from now on.
func (r *recorder) watch(op string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.op, r.rounds = op, nil
}

// Vote implements [redlock.Observer].
func (r *recorder) Vote(vote redlock.Vote) {
	r.note(vote.Op, func(seen *round) bool {
		if seen.votes[vote.Node] != nil {
			return false
		}
		seen.votes[vote.Node] = &vote
		return true
	})
}

// Verdict implements [redlock.Observer].
func (r *recorder) Verdict(verdict redlock.Verdict) {
	r.note(verdict.Op, func(seen *round) bool {
		if seen.verdict != nil {
			return false
		}
		seen.verdict = &verdict
		return true
	})
}

// note offers something to the rounds, oldest first, until one takes it.
func (r *recorder) note(op string, take func(*round) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if op != r.op {
		return
	}
	for i := 0; ; i++ {
		if i == len(r.rounds) {
			r.rounds = append(r.rounds, &round{votes: make([]*redlock.Vote, r.n)})
		}
		if take(r.rounds[i]) {
			break
		}
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// wait returns the i-th round since watch, once its verdict and the answers of as
// many nodes as were asked are there.
func (r *recorder) wait(ctx context.Context, i, asked int) (*round, error) {
	for {
		if seen := r.complete(i, asked); seen != nil {
			return seen, nil
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the votes: %w", ctx.Err())
		}
	}
}

// complete returns the i-th round, which nobody changes any more, or nil.
func (r *recorder) complete(i, asked int) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i < len(r.rounds) && r.rounds[i].verdict != nil && r.rounds[i].answers() >= asked {
		return r.rounds[i]
	}
	return nil
}
