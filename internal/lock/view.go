package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// observeEvery is the longest time without an observation. A push may be lost without a sign if the server's machine is
// gone and the connection is idle. TCP notices that only when something is sent.
const observeEvery = 30 * time.Second

// view is the knowledge of the key on the nodes.
type view struct {
	nodes     []nodeState
	token     string    // the token that was observed last; its holder knows by a message that calls wait here
	observeAt time.Time // when all nodes are observed next
	healAt    time.Time // from then on a call that does not wait begins observations of all nodes
	warned    bool      // a warning about keys without a TTL was logged
	wantedAt  time.Time // when a node was last observed to keep the head out because another process comes first
	strangers strangers // the clients of other libraries
	writers   writers
}

// count returns the number of nodes for which the function is returns true.
func (v *view) count(is func(n *nodeState) bool) (count int) {
	for i := range v.nodes {
		if is(&v.nodes[i]) {
			count++
		}
	}
	return count
}

// majority reports whether the function is returns true for a majority of the nodes.
func (v *view) majority(is func(n *nodeState) bool) bool {
	return v.count(is) >= quorum.Majority(len(v.nodes))
}

// blocked reports whether the function is returns true for too many nodes for a majority of the others.
func (v *view) blocked(is func(n *nodeState) bool) bool {
	return len(v.nodes)-v.count(is) < quorum.Majority(len(v.nodes))
}

// free reports whether a majority of the nodes is free.
func (v *view) free(now time.Time) bool {
	return v.majority(func(n *nodeState) bool { return n.free(now) })
}

// held reports whether a majority of the nodes holds a token.
func (v *view) held(token string) bool {
	return v.majority(func(n *nodeState) bool { return n.Exists && n.Token == token })
}

// shared reports whether the key on some node holds a mark.
func (v *view) shared() bool {
	return v.count(func(n *nodeState) bool { return n.Exists && form.IsMark(n.Token) }) > 0
}

// sawToken records that an observation has shown a token, or a value in its place.
func (v *view) sawToken(now time.Time, token string) {
	v.token = token
	v.writers.saw(token, len(v.nodes))
	if form.IsWanted(token) {
		v.wantedAt = now
	}
}

// others reports whether the key on some node holds the mark of another kind.
func (v *view) others(kind form.Kind) bool {
	return v.count(func(n *nodeState) bool {
		of := form.KindOf(n.Token)
		return n.Exists && of.Several() && of != kind
	}) > 0
}

// known reports whether a majority of the nodes has answered.
func (v *view) known() bool { return v.majority(func(n *nodeState) bool { return n.Answered }) }

// over reports whether more share the key on some node than the head has slots.
func (v *view) over() bool { return v.count(func(n *nodeState) bool { return n.Exists && n.Over }) > 0 }

// mayBeBlocked reports whether somebody's data may be on too many nodes for a majority of the others. It counts the
// blind nodes as if they held such data.
func (v *view) mayBeBlocked() bool {
	return v.blocked(func(n *nodeState) bool { return n.isForeign() || n.blind() })
}

// forget drops the knowledge from before a round.
func (v *view) forget() {
	for i := range v.nodes {
		v.nodes[i].forget()
	}
}

// freed records that this process has sent its release to all nodes.
func (v *view) freed() {
	for i := range v.nodes {
		v.nodes[i].freed()
	}
}

// observe plans an observation of the nodes for which the function is returns true.
func (v *view) observe(is func(n *nodeState) bool) {
	for i := range v.nodes {
		v.nodes[i].toObserve = v.nodes[i].toObserve || is(&v.nodes[i])
	}
}

// survey is a count of the nodes by their state.
type survey struct {
	free, changed int
	awaited       int  // nodes that will answer, or push when they are free
	probing       bool // an observation of a node that has changed is under way
	probed        bool // an observation has shown that a node is free
}

// survey counts the nodes, and plans an observation of all of them when that is due.
func (v *view) survey(wake *wakeUp) (s survey) {
	if wake.due(v.observeAt) {
		v.observe(func(*nodeState) bool { return true })
		v.observeAt = wake.now.Add(observeEvery)
		wake.due(v.observeAt)
	}
	for i := range v.nodes {
		n := &v.nodes[i]
		if !n.ends.IsZero() {
			wake.due(n.ends)
		}
		switch {
		case n.free(wake.now):
			s.free++
			s.probed = s.probed || n.Tracked
		case n.changed:
			s.changed++
			s.probing = s.probing || n.observing
		case n.toObserve || n.observing || n.Exists && n.Tracked:
			s.awaited++
		}
	}
	return s
}

// stuckSince returns since when keys without a TTL have been unchanged on too many nodes for a majority of the others.
// Zero means that they have not.
func (v *view) stuckSince() (since time.Time) {
	if !v.blocked((*nodeState).hasNoTTL) {
		return since
	}
	var all []time.Time
	for _, i := range v.stuck() {
		all = append(all, v.nodes[i].noTTLFrom)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all[len(v.nodes)-quorum.Majority(len(v.nodes))]
}

// stuck returns the nodes that have an unchanged key without a TTL.
func (v *view) stuck() (nodes []int) {
	for i := range v.nodes {
		if v.nodes[i].hasNoTTL() {
			nodes = append(nodes, i)
		}
	}
	return nodes
}
