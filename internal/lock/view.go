package lock

import (
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
)

// observeEvery bounds the time without an observation. Pushes are lost without a sign if the server's machine is gone and
// the connection is idle: TCP notices that when something is sent.
const observeEvery = 30 * time.Second

// view is what is known of the key on the nodes.
type view struct {
	nodes     []nodeState
	token     string    // the token that was observed last; its holder has been told that calls wait here
	observeAt time.Time // when all nodes are observed
	healAt    time.Time // from then on a call that does not wait begins observations of all nodes
	warned    bool      // that keys without a TTL are in the way
	strangers strangers // the clients of other libraries
}

// count returns of how many nodes something is known.
func (v *view) count(is func(n *nodeState) bool) (count int) {
	for i := range v.nodes {
		if is(&v.nodes[i]) {
			count++
		}
	}
	return count
}

// majority reports whether something is known of a majority of the nodes.
func (v *view) majority(is func(n *nodeState) bool) bool {
	return v.count(is) >= quorum.Majority(len(v.nodes))
}

// blocked reports whether something is known of too many nodes for a majority of the others.
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

// shared reports whether some node holds the key for several.
func (v *view) shared() bool {
	return v.count(func(n *nodeState) bool { return n.Exists && form.IsMark(n.Token) }) > 0
}

// mayBeBlocked reports whether somebody's data leaves no majority if it is also on the nodes of which nothing will be known.
func (v *view) mayBeBlocked() bool {
	return v.blocked(func(n *nodeState) bool { return n.isForeign() || n.blind() })
}

// forget drops what was known before a round.
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

// observe plans an observation of the nodes of which something is known.
func (v *view) observe(is func(n *nodeState) bool) {
	for i := range v.nodes {
		v.nodes[i].toObserve = v.nodes[i].toObserve || is(&v.nodes[i])
	}
}

// survey counts the nodes by what is known of them.
type survey struct {
	free, changed int
	awaited       int  // an answer will come, or a push when the node is free
	probing       bool // a node that has changed is being observed
	probed        bool // a node has been observed to be free
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

// stuckSince returns since when too many nodes for a majority of the others have had an unchanged key without a TTL. Zero means that
// they have not.
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

// stuck returns which nodes have an unchanged key without a TTL.
func (v *view) stuck() (nodes []int) {
	for i := range v.nodes {
		if v.nodes[i].hasNoTTL() {
			nodes = append(nodes, i)
		}
	}
	return nodes
}
