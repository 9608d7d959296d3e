package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// answers receives the replies to one question, one from each node, and has room for all.
type answers chan answer

type answer struct {
	node  int
	reply node.Reply
}

// Reply implements [node.Receiver].
func (a answers) Reply(i int, reply node.Reply) { a <- answer{i, reply} }

// poll asks all nodes and waits for their answers, until ctx ends or the Locker is closed. replies[i] is that of node i,
// with the error ErrPending if there is none. check is passed each answer, may change it, and reports whether the answers
// are enough. If check is nil, poll waits for all.
func (l *Locker) poll(ctx context.Context, cmd *node.Command, check func(int, *node.Reply) bool) (replies []node.Reply) {
	received := make(answers, len(l.nodes))
	replies = make([]node.Reply, len(l.nodes))
	since := time.Now()
	for i, n := range l.nodes {
		replies[i].Err = ErrPending
		n.Send(since, cmd, received, i)
	}
	for range l.nodes {
		select {
		case a := <-received:
			for j, other := range replies {
				if other.Server != "" && other.Server == a.reply.Server {
					a.reply = node.Reply{Answer: quorum.Refused, Err: fmt.Errorf("%w %s", ErrSameServer, l.nodes[j].Addr())}
				}
			}
			enough := check != nil && check(a.node, &a.reply)
			replies[a.node] = a.reply
			if enough {
				return replies
			}
		case <-ctx.Done():
			return replies
		case <-l.closing.Done():
			return replies
		}
	}
	return replies
}

// count counts the nodes that gave an answer.
func count(replies []node.Reply, answer quorum.Answer) (n int) {
	for _, r := range replies {
		if r.Answer == answer {
			n++
		}
	}
	return n
}

// unanswered is the error of a question that a majority has not answered as needed.
func (l *Locker) unanswered(ctx context.Context, op Op, name string, reason error, replies []node.Reply) error {
	return l.refused(ctx, l.refusal(op, name, reason, func(i int) error { return replies[i].Err }))
}
