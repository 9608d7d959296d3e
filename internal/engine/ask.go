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

// Answer is the answer of a node to a question of [Engine.Observe], [Engine.Attach], [Engine.Remove] or [Engine.Probe].
type Answer struct {
	form.Observation      // after Remove and Probe only its Answer counts
	Kind             Kind // the kind of the lock that was observed
	// Sharers are the holders that share the lock, the one that ends first in front. After Remove they are the holders
	// that were removed.
	Sharers []form.Observation
	// Err is why the Answer is not Yes. If the node has not answered, it is nodeerr.ErrUnanswered or nodeerr.ErrUnneeded.
	Err error
}

// shared records the kind of the lock that an answer shows. It returns true if this is the first answer of the node and
// several share the lock. Then the next question is about its sharers.
func (a *Answer) shared() bool {
	first := !a.Kind.Several()
	if a.Answer == quorum.Yes {
		a.Kind = form.KindOf(a.Value)
	}
	return first && a.Kind.Several()
}

// The holders that share a lock are read in pages. Each page begins with the last holders of the page before, because
// some may leave meanwhile. A node counts once for a holder, however often it names the holder. At most MostSharers are
// read from one node at a time.
const (
	MostSharers = 2048
	overlap     = form.MostSharers / 4
)

// Observe asks all nodes for the value of a key. If several share the lock on a node, Observe asks that node for the
// holders too. A replica only copies the keys of another node, so its answer is the error of code READONLY. If tracked
// is true, the nodes push the next change of the key ([Engine.Watch]).
//
// Like Attach, Remove and Probe, Observe waits for the answers until ctx ends or the Engine is closed.
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
				sharers[i], known[s.Token] = append(sharers[i], s), true
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

