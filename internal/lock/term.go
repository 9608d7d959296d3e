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
	Renewal *quorum.Renewal // nil while nobody wants the lock renewed
	Tracked bool            // extensions have the nodes announce changes of the key
	leaving bool            // a release is under way, or done
	first   bool            // a first call has won it, and the name had no queue

	name         *Name
	next         *Term // of the name
	to           wire.Receiver
	acquire      *Round          // that has won it, as long as some node may answer; nil if that is not known
	handoff      *quorum.Handoff // nil: the lock is not passed on, and has one number at most
	token        string
	number       uint64              // that the nodes hold with the token; 0: a lock without
	holder       *Want               // what the present one wants
	extensions   *Extend             // the one that is under way; each knows the one that comes when it has ended
	failed       *Extend             // the last that has failed; nil if none has since one has succeeded
	observations map[int]observation // the last of each node that has one
}

// begin takes up what the nodes have granted to a holder. The lock owns a block of numbers.
func (t *Term) begin(n *Name, id form.ID, w *Want, lease quorum.Lease, block uint64, to wire.Receiver) {
	n.began++
	if n.terms != nil && (!w.Kind.Several() || n.began%64 == 0) { // there may be many
		n.prune(n.rules.Clock.Now())
	}
	t.Lease, t.name, t.next, t.to, t.token, t.number, t.holder = lease, n, n.terms, to, id.Token, id.Number, w
	n.terms = t
	if !t.shared() && (n.rules.Pace.Handoff > 0 || block > 1) {
		t.handoff = quorum.NewHandoff(&t.Lease, n.rules.Pace.Handoff, id.Number, block)
	}
	if w.Kept {
		t.Know()
	}
	if w.Renewed {
		t.Renew(t.Start(), w)
	}
}

// ID returns what identifies the lock on the servers.
func (t *Term) ID() form.ID { return form.ID{Key: t.name.key, Token: t.token, Number: t.number} }

// form returns what the lock is on the servers. One that was attached to may have a number where locks are taken without, or none.
func (t *Term) form() form.Form {
	rules := t.name.rules
	if t.shared() {
		return t.holder.form(rules)
	}
	if t.number > 0 {
		return rules.Fenced
	}
	if _, numbered := rules.Form.(form.Numbered); numbered {
		return form.Exclusive{}
	}
	return rules.Form
}

// shared reports whether others may have the lock at the same time.
func (t *Term) shared() bool { return t.holder.Kind.Several() }

// Fence returns the fencing token of the present holder; 0 without fencing.
func (t *Term) Fence() uint64 {
	switch {
	case t.handoff != nil:
		return t.handoff.Fence()
	case t.shared():
		return 0
	}
	return t.number
}

// Acquiring returns who receives the answers to the acquire, if some are to come; nil otherwise.
func (t *Term) Acquiring() wire.Receiver {
	if !t.Asking() {
		return nil
	}
	return t.acquire.to
}

// Know records that a caller knows the token: the lock is no longer passed on.
func (t *Term) Know() {
	if t.handoff != nil {
		t.handoff.Know()
	}
}

// To returns who receives the replies to what the term sends.
func (t *Term) To() wire.Receiver { return t.to }

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
		t.observations = map[int]observation{}
	}
	o := observation{serial: t.observations[node].serial + 1}
	t.observations[node] = o
	cmd := t.form().Look(t.ID())
	cmd.WantsLate = true
	return append(acts, Act{Command: cmd, Tag: wire.Tag{What: Observe, Serial: o.serial, Node: uint16(node)}, To: t.to})
}

// Answered takes the answer to an observation. A late one may overtake the Reply that there was none in time.
func (t *Term) Answered(acts []Act, tag wire.Tag, reply *wire.Reply) []Act {
	rules, node := t.name.rules, int(tag.Node)
	clock, seen := rules.Clock, t.form().Seen(reply)
	answer := seen.Holds(t.token)
	if answer == quorum.Yes && seen.TTL != wire.NoTTL && t.Renewal != nil {
		acts = t.lasts(acts, node, clock.Now(), seen.TTL)
	}
	switch o := t.observations[node]; {
	case tag.Serial == o.serial && !o.ended:
		t.observations[node] = observation{o.serial, true}
		t.Observed(clock, node, answer)
	case reply.Late && t.Late(clock, node, answer):
		acts = t.observe(acts, node)
	}
	return t.shown(acts)
}

// lasts records for how much longer a node holds the key: somebody may have cut its TTL. A renewal under way that the node has not answered
// comes behind that.
func (t *Term) lasts(acts []Act, node int, now time.Time, ttl time.Duration) []Act {
	ends := now.Add(ttl)
	switch e := t.extensions; {
	case !t.Renewing():
		if t.Renewal.Cut(&t.Lease, now, ends) {
			acts = append(acts, Act{What: Renew, To: t.to})
		}
	case e.renews() && e.Answer(node) != quorum.Pending:
		t.Renewal.CutMeanwhile(ends)
	}
	return acts
}

// shown records that an answer has shown something of the lock: it may have ended with that, or the next renewal may come sooner.
func (t *Term) shown(acts []Act) []Act {
	now := t.name.rules.Clock.Now()
	if t.Known() {
		t.acquire = nil
	}
	if t.Renewal != nil && !t.Renewing() && t.Renewal.Sooner(&t.Lease, now) {
		acts = append(acts, Act{What: Renew, To: t.to})
	}
	if t.At(now) != quorum.Held {
		acts = append(acts, Act{What: Over, To: t.to})
	}
	return acts
}

// Left is what a holder's hold leaves when it ends.
type Left uint8

// What can be left.
const (
	Others  Left = iota // other holds of the same holder: nothing is to be done
	None                // no hold: the release is to begin, unless the lock is left to who knows the token
	Nothing             // the hold had ended before, and the release is under way or done
)

// Leave ends a hold. A hold that has ended before may be ended once more if its release had no quorum ([Term.Unsure]).
func (t *Term) Leave(now time.Time, h *quorum.Hold) Left {
	switch {
	case !h.Ended():
		if !h.Leave(now) {
			return Others
		}
	case !h.Current() || t.Holds() > 0 || t.leaving:
		return Nothing
	}
	t.leaving = true
	t.End(now, quorum.Released)
	t.Renewal = nil
	return None
}

// Unsure records that the release had no quorum.
func (t *Term) Unsure() { t.leaving = false }
