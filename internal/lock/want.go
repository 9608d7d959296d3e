package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// A process that waits says its demand to the sharers of the lock: a [form.Demand]. So no further sharers come in, and
// it gets the lock when enough of them have left. Each process has an entry of its own on the nodes.

// wantEvery is how often a process that waits says so to the sharers of the lock.
const wantEvery = time.Second

// demand returns the demand that this process should say. is is false if it should say none. The demand of a writer
// stays until the writer has the lock or gives up. So does the limit of a call for a slot.
func (q *queue) demand() (d form.Demand, is bool) {
	if len(q.line.calls) == 0 || q.state == ours {
		return d, false
	}
	w, said := q.line.want(), !q.wantAt.IsZero()
	d = form.Demand{Kind: w.Kind}
	limit := form.Demand{Kind: w.Kind, Limit: w.Slots}
	switch {
	case !w.Kind.Several():
		return d, said && q.said == d || q.view.shared()
	case q.view.others(w.Kind):
		return d, true
	case w.Kind.HasSlots() && (said && q.said == limit || q.view.over()):
		return limit, true
	}
	// If locks of another kind were in the way, they no longer are. Two kinds that waited for each other would go on for
	// ever.
	return d, said && q.said == d && !q.view.known()
}

// tell takes back the demand of this process if it no longer is the right one. With wake, it says the right one, and
// says it again each [wantEvery].
func (q *queue) tell(acts []Act, wake *wakeUp) []Act {
	d, is := q.demand()
	if !is || d != q.said {
		acts = q.unwant(acts)
	}
	if !is || wake == nil || !wake.due(q.wantAt) {
		return acts
	}
	q.said, q.wantAt = d, wake.now.Add(wantEvery)
	wake.due(q.wantAt)
	return q.sendAll(acts, form.Want(q.key, q.rules.Self, d))
}

// unwant takes back the demand of this process, if it has said one.
func (q *queue) unwant(acts []Act) []Act {
	if q.wantAt.IsZero() {
		return acts
	}
	q.wantAt = time.Time{}
	return q.sendAll(acts, form.Unwant(q.key, q.rules.Self, q.said))
}

// WantChanged handles the announcement of a node that another process has said its demand, or has taken it back. A
// process says the same demand again and again, so this leads to an observation, and not to a round.
func (n *Name) WantChanged(acts []Act, node int) []Act {
	q := n.queue
	if q == nil || !q.line.want().Kind.Several() || q.state == trying || q.view.nodes[node].observing {
		return acts
	}
	now := n.rules.Clock.Now()
	if !q.waits(now) {
		return acts
	}
	q.view.nodes[node].Tracked, q.view.nodes[node].toObserve = false, true
	return q.next(acts, now)
}

// passAfter is how many writers a call that shares the lock sees before waiting processes no longer keep it out.
const passAfter = 8

// writers is how many writers have been seen to hold the lock, one after the other.
type writers struct {
	count uint64
	last  []string // the tokens of the last ones: nodes may show older ones again
}

// saw counts the writer with a token, unless it is one of the last. There are as many of these as nodes.
func (w *writers) saw(token string, nodes int) {
	if form.IsMark(token) {
		return
	}
	i := slices.Index(w.last, token)
	switch {
	case i < 0 && len(w.last) < nodes:
		w.count, w.last, i = w.count+1, append(w.last, token), len(w.last)
	case i < 0:
		w.count, i = w.count+1, 0
	}
	copy(w.last[i:], w.last[i+1:])
	w.last[len(w.last)-1] = token
}

// sight returns what the observations for the head have to show.
func (q *queue) sight() wire.Sight {
	if len(q.line.calls) == 0 {
		return wire.Sight{}
	}
	return q.sightOf(q.line.calls[0])
}

// sightOf returns what decides which locks are in the way of a call. Waiting processes with limit 0 are not in its way
// if the call shares the lock and has seen enough writers since it came.
func (q *queue) sightOf(c *Call) wire.Sight {
	s := c.Want.sight()
	s.Pass = c.Want.Kind.Several() && q.view.writers.count-c.writers >= passAfter
	return s
}

// sendAll appends a Send of the command for each node. No receiver gets the replies.
func (q *queue) sendAll(acts []Act, c *wire.Command) []Act {
	for i := range q.view.nodes {
		acts = append(acts, Act{Command: c, Tag: wire.Tag{What: Forgotten, Node: uint16(i)}})
	}
	return acts
}
