package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Lease is a lock that the nodes have granted, until nothing is left of it. Several holders may have it, one after the
// other. It is made in place, and must not be copied.
type Lease struct {
	quorum.Lease
	Renewal *quorum.Renewal // nil while nobody wants the lock renewed
	Tracked bool            // extensions ask the nodes to announce changes of the key
	leaving bool            // a release is under way, or done
	first   bool            // a first call won it while the name had no queue

	name *Name
	next *Lease // the next lock of the name
	to   wire.Receiver
	// acquire is the round that won the lock. It is nil when every node has shown its key since ([quorum.Lease.Known]),
	// and if somebody else took the lock ([Name.Adopt]).
	acquire    *Round
	handoff    *quorum.Handoff // nil means that the lock is never handed off, and has one number at most
	token      string
	number     uint64       // the fencing token or slot that the nodes hold with the token. 0 means none.
	holder     *Want        // the Want of the present holder
	extensions *Extend      // the extension under way; its next is the one that follows
	failed     *Extend      // the last extension that has failed; nil if none has failed since one succeeded
	looks      map[int]look // by node: the last observation; a node that was never observed is absent
}

// begin makes l a lock of n that the nodes have granted to a holder who wants w. block is how many numbers the lock
// owns. With fencing id.Number is the last of them.
func (l *Lease) begin(n *Name, id form.ID, w *Want, lease quorum.Lease, block uint64, to wire.Receiver) {
	n.began++
	if n.leases != nil && (!w.Kind.Several() || n.began%64 == 0) { // shared locks may be many, so not each of them prunes
		n.prune(n.rules.Clock.Now())
	}
	l.Lease, l.name, l.next, l.to, l.token, l.number, l.holder = lease, n, n.leases, to, id.Token, id.Number, w
	n.leases = l
	if !l.shared() && !w.Kept && n.rules.Pace.Handoff > 0 {
		l.handoff = quorum.NewHandoff(&l.Lease, n.rules.Pace.Handoff, id.Number, block)
	}
	if w.Renewed {
		l.Renew(l.Start(), w)
	}
}

// ID returns the identity of the lock on the servers.
func (l *Lease) ID() form.ID { return form.ID{Key: l.name.key, Token: l.token, Number: l.number} }

// form returns the form of the lock on the servers. The number of an exclusive lock decides, not the settings of this
// process. An attached lock may have a fencing token although this process uses none, or the other way round.
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

// Fence returns the fencing token of the present holder. 0 means that it has none.
func (l *Lease) Fence() uint64 {
	switch {
	case l.handoff != nil:
		return l.handoff.Fence()
	case l.shared():
		return 0
	}
	return l.number
}

// Acquiring returns the receiver of the answers to the acquire. It returns nil if none is to come.
func (l *Lease) Acquiring() wire.Receiver {
	if !l.Asking() {
		return nil
	}
	return l.acquire.to
}

// HandsOff reports whether the lock may be handed off, so that several holders have its token one after the other.
func (l *Lease) HandsOff() bool { return l.handoff != nil }

// To returns the receiver of the replies to the commands that the lease sends.
func (l *Lease) To() wire.Receiver { return l.to }

// look is the last observation of a node. An answer to an earlier observation can only be late.
type look struct {
	serial uint32
	ended  bool // the lease was told the answer, or that none came in time
}

// Changed handles the announcement of a node that the key may have changed. It observes the key, unless an answer is
// under way that will show it.
func (l *Lease) Changed(acts []Act, node int) []Act {
	if l.Invalidated(l.name.rules.Clock, node) {
		return l.observe(acts, node)
	}
	return acts
}

// observe appends an observation of the key on a node. An observation of the node that is still under way counts as
// unanswered.
func (l *Lease) observe(acts []Act, node int) []Act {
	if l.looks == nil {
		l.looks = map[int]look{}
	}
	last := l.looks[node]
	if last.serial > 0 && !last.ended { // Untracked begins one meanwhile, which shows more
		l.Observed(l.name.rules.Clock, node, quorum.Unknown)
	}
	last = look{serial: last.serial + 1}
	l.looks[node] = last
	cmd := l.form().Look(l.ID())
	cmd.WantsLate = true
	return append(acts, Act{Command: cmd, Tag: wire.Tag{What: Observe, Serial: last.serial, Node: uint16(node)}, To: l.to})
}

// Answered handles the answer to an observation. A late answer may overtake the Reply that none came in time.
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

// lasts records for how much longer a node holds the key, because somebody may have cut its TTL. It records nothing
// while the answer of the node to a renewal is awaited, because that renewal comes behind the cut.
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

// shown checks the lock after an answer about its key. The lock may have ended, or the next renewal may come sooner.
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

// Left is the result of [Lease.Leave]. It says whether the lock is to be released.
type Left uint8

// The results.
const (
	Others Left = iota // the holder has other holds: nothing is to be done
	None               // no hold is left: the caller releases the lock, or leaves it to a process that knows the token
	// Nothing means that the hold had ended before, and nothing is to be done. Another hold has the lock, or the release
	// is under way or done.
	Nothing
)

// Leave ends a hold. It ends a hold that has ended before once more if the release had no quorum ([Lease.Unsure]).
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
func (l *Lease) Unsure() { l.leaving = false }
