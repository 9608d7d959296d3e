// Package survey finds out what locks the nodes hold.
package survey

import (
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// Listing is what the nodes hold under the names that were asked for.
type Listing struct {
	Locks     []Lock       // sorted by name
	Nodes     []NodeReport // Nodes[i] is about the i-th server
	Need      int          // how many nodes make the majority
	Truncated bool         // there are more names than the limit
}

// NodeReport is how a node has answered.
type NodeReport struct {
	Addr string
	Keys int           // under how many of the names it holds something
	Took time.Duration // for all answers together
	Err  error         // why they are not complete
}

// Lock is what the nodes hold under one name. All but the name and the Views is what these come to, see [Listing.Judge].
type Lock struct {
	Name    string
	Verdict redlock.Verdict
	// Kind is redlock.KindShared or redlock.KindSlot if the mark of that kind is on a majority, or if no token is and a node has
	// it. Who they are is not listed, nor whether they are still there.
	Kind redlock.Kind
	// Token is what a majority of the nodes holds, with Metadata and Fence; "" if no majority holds the same.
	Token    string
	Metadata string
	Fence    uint64
	// TTL is how much longer a majority holds the token; without a majority, the longest on any node. redlock.NoLimit means for ever.
	TTL   time.Duration
	On    int    // how many nodes hold the token, or without a majority, anything under the name
	Other bool   // all that is there is data of another program: of another type, or longer than a token
	Empty bool   // the token that a majority holds is an empty value
	Views []View // of the nodes that hold anything, in the order of the nodes
}

// View is what one node holds under a name.
type View struct {
	Node  int // the i-th server
	Kind  redlock.Kind
	Token string
	Fence uint64
	TTL   time.Duration // redlock.NoLimit means for ever
	Other bool          // the key is no lock; Token and Fence are empty then

	read time.Time // from when TTL counts
}

// Held reports whether a majority is known to hold the same token.
func (l Lock) Held() bool { return l.Verdict == redlock.VerdictHeld }

// Judge finds out what the views of a lock come to. A node without a view that has not answered completely may hold anything.
func (of *Listing) Judge(l *Lock) {
	nodes := make([]redlock.NodeState, len(of.Nodes))
	for i, report := range of.Nodes {
		nodes[i] = redlock.NodeState{Addr: report.Addr, Err: report.Err}
	}
	l.On, l.Other, l.TTL, l.Kind = len(l.Views), len(l.Views) > 0, 0, redlock.KindExclusive
	shared := redlock.KindExclusive
	for _, v := range l.Views {
		n := &nodes[v.Node]
		h := redlock.Holder{Token: redlock.Token(v.Token), Metadata: token.Metadata(v.Token), Fence: v.Fence, TTL: v.TTL, Nodes: 1}
		n.Kind, n.Err = redlock.KindExclusive, nil
		switch {
		case v.Other:
			n.Err = nodeerr.ErrForeign
		case display.Several(v.Kind):
			h.Token, shared = redlock.Token(form.KindNamed(string(v.Kind)).Mark()), v.Kind // the mark counts as a token does
		}
		n.Holders = []redlock.Holder{h}
		l.Other = l.Other && v.Other
		l.TTL = max(l.TTL, v.TTL)
	}
	s := State(l.Name, nodes)
	if l.Verdict = s.Verdict; !l.Held() {
		l.Kind, l.Token, l.Metadata, l.Fence, l.Empty = shared, "", "", 0, false
		return
	}
	h := s.Holders[0]
	l.Token, l.Metadata, l.Fence, l.TTL, l.On, l.Empty = string(h.Token), h.Metadata, h.Fence, h.TTL, h.Nodes, h.Token == ""
	if kind := form.KindOf(l.Token); kind.Several() {
		l.Kind, l.Token = redlock.Kind(kind.String()), ""
	}
}

// State concludes from the states of all nodes who holds a lock, as an Inspect does.
var State = lockstate.Of.(func(name string, nodes []redlock.NodeState) *redlock.LockState)
