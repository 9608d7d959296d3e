package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// poll is one question to every node, about the lock of one name.
type poll struct {
	locker *Locker
	op     Op
	name   string
	check  func(node int, reply *node.Reply) (enough bool)
	done   chan struct{} // closed once all nodes have answered or enough have

	mu      sync.Mutex
	over    bool         // from then on nothing changes
	replies []node.Reply // by node; with the error ErrPending if there is none
	missing int
}

// poll asks all nodes and waits for their answers. check is passed each answer, may change it, and reports whether the
// answers are enough. If check is nil, poll waits for all. The error is why it gave up before.
func (l *Locker) poll(ctx context.Context, op Op, name string, cmd *node.Command, check func(int, *node.Reply) bool) (*poll, error) {
	n := len(l.nodes)
	p := &poll{
		locker: l, op: op, name: name, check: check, done: make(chan struct{}), replies: make([]node.Reply, n), missing: n,
	}
	for i := range p.replies {
		p.replies[i].Err = ErrPending
	}
	since := time.Now()
	for i, n := range l.nodes {
		n.Send(since, cmd, p, i)
	}
	var err error
	select {
	case <-p.done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.closing.Done():
		err = ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return p, nil
	}
	p.over = true
	return p, err
}

// Reply implements [node.Receiver].
func (p *poll) Reply(i int, reply node.Reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	for j, other := range p.replies {
		if other.Server != "" && other.Server == reply.Server {
			reply = node.Reply{Answer: quorum.Refused, Err: fmt.Errorf("%w %s", ErrSameServer, p.locker.nodes[j].Addr())}
		}
	}
	enough := p.check != nil && p.check(i, &reply)
	p.replies[i] = reply
	p.missing--
	if enough || p.missing == 0 {
		p.over = true
		close(p.done)
	}
}

// count counts the nodes that gave an answer.
func (p *poll) count(answer quorum.Answer) (n int) {
	for _, r := range p.replies {
		if r.Answer == answer {
			n++
		}
	}
	return n
}

// refused is the error of a question that a majority has not answered as needed. err is that of poll.
func (p *poll) refused(ctx context.Context, err, reason error) error {
	e := p.locker.refusal(p.op, p.name, reason, func(i int) error { return p.replies[i].Err })
	switch {
	case err == nil:
		return e
	case ctx.Err() != nil:
		return interrupted(ctx, e)
	default:
		return err
	}
}
