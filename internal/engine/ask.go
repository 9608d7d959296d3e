package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Answer is what a node has answered to a question of [Engine.Observe], [Engine.Remove] or [Engine.Probe].
type Answer struct {
	form.Observation                    // of an observation; of the others the Answer alone
	Kind             Kind               // of the lock that was seen
	Sharers          []form.Observation // who shares the lock that was seen, the one that ends first in front, or was removed from it
	Err              error              // why the Answer is not Yes; nodeerr.ErrUnanswered or ErrUnneeded if there is none
}

// shared takes the first answer of a node, and reports whether it shows a lock that several share: who does is the next question.
func (a *Answer) shared() bool {
	first := !a.Kind.Several()
	if a.Answer == quorum.Yes {
		a.Kind = form.KindOf(a.Value)
	}
	return first && a.Kind.Several()
}

// Those who share a lock are read in pages, each of which shows the last of the one before again, as some may leave meanwhile. Of one
// node MostSharers are read at most.
const (
	MostSharers = 2048
	overlap     = form.MostSharers / 4
)

// Observe asks all nodes what a key holds, and those where several share the lock, who does. A replica, which holds what another node
// does, has the error of code READONLY. If it is tracked, nodes push the next change ([Engine.Watch]).
//
// Like the others it waits for the answers, until ctx ends or the Engine is closed.
func (g *Engine) Observe(ctx context.Context, key string, tracked bool) []Answer {
	sharers, skip := make([][]form.Observation, len(g.Nodes)), make([]int, len(g.Nodes))
	first := g.Form.ObserveMaster(key)
	first.Tracked = tracked
	return g.poll(ctx, g.all(first), func(i int, a *Answer, reply *wire.Reply) (next *wire.Command, enough bool) {
		if a.shared() {
			return form.Shared{Kind: a.Kind}.Sharers(key, 0), false
		}
		if !a.Kind.Several() || a.Answer != quorum.Yes {
			return nil, false
		}
		known := map[string]bool{}
		for _, s := range sharers[i] {
			known[s.Token] = true
		}
		for n := range reply.Each {
			if s := (form.Shared{}).Shows(&reply.Each[n]); !known[s.Token] && len(sharers[i]) < MostSharers {
				sharers[i] = append(sharers[i], s)
			}
		}
		if len(reply.Each) == form.MostSharers && len(sharers[i]) < MostSharers && skip[i] < MostSharers {
			skip[i] += form.MostSharers - overlap
			return form.Shared{Kind: a.Kind}.Sharers(key, skip[i]), false
		}
		a.Sharers = sharers[i]
		return nil, false
	})
}

// Attach asks all nodes whether they hold a token, alone or among those who share the lock, for a lease that counts from grant.Start. The
// lease lasts for longest if the key has no TTL.
func (g *Engine) Attach(
	ctx context.Context, key, token string, grant quorum.Grant, longest time.Duration,
) (attach *lock.Attach, outcome quorum.Outcome, answers []Answer) {
	attach, outcome = lock.NewAttach(len(g.Nodes), form.ID{Key: key, Token: token}, grant, longest), quorum.Undecided
	answers = g.poll(ctx, g.all(g.Form.ObserveMaster(key)), func(i int, a *Answer, reply *wire.Reply) (next *wire.Command, enough bool) {
		if next, outcome = attach.Observed(g.Clock, i, a.Observation, reply.Server); next != nil {
			a.Kind = form.KindOf(a.Value)
			return next, false
		}
		if a.Answer == quorum.Yes && a.Token != token {
			a.Answer, a.Err = quorum.No, nodeerr.ErrHeld
		}
		return nil, outcome != quorum.Undecided
	})
	if outcome == quorum.Undecided {
		outcome = quorum.NoQuorum
	}
	return attach, outcome, answers
}

// Remove deletes on each node what Observe has seen there, if anything. Of those who share a lock it removes each one that was seen, and at
// last the key if nobody shares it: who has come since stays. The answer is Yes if any was there, and has the Sharers that were. The answer
// of a node that is not asked is not there.
func (g *Engine) Remove(ctx context.Context, key string, seen []Answer) []Answer {
	var all []question
	removals := make([]int, len(seen)) // of each node
	for i := range seen {
		if a := &seen[i]; a.Answer == quorum.Yes && ctx.Err() == nil && g.closing.Err() == nil {
			last := a.Observation
			if a.Kind.Several() {
				last = form.Observation{} // nobody's
			}
			for _, s := range append(slices.Clip(a.Sharers), last) {
				c := new(wire.Command)
				g.FormOf(a.Kind, 0).Remove(c, key, s)
				all = append(all, question{i, c})
				removals[i]++
			}
		}
	}
	answers, removed := g.poll(ctx, all, nil), make([]Answer, len(seen))
	for i, n := range removals {
		removed[i].Err = nodeerr.ErrUnanswered
		if n > 0 {
			removed[i] = removal(seen[i].Sharers, answers[:n])
		}
		answers = answers[n:]
	}
	return removed
}

