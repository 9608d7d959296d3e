package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// answers receives the replies to one question, one from each node, and has room for all.
type answers chan answer

type answer struct {
	node  int
	reply wire.Reply
}

// Reply implements [wire.Receiver].
func (a answers) Reply(tag wire.Tag, reply wire.Reply) { a <- answer{int(tag.Node), reply} }

// send sends a command to the node of the tag. A node that does not take it has answered at once.
func (l *Locker) send(since time.Time, cmd *wire.Command, to wire.Receiver, tag wire.Tag) {
	if err := l.nodes[tag.Node].Send(since, cmd, to, tag); err != nil {
		to.Reply(tag, wire.Reply{Answer: quorum.Unsent, Err: err})
	}
}

// all is a command for each node.
func (l *Locker) all(cmd *wire.Command) []*wire.Command {
	return slices.Repeat([]*wire.Command{cmd}, len(l.nodes))
}

// poll sends commands[i] to node i, unless it is nil, and waits for the answers, until ctx ends or the Locker is closed.
// replies[i] is that of node i, with the error nodeerr.ErrPending if there is none. check is passed each answer, may change it, and
// reports whether the answers are enough. If check is nil, poll waits for all.
func (l *Locker) poll(ctx context.Context, commands []*wire.Command, check func(int, *wire.Reply) bool) (replies []wire.Reply) {
	received := make(answers, len(l.nodes))
	answered := 0
	replies = make([]wire.Reply, len(l.nodes))
	since, asked := time.Now(), 0
	for i, cmd := range commands {
		replies[i].Err = nodeerr.ErrPending
		if cmd != nil {
			asked++
			l.send(since, cmd, received, wire.Tag{Node: uint16(i)})
		}
	}
	for range asked {
		select {
		case a := <-received:
			for j, other := range replies {
				if other.Server != "" && other.Server == a.reply.Server {
					a.reply = wire.Reply{Answer: quorum.Refused, Err: fmt.Errorf("%w %s", nodeerr.ErrSameServer, l.nodes[j].Addr())}
				}
			}
			if a.reply.Answer == quorum.Yes || a.reply.Answer == quorum.No {
				if answered++; answered >= quorum.Majority(len(l.nodes)) {
					l.served.Store(true)
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
func count(replies []wire.Reply, answer quorum.Answer) (n int) {
	for _, r := range replies {
		if r.Answer == answer {
			n++
		}
	}
	return n
}

// foreign counts the nodes that hold data of another program.
func foreign(replies []wire.Reply) (n int) {
	for _, r := range replies {
		if errors.Is(r.Err, nodeerr.ErrForeign) {
			n++
		}
	}
	return n
}

// unanswered is the error of a question that a majority has not answered as needed.
func (l *Locker) unanswered(ctx context.Context, op event.Op, name string, reason error, replies []wire.Reply) error {
	return l.refused(ctx, l.refusal(op, name, reason, func(i int) error { return replies[i].Err }))
}