// Attach asks all nodes whether they hold a token, in the key itself or among the tokens of its sharers. The lease
// counts from grant.Start. It lasts for longest if the key has no TTL.
func (g *Engine) Attach(
	ctx context.Context, key, token string, grant quorum.Grant, longest time.Duration,
) (attach *lock.Attach, outcome quorum.Outcome, answers []Answer) {
	attach, outcome = lock.NewAttach(len(g.Nodes), form.ID{Key: key, Token: token}, grant, longest), quorum.Undecided
	answers = g.poll(ctx, g.all(g.Form.ObserveMaster(key)), func(
		i int, a *Answer, reply *wire.Reply,
	) (next *wire.Command, enough bool) {
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

// Remove deletes from each node the lock that Observe has seen there, if any. If several share the lock, Remove takes
// out each holder that was seen. Then it deletes the key if no other holder shares it: a holder that came meanwhile
// stays.
//
// The answer of a node is Yes if the node deleted something, with the removed holders as its Sharers. An answer to a
// deletion that is not yes or no counts instead. A node that is not asked gets an Answer with the Err
// nodeerr.ErrUnanswered.
func (g *Engine) Remove(ctx context.Context, key string, seen []Answer) []Answer {
	var all []question
	removals := make([]int, len(seen)) // for each node
	for i := range seen {
		if a := &seen[i]; a.Answer == quorum.Yes && ctx.Err() == nil && g.closing.Err() == nil {
			last := a.Observation
			if a.Kind.Several() {
				last = form.Observation{} // without a token: the key goes if nobody shares it
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
	if e := g.Find(key); e != nil { // so that locks of this process end
		for i := range removed {
			if removed[i].Answer == quorum.Yes {
				e.doLocked(e.Name.Removed(nil, i))
			}
		}
		e.Exit()
	}
	return removed
}

// Bar asks the nodes to let in no further sharers of a key, for 3 seconds. If barred is false, it takes that back. It
// waits for no answer: if a node does not obey, holders may come while others are removed.
func (g *Engine) Bar(key string, barred bool) {
	c := form.Unwant(key, g.Self, form.Demand{Force: true})
	if barred {
		c = form.Want(key, g.Self, form.Demand{Force: true})
	}
	g.cast(c, lock.AllNodes, nil, wire.Tag{})
}

// removal returns the sum of the answers of a node. Each sharer has one answer, and the last answer is about the key.
// An answer that is not yes or no prevails over all others, and a yes prevails over a no.
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
	answers = g.poll(ctx, g.all(form.Probe(prefix, g.Self, numbered)), func(
		_ int, a *Answer, _ *wire.Reply,
	) (next *wire.Command, enough bool) {
		if a.Answer == quorum.Yes {
			yes++
		}
		return nil, yes >= need
	})
	return yes >= need, answers
}

// question is a command for one node.
type question struct {
	node int
	cmd  *wire.Command
}

// all returns a question for each node, with the same command.
func (g *Engine) all(cmd *wire.Command) []question {
	all := make([]question, len(g.Nodes))
	for i := range all {
		all[i] = question{i, cmd}
	}
	return all
}

// received is the channel for the replies to questions. It has room for one reply to each.
type received chan reply

type reply struct {
	question int
	wire.Reply
}

// Reply sends the answer to a question to the channel. It implements [wire.Receiver].
func (r received) Reply(tag wire.Tag, answer *wire.Reply) { r <- reply{int(tag.Serial), *answer} }

// ask sends the i-th question to its node. If the node does not accept it, ask itself passes the reply to the receiver
// to.
func (g *Engine) ask(since time.Time, i int, q question, to received) {
	tag := wire.Tag{Serial: uint32(i), Node: uint16(q.node)} //nolint:gosec // there are few questions and nodes
	if err := g.Nodes[q.node].Send(since, q.cmd, to, tag); err != nil {
		to.Reply(tag, wire.Unsent(err))
	}
}

// poll sends questions, and waits for the answers. It calls check with each answer. If check returns a next command,
// poll sends it to the same node, and its answer takes the place of the present one. If check returns true, the answers
// are enough. Without check, poll waits for all answers.
func (g *Engine) poll(
	ctx context.Context, questions []question, check func(int, *Answer, *wire.Reply) (next *wire.Command, enough bool),
) []Answer {
	replies, since := make(received, len(questions)), time.Now()
	in := inquiry{
		engine: g, answers: make([]Answer, len(questions)), servers: make([]string, len(g.Nodes)),
		answered: make(map[int]bool),
	}
	for i, q := range questions {
		in.answers[i].Err = nodeerr.ErrUnanswered
		g.ask(since, i, q, replies)
	}
	for open := len(questions); open > 0; open-- {
		select {
		case r := <-replies:
			node := questions[r.question].node
			a := in.count(node, &r)
			if check == nil {
				continue
			}
			next, enough := check(r.question, a, &r.Reply)
			if enough {
				in.close()
				return in.answers
			}
			if next != nil {
				*a = Answer{Kind: a.Kind, Err: nodeerr.ErrUnanswered}
				g.ask(time.Now(), r.question, question{node, next}, replies)
				open++
			}
		case <-ctx.Done():
			return in.answers
		case <-g.closing.Done():
			return in.answers
		}
	}
	return in.answers
}

// inquiry is the state of a poll.
type inquiry struct {
	engine   *Engine
	answers  []Answer     // the answer to each question
	servers  []string     // the identity of the server of each node, or "" while it is not known
	answered map[int]bool // the nodes that have said yes or no
}

// count records the reply of a node as the answer to its question, and returns that answer. If another node is the same
// server, the reply becomes a refusal.
func (in *inquiry) count(node int, r *reply) *Answer {
	g := in.engine
	twin := slices.Index(in.servers, r.Server)
	if r.Server != "" && r.Server != in.servers[node] && twin >= 0 {
		r.Reply = wire.Reply{Answer: quorum.Refused, Err: fmt.Errorf("%w %s", nodeerr.ErrSameServer, g.Nodes[twin].Addr())}
	}
	in.servers[node] = cmp.Or(r.Server, in.servers[node])
	a := &in.answers[r.question]
	a.Observation, a.Err = g.FormOf(a.Kind, 0).Shows(&r.Reply), r.Err
	if a.known() {
		if in.answered[node] = true; len(in.answered) >= quorum.Majority(len(g.Nodes)) {
			g.serves()
		}
	}
	return a
}

// close records that the missing answers are not needed.
func (in *inquiry) close() {
	for i := range in.answers {
		if errors.Is(in.answers[i].Err, nodeerr.ErrUnanswered) {
			in.answers[i].Err = nodeerr.ErrUnneeded
		}
	}
}

// known reports whether the node has said yes or no.
func (a *Answer) known() bool { return a.Answer == quorum.Yes || a.Answer == quorum.No }
