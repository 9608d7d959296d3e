package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Answer is what a node has answered to a question of [Engine.Observe], [Engine.Remove] or [Engine.Probe].
type Answer struct {
	form.Seen       // of an observation; of the others the Answer alone
	Err       error // why the Answer is not Yes; nodeerr.ErrPending if there was none in time
}

// Observe asks all nodes what a key holds. A replica, which holds what another node does, has the error of code READONLY.
//
// Like the others it waits for the answers, until ctx ends or the Engine is closed.
func (g *Engine) Observe(ctx context.Context, key string) []Answer {
	return g.poll(ctx, g.all(g.Form.ObserveMaster(key)), nil)
}

// LeaseOf asks all nodes whether they hold a token, for a lease that counts from grant.Start. The lease lasts for longest if the key has
// no TTL. It is granted, with the number that the nodes hold, if the outcome is Done.
func (g *Engine) LeaseOf(
	ctx context.Context, key, token string, grant quorum.Grant, longest time.Duration,
) (outcome quorum.Outcome, lease quorum.Lease, number uint64, answers []Answer) {
	machine := quorum.NewAttach(len(g.Nodes), grant)
	outcome = quorum.Undecided
	answers = g.poll(ctx, g.all(g.Form.ObserveMaster(key)), func(node int, a *Answer, reply *wire.Reply) bool {
		held := a.Holds(token)
		if held == quorum.No && a.Answer == quorum.Yes {
			a.Answer, a.Err = quorum.No, nodeerr.ErrHeld
		}
		ttl := a.TTL
		if ttl == wire.NoTTL {
			ttl = longest
		}
		outcome = machine.Observed(g.Clock, node, held, a.Number, ttl, reply.Server).Outcome
		return outcome != quorum.Undecided
	})
	if outcome == quorum.Undecided {
		outcome = quorum.NoQuorum
	}
	if outcome == quorum.Done {
		lease = machine.Lease(longest)
	}
	return outcome, lease, machine.Fence(), answers
}

// Remove deletes on each node what Observe has seen there, if anything. The answer of a node that is not asked is not there.
func (g *Engine) Remove(ctx context.Context, key string, seen []Answer) []Answer {
	deletions := make([]*wire.Command, len(g.Nodes))
	if ctx.Err() == nil && g.closing.Err() == nil {
		for i, a := range seen {
			if a.Answer == quorum.Yes {
				deletions[i] = new(wire.Command)
				g.Form.Remove(deletions[i], key, a.Seen)
			}
		}
	}
	return g.poll(ctx, deletions, nil)
}

// Probe reports whether a majority of the nodes would grant a lock whose key has a prefix.
func (g *Engine) Probe(ctx context.Context, prefix string) (would bool, answers []Answer) {
	yes, need := 0, quorum.Majority(len(g.Nodes))
	answers = g.poll(ctx, g.all(form.Probe(prefix, g.Self)), func(_ int, a *Answer, _ *wire.Reply) bool {
		if a.Answer == quorum.Yes {
			yes++
		}
		return yes >= need
	})
	return yes >= need, answers
}

// all is a command for each node.
func (g *Engine) all(cmd *wire.Command) []*wire.Command {
	return slices.Repeat([]*wire.Command{cmd}, len(g.Nodes))
}

// received takes the replies to one question, one from each node, and has room for all.
type received chan reply

type reply struct {
	node int
	wire.Reply
}

// Reply implements [wire.Receiver].
func (r received) Reply(tag wire.Tag, answer *wire.Reply) { r <- reply{int(tag.Node), *answer} }

// poll sends commands[i] to node i, unless it is nil, and waits for the answers. check is passed each, and returns true if they are
// enough; nil waits for all.
func (g *Engine) poll(ctx context.Context, commands []*wire.Command, check func(int, *Answer, *wire.Reply) (enough bool)) []Answer {
	replies := make(received, len(g.Nodes))
	answers, servers := make([]Answer, len(g.Nodes)), make([]string, len(g.Nodes))
	since, asked, answered := time.Now(), 0, 0
	for i, cmd := range commands {
		answers[i].Err = nodeerr.ErrPending
		if cmd == nil {
			continue
		}
		asked++
		tag := wire.Tag{Node: uint16(i)}
		if err := g.Nodes[i].Send(since, cmd, replies, tag); err != nil {
			replies.Reply(tag, wire.Unsent(err))
		}
	}
	for range asked {
		select {
		case r := <-replies:
			if twin := slices.Index(servers, r.Server); r.Server != "" && twin >= 0 {
				r.Reply = wire.Reply{Answer: quorum.Refused, Err: fmt.Errorf("%w %s", nodeerr.ErrSameServer, g.Nodes[twin].Addr())}
			}
			servers[r.node] = r.Server
			if r.Answer == quorum.Yes || r.Answer == quorum.No {
				if answered++; answered >= quorum.Majority(len(g.Nodes)) {
					g.serves()
				}
			}
			a := &answers[r.node]
			*a = Answer{g.Form.Seen(&r.Reply), r.Err}
			if check != nil && check(r.node, a, &r.Reply) {
				return answers
			}
		case <-ctx.Done():
			return answers
		case <-g.closing.Done():
			return answers
		}
	}
	return answers
}
