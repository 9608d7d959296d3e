// Package survey finds out what locks the nodes hold.
package survey

import (
	"time"

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
	l.On, l.Other, l.TTL = len(l.Views), len(l.Views) > 0, 0
	for _, v := range l.Views {
		n := &nodes[v.Node]
		n.Held, n.Token, n.Metadata, n.Fence, n.TTL, n.Err = true, v.Token, token.Metadata(v.Token), v.Fence, v.TTL, nil
		if v.Other {
			n.Err = nodeerr.ErrForeign
		}
		l.Other = l.Other && v.Other
		l.TTL = max(l.TTL, v.TTL)
	}
	s := redlock.NewLockState(l.Name, nodes)
	l.Verdict, l.Token, l.Metadata, l.Fence, l.Empty = s.Verdict, s.Token, s.Metadata, s.Fence, s.Verdict == redlock.VerdictHeld && s.Token == ""
	if !l.Held() {
		return
	}
	l.TTL, l.On = s.TTL, 0
	for _, n := range nodes {
		if n.Err == nil && n.Held && n.Token == s.Token {
			l.On++
		}
	}
}
