package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Lease is a lock that the nodes have granted, until nothing is left of it. It is in the hands of one holder after the other. It is
// made in place, and must not be copied.
type Lease struct {
	quorum.Lease
	Renewal *quorum.Renewal // nil while nobody wants the lock renewed
	Tracked bool            // extensions have the nodes announce changes of the key
	leaving bool            // a release is under way, or done
	first   bool            // a first call has won it, and the name had no queue

	name       *Name
	next       *Lease // of the name
	to         wire.Receiver
	acquire    *Round          // that has won it, as long as some node may answer; nil if that is not known
	handoff    *quorum.Handoff // nil: the lock is not handed off, and has one number at most
	token      string
	number     uint64       // that the nodes hold with the token; 0: a lock without
	holder     *Want        // what the present one wants
	extensions *Extend      // the one that is under way; each knows the one that comes when it has ended
	failed     *Extend      // the last that has failed; nil if none has since one has succeeded
	looks      map[int]look // the last of each node that has one
}

// begin takes up what the nodes have granted to a holder. The lock owns a block of numbers.
func (l *Lease) begin(n *Name, id form.ID, w *Want, lease quorum.Lease, block uint64, to wire.Receiver) {
	n.began++
	if n.leases != nil && (!w.Kind.Several() || n.began%64 == 0) { // there may be many
		n.prune(n.rules.Clock.Now())
	}
	l.Lease, l.name, l.next, l.to, l.token, l.number, l.holder = lease, n, n.leases, to, id.Token, id.Number, w
	n.leases = l
	if !l.shared() && (n.rules.Pace.Handoff > 0 || block > 1) {
		l.handoff = quorum.NewHandoff(&l.Lease, n.rules.Pace.Handoff, id.Number, block)
	}
	if w.Kept {
		l.Know()
	}
	if w.Renewed {
		l.Renew(l.Start(), w)
	}
}

// ID returns what identifies the lock on the servers.
func (l *Lease) ID() form.ID { return form.ID{Key: l.name.key, Token: l.token, Number: l.number} }

// form returns what the lock is on the servers. One that was attached to may have a number where locks are taken without, or none.
func (l *Lease) form() form.Form {
	rules := l.name.rules
	if l.shared() {
		return l.holder.form(rules)
	}
	if l.number > 0 {
		return rules.Fenced
	}
	if _, numbered := rules.Form.(form.Numbered); numbered {
		return form.Exclusive{}
	}
	return rules.Form
}

// shared reports whether others may have the lock at the same time.
func (l *Lease) shared() bool { return l.holder.Kind.Several() }

// Fence returns the fencing token of the present holder; 0 without fencing.
func (l *Lease) Fence() uint64 {
	switch {
	case l.handoff != nil:
		return l.handoff.Fence()
	case l.shared():
		return 0
	}
	return l.number
}

// Acquiring returns who receives the answers to the acquire, if some are to come; nil otherwise.
func (l *Lease) Acquiring() wire.Receiver {
	if !l.Asking() {
		return nil
	}
	return l.acquire.to
}

// Know records that a caller knows the token: the lock is no longer handed off.
func (l *Lease) Know() {
	if l.handoff != nil {
		l.handoff.Know()
	}
}

// To returns who receives the replies to what the lease sends.
func (l *Lease) To() wire.Receiver { return l.to }

// look is the last observation of a node. The answer of one before it can only be late.
type look struct {
	serial uint32
	ended  bool // the lease has taken the answer, or that there was none in time
}

// Changed takes the announcement of a node that the key may have changed: it is observed, unless an answer is under way that will
// show it.
func (l *Lease) Changed(acts []Act, node int) []Act {
	if l.Invalidated(l.name.rules.Clock, node) {
		return l.observe(acts, node)
	}
	return acts
}

func (l *Lease) observe(acts []Act, node int) []Act {
	if l.looks == nil {
		l.looks = map[int]look{}
	}
	last := look{serial: l.looks[node].serial + 1}
	l.looks[node] = last
	cmd := l.form().Look(l.ID())
	cmd.WantsLate = true
	return append(acts, Act{Command: cmd, Tag: wire.Tag{What: Observe, Serial: last.serial, Node: uint16(node)}, To: l.to})
}

// Answered takes the answer to an observation. A late one may overtake the Reply that there was none in time.
func (l *Lease) Answered(acts []Act, tag wire.Tag, reply *wire.Reply) []Act {
	rules, node := l.name.rules, int(tag.Node)
	clock, o := rules.Clock, l.form().Shows(reply)
	answer := o.Holds(l.token)
	if answer == quorum.Yes && o.TTL != wire.NoTTL && l.Renewal != nil {
		acts = l.lasts(acts, node, clock.Now(), o.TTL)
	}
	switch last := l.looks[node]; {
	case tag.Serial == last.serial && !last.ended:
		l.looks[node] = look{last.serial, true}
		l.Observed(clock, node, answer)
	case reply.Late && l.Late(clock, node, answer):
		acts = l.observe(acts, node)
	}
	return l.shown(acts)
}

// lasts records for how much longer a node holds the key: somebody may have cut its TTL. A renewal under way that the node has not answered
// comes behind that.
func (l *Lease) lasts(acts []Act, node int, now time.Time, ttl time.Duration) []Act {
	ends := now.Add(ttl)
	switch e := l.extensions; {
	case !l.Renewing():
		if l.Renewal.Cut(&l.Lease, now, ends) {
			acts = append(acts, Act{What: Renew, To: l.to})
		}
	case e.renews() && e.Answer(node) != quorum.Pending:
		l.Renewal.CutMeanwhile(ends)
	}
	return acts
}

// shown records that an answer has shown something of the lock: it may have ended with that, or the next renewal may come sooner.
func (l *Lease) shown(acts []Act) []Act {
	now := l.name.rules.Clock.Now()
	if l.Known() {
		l.acquire = nil
	}
	if l.Renewal != nil && !l.Renewing() && l.Renewal.Sooner(&l.Lease, now) {
		acts = append(acts, Act{What: Renew, To: l.to})
	}
	if l.At(now) != quorum.NotEnded {
		acts = append(acts, Act{What: Over, To: l.to})
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

// Leave ends a hold. A hold that has ended before may be ended once more if its release had no quorum ([Lease.Unsure]).
func (l *Lease) Leave(now time.Time, h *quorum.Hold) Left {
	switch {
	case !h.Ended():
		if !h.Leave(now) {
			return Others
		}
	case !h.Current() || l.Holds() > 0 || l.leaving:
		return Nothing
	}
	l.leaving = true
	l.End(now, quorum.Released)
	l.Renewal = nil
	return None
}

// Unsure records that the release had no quorum.
func (t *Lease) Unsure() { t.leaving = false }
