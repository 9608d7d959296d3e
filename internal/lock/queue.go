package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// queue are the calls that wait for a name.
type queue struct {
	*quorum.Queue[*Call]
	holder   *Term     // that a call of the queue got last, until it has ended; maybe it is over
	since    time.Time // when that was, or when it ended
	floor    uint64    // the highest number that a lost round was granted since the last that was won
	turnCame bool      // another process has passed the turn to this one since the last round that was won
}

// queued returns the queue, and makes it if there is none.
func (n *Name) queued() *queue {
	if n.queue == nil {
		n.queue = &queue{Queue: quorum.NewQueue[*Call](n.rules.Nodes, n.rules.Self, n.rules.Pace)}
	}
	return n.queue
}

// idle reports whether the queue can be discarded. A lock that has expired may never be unlocked.
func (q *queue) idle(now time.Time) bool {
	return q.Idle(now) || q.Len() == 0 && q.holder != nil && q.holder.At(now) != quorum.Held
}

// Wait has a call wait for the lock. It has its turn with an [Offer], and leaves with Won, Pass, Leave or a [Refuse].
func (n *Name) Wait(acts []Act, c *Call) []Act {
	c.waits = true
	return n.apply(acts, n.queued().Join(n.rules.Clock.Now(), c))
}

// Leave has a call wait no more. A round that is under way for it has been given up.
func (n *Name) Leave(acts []Act, c *Call) []Act {
	return n.apply(acts, n.queue.Leave(n.rules.Clock.Now(), c))
}

// Tick takes it that the time of a [Wake] has come.
func (n *Name) Tick(acts []Act) []Act { return n.apply(acts, n.queue.Tick(n.rules.Clock.Now())) }

// PeersWait takes the message of another process that some wait for the lock.
func (n *Name) PeersWait(who []string) {
	if n.queue == nil {
		return
	}
	for _, w := range who {
		n.queue.PeerWaits(w)
	}
}

// TurnPassed takes the message of another process, as it arrives through a node, that it has passed the turn to this one. first
// reports that no other node has delivered it before.
func (n *Name) TurnPassed(acts []Act, node int, peers []string) (_ []Act, first bool) {
	q, now := n.queue, n.rules.Clock.Now()
	if q == nil { // nobody waits here any more
		if len(peers) > 0 {
			acts = append(acts, Act{What: Publish, Message: &Message{What: Yours, To: peers[0], Peers: peers[1:], Node: node}})
		}
		return acts, false
	}
	if q.holder == nil || q.holder.At(now) != quorum.Held { // else the turn has been taken already
		first, q.turnCame = !q.turnCame, true
	}
	return n.apply(acts, q.TurnPassed(now, node, peers)), first
}

// Answered takes the reply to what the queue has sent.
func (n *Name) Answered(acts []Act, tag wire.Tag, reply wire.Reply) []Act {
	now, node := n.rules.Clock.Now(), int(tag.Node)
	if tag.What == Heal {
		return n.apply(acts, n.queue.Healed(now, node, reply.Answer == quorum.Yes))
	}
	return n.apply(acts, n.queue.Observed(now, node, keyState(n.rules.Form, reply)))
}

// apply makes Acts of what the queue decides.
func (n *Name) apply(acts []Act, decided quorum.Actions) []Act {
	if len(decided.Observe) > 0 {
		cmd := form.Observe(n.key)
		for _, i := range decided.Observe {
			acts = append(acts, Act{Command: cmd, Tag: wire.Tag{What: Watch, Node: uint16(i)}})
		}
	}
	for _, k := range decided.Heal {
		acts = append(acts, Act{Command: form.Heal(n.key, k.Token), Tag: wire.Tag{What: Heal, Node: uint16(k.Node)}})
	}
	if decided.Stuck != nil {
		acts = append(acts, Act{What: Warn, Stuck: decided.Stuck})
	}
	if a := decided.Announce; a != nil {
		acts = append(acts, Act{What: Publish, Message: &Message{What: Waits, To: a.To, Peers: []string{n.rules.Self}, Node: a.Node}})
	}
	if t := decided.PassTurn; t != nil {
		acts = append(acts, Act{What: Publish, Message: &Message{What: Yours, To: t.To, Peers: t.Peers, Node: AllNodes}})
	}
	if decided.Listen {
		acts = append(acts, Act{What: Listen})
	}
	if !decided.WakeAt.IsZero() {
		acts = append(acts, Act{What: Wake, At: decided.WakeAt})
	}
	if decided.Hopeless {
		for _, c := range n.queue.Dismiss() {
			acts = append(acts, Act{What: Refuse, Call: c})
		}
	}
	if c, ok := n.queue.Head(); ok && decided.Try {
		acts = append(acts, Act{What: Offer, Call: c})
	}
	return acts
}

// Waiting returns the calls that wait, in the order in which they came. The caller does not change it.
func (n *Name) Waiting() []*Call {
	if n.queue == nil {
		return nil
	}
	return n.queue.Waiters()
}

// Deserted reports whether a release now would pass the turn early.
func (n *Name) Deserted() bool { return n.queue != nil && n.queue.Deserted() }

// Taken reports whether others, here or elsewhere, are known to have had the lock since an instant, or to have it. Something waits,
// or has waited.
func (n *Name) Taken(since time.Time) bool {
	q := n.queue
	return q.holder != nil || !q.since.Before(since) || q.Taken(n.rules.Clock.Now())
}

// Seen returns what is known of the key on a node, and since when it has been seen without a TTL, and unchanged; zero means that it
// was not.
func (n *Name) Seen(node int) (seen quorum.KeyState, noTTL time.Time) {
	if n.queue == nil {
		return seen, noTTL
	}
	return n.queue.Seen(node), n.queue.NoTTLSince(node)
}

// Holder returns the owner part of the holder's token and its metadata: of this process, or as a node has shown them last.
func (n *Name) Holder() (owner, metadata string) {
	if q := n.queue; q != nil && q.holder != nil && q.holder.At(n.rules.Clock.Now()) == quorum.Held {
		return n.rules.Self, q.holder.holder.Metadata
	}
	for i := range n.rules.Nodes {
		if seen, _ := n.Seen(i); seen.Held {
			return seen.Owner, token.Metadata(seen.Token)
		}
	}
	return "", ""
}
