package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Term is a lock that the nodes have granted, until nothing is left of it. It is in the hands of one holder after the other. It is
// made in place, and must not be copied.
type Term struct {
	quorum.Lease
	quorum.Handoff
	Renewal *quorum.Renewal // nil while nobody wants the lock renewed
	Tracked bool            // extensions have the nodes announce changes of the key

	name         *Name
	next         *Term // of the name
	to           wire.Receiver
	form         form.Form
	mark         form.Mark
	holder       *Want         // what the present one wants
	leaving      bool          // a release is under way, or done
	extensions   []*Extend     // the one that is under way, and those that come when it has ended
	observations []observation // the last of each node; nil before the first
}

// begin takes up what the nodes have granted to a holder. They keep a lock with a number in the form Fenced, also if it was attached
// to by who takes locks without. The lock owns a block of numbers.
func (t *Term) begin(n *Name, m form.Mark, w *Want, lease quorum.Lease, block uint64, to wire.Receiver) {
	if n.terms != nil {
		n.prune(n.rules.Clock.Now())
	}
	t.Lease, t.name, t.next, t.to, t.form, t.mark, t.holder = lease, n, n.terms, to, form.Exclusive{}, m, w
	n.terms = t
	if m.Number > 0 {
		t.form = n.rules.Fenced
	}
	t.Handoff = quorum.NewHandoff(&t.Lease, n.rules.Pace.Handoff, m.Number, block)
	if w.OwnToken { // somebody else may know it
		t.Know()
	}
	if w.Renewed {
		t.Renew(t.Start(), w)
	}
}

// Mark returns what the lock has on the servers.
func (t *Term) Mark() form.Mark { return t.mark }

// To returns who receives the replies to what the term sends.
func (t *Term) To() wire.Receiver { return t.to }

func (t *Term) release(acts []Act, r *Release, now time.Time, to wire.Receiver) []Act {
	r.Round = Round{machine: r.votes.Begin(&t.Lease, now), form: t.form, mark: t.mark, grant: quorum.Grant{Start: now}, to: to}
	t.form.Release(&r.command, t.mark, t.Longest())
	return r.send(acts, time.Time{})
}

func (t *Term) cleanUp(acts []Act, now time.Time) []Act {
	if !t.Leftovers(now) {
		return acts
	}
	release := new(wire.Command)
	t.form.Release(release, t.mark, t.Longest())
	for i := range t.Nodes() {
		if t.Reached(i) {
			acts = append(acts, Act{Command: release, Tag: wire.Tag{What: Forgotten, Node: uint16(i)}})
		}
	}
	return acts
}

// observation is the last of a node. The answer of one before it can only be late.
type observation struct {
	serial uint32
	ended  bool // the lease has taken the answer, or that there was none in time
}

// Changed takes the announcement of a node that the key may have changed: it is observed, unless an answer is under way that will
// show it.
func (t *Term) Changed(acts []Act, node int) []Act {
	if t.Invalidated(t.name.rules.Clock, node) {
		return t.observe(acts, node)
	}
	return acts
}

func (t *Term) observe(acts []Act, node int) []Act {
	if t.observations == nil {
		t.observations = make([]observation, t.Nodes())
	}
	o := &t.observations[node]
	o.serial, o.ended = o.serial+1, false
	cmd := form.Observe(t.mark.Key)
	cmd.WantsLate = true
	return append(acts, Act{Command: cmd, Tag: wire.Tag{What: Observe, Serial: o.serial, Node: uint16(node)}, To: t.to})
}

// Answered takes the answer to an observation. A late one may overtake the Reply that there was none in time.
func (t *Term) Answered(acts []Act, tag wire.Tag, reply wire.Reply) []Act {
	rules, node := t.name.rules, int(tag.Node)
	clock, answer := rules.Clock, rules.Form.Seen(reply).Holds(t.mark.Token)
	switch o := &t.observations[node]; {
	case tag.Serial == o.serial && !o.ended:
		o.ended = true
		t.Observed(clock, node, answer)
	case reply.Late && t.Late(clock, node, answer):
		acts = t.observe(acts, node)
	}
	return t.shown(acts)
}

// shown takes it that an answer has shown something of the lock: it may have ended with that, or the next renewal may come sooner.
func (t *Term) shown(acts []Act) []Act {
	now := t.name.rules.Clock.Now()
	if t.Renewal != nil && !t.Renewing() && t.Renewal.Sooner(now) {
		acts = append(acts, Act{What: Renew, To: t.to})
	}
	if t.At(now) != quorum.Held {
		acts = append(acts, Act{What: Over, To: t.to})
	}
	return acts
}