// removal is what the answers of a node come to: one about each of those who share the lock, and the last about the key.
func removal(sharers []form.Observation, answers []Answer) Answer {
	sum := answers[len(answers)-1]
	var gone []form.Observation
	for i, a := range answers {
		if sum.known() && (a.Answer == quorum.Yes || !a.known()) {
			sum = a
		}
		if a.Answer == quorum.Yes && i < len(sharers) {
			gone = append(gone, sharers[i])
		}
	}
	sum.Sharers = gone
	return sum
}

// Probe reports whether a majority of the nodes would grant a lock whose key has a prefix.
func (g *Engine) Probe(ctx context.Context, prefix string) (would bool, answers []Answer) {
	yes, need := 0, quorum.Majority(len(g.Nodes))
	_, numbered := g.Form.(form.Numbered)
	answers = g.poll(ctx, g.all(form.Probe(prefix, g.Self, numbered)), func(_ int, a *Answer, _ *wire.Reply) (next *wire.Command, enough bool) {
		if a.Answer == quorum.Yes {
			yes++
		}
		return nil, yes >= need
	})
	return yes >= need, answers
}

// question is what one node is asked.
type question struct {
	node int
	cmd  *wire.Command
}

// all asks every node the same.
func (g *Engine) all(cmd *wire.Command) []question {
	all := make([]question, len(g.Nodes))
	for i := range all {
		all[i] = question{i, cmd}
	}
	return all
}

// received takes the replies to questions, and has room for one to each.
type received chan reply

type reply struct {
	question int
	wire.Reply
}

// Reply implements [wire.Receiver].
func (r received) Reply(tag wire.Tag, answer *wire.Reply) { r <- reply{int(tag.Serial), *answer} }

func (g *Engine) ask(since time.Time, i int, q question, to received) {
	tag := wire.Tag{Serial: uint32(i), Node: uint16(q.node)} //nolint:gosec // these are few
	if err := g.Nodes[q.node].Send(since, q.cmd, to, tag); err != nil {
		to.Reply(tag, wire.Unsent(err))
	}
}

// poll asks questions, and waits for the answers. check is passed each, and returns what the node is asked next in the place of that question,
// or true if the answers are enough; nil waits for all.
func (g *Engine) poll(ctx context.Context, questions []question, check func(int, *Answer, *wire.Reply) (next *wire.Command, enough bool)) []Answer {
	replies := make(received, len(questions))
	answers, servers, answered := make([]Answer, len(questions)), make([]string, len(g.Nodes)), map[int]bool{}
	since := time.Now()
	for i, q := range questions {
		answers[i].Err = nodeerr.ErrUnanswered
		g.ask(since, i, q, replies)
	}
	for open := len(questions); open > 0; open-- {
		select {
		case r := <-replies:
			node := questions[r.question].node
			twin := slices.Index(servers, r.Server)
			if r.Server != "" && r.Server != servers[node] && twin >= 0 {
				r.Reply = wire.Reply{Answer: quorum.Refused, Err: fmt.Errorf("%w %s", nodeerr.ErrSameServer, g.Nodes[twin].Addr())}
			}
			servers[node] = cmp.Or(r.Server, servers[node])
			a := &answers[r.question]
			a.Observation, a.Err = g.FormOf(a.Kind, 0).Shows(&r.Reply), r.Err
			if a.known() {
				if answered[node] = true; len(answered) >= quorum.Majority(len(g.Nodes)) {
					g.serves()
				}
			}
			if check == nil {
				continue
			}
			next, enough := check(r.question, a, &r.Reply)
			if enough {
				for i := range answers {
					if errors.Is(answers[i].Err, nodeerr.ErrUnanswered) {
						answers[i].Err = nodeerr.ErrUnneeded
					}
				}
				return answers
			}
			if next != nil {
				*a = Answer{Kind: a.Kind, Err: nodeerr.ErrUnanswered}
				g.ask(time.Now(), r.question, question{node, next}, replies)
				open++
			}
		case <-ctx.Done():
			return answers
		case <-g.closing.Done():
			return answers
		}
	}
	return answers
}

// known reports whether the node has said yes or no.
func (a *Answer) known() bool { return a.Answer == quorum.Yes || a.Answer == quorum.No }
