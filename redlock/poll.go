package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// poll is one question to every node.
type poll struct {
	locker *Locker
	look   func(node int, reply *pool.Reply) (enough bool)
	done   chan struct{}

	mu      sync.Mutex
	answers []pool.Reply // by node
	servers []string     // that have answered, by node; "" where unknown
	missing int
	over    bool
}

// poll asks all nodes. look is shown each answer, and may change it; nil: all are waited for.
func (l *Locker) poll(cmd *pool.Command, look func(int, *pool.Reply) bool) *poll {
	n := len(l.nodes)
	p := &poll{locker: l, look: look, done: make(chan struct{}), answers: make([]pool.Reply, n), servers: make([]string, n), missing: n}
	since := time.Now()
	for i, node := range l.nodes {
		node.Send(since, cmd, p, i)
	}
	return p
}

// Reply implements [pool.Receiver].
func (p *poll) Reply(node int, _ *pool.Command, reply pool.Reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	for i, server := range p.servers {
		if server != "" && server == reply.Server {
			reply = pool.Reply{Answer: pool.Refused, Err: fmt.Errorf("%w %s", ErrSameServer, p.locker.nodes[i].Addr())}
		}
	}
	p.servers[node] = reply.Server
	enough := p.look != nil && p.look(node, &reply)
	p.answers[node] = reply
	p.missing--
	if enough || p.missing == 0 {
		p.over = true
		close(p.done)
	}
}

// wait returns when all have answered or enough have; an error says that it was given up.
func (p *poll) wait(ctx context.Context) (err error) {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.locker.closing.Done():
		err = ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil
	}
	p.over = true
	return err
}

// replies returns the answers, by node: ErrPending for those that are missing.
func (p *poll) replies() []pool.Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.repliesLocked()
}

func (p *poll) repliesLocked() []pool.Reply {
	for i := range p.answers {
		if a := &p.answers[i]; a.Answer == 0 {
			a.Err = ErrPending
		}
	}
	return p.answers
}

func (p *poll) count(answer pool.Answer) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.countLocked(answer)
}

func (p *poll) countLocked(answer pool.Answer) (n int) {
	for _, a := range p.repliesLocked() {
		if a.Answer == answer {
			n++
		}
	}
	return n
}

// refused is the error of a question that a majority has not answered as hoped for. err is that of wait.
func (p *poll) refused(ctx context.Context, err error, op, name string, reason error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusedLocked(ctx, err, op, name, reason)
}

func (p *poll) refusedLocked(ctx context.Context, err error, op, name string, reason error) error {
	nodes := p.locker.nodes
	e := &QuorumError{Op: op, Name: name, Need: quorum.Majority(len(nodes)), Reason: reason}
	for i, a := range p.repliesLocked() {
		e.Nodes = append(e.Nodes, NodeError{Addr: nodes[i].Addr(), Err: a.Err})
	}
	switch {
	case err == nil:
		return e
	case ctx.Err() != nil:
		return interrupted(ctx, e)
	default:
		return err
	}
}
