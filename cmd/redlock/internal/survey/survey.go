// Package survey finds out what locks the nodes hold.
package survey

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/token"
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

// Lock is what the nodes hold under one name.
type Lock struct {
	Name string
	// Token is what a majority of the nodes holds, with Metadata and Fence; "" if no majority holds the same.
	Token    string
	Metadata string
	Fence    uint64
	// TTL is how much longer a majority holds the token; without a majority, the longest on any node. redlock.NoTTL means for ever.
	TTL   time.Duration
	On    int    // how many nodes hold the token, or without a majority, anything under the name
	Need  int    // how many nodes make the majority
	Other bool   // the key is no lock: it is of another type, or longer than a token
	Empty bool   // a majority holds an empty value, which is no token, but keeps others from taking the lock
	Views []View // of the nodes that hold anything, in the order of the nodes
}

// View is what one node holds under a name.
type View struct {
	Node  int // the i-th server
	Token string
	Fence uint64
	TTL   time.Duration // redlock.NoTTL means for ever
	Other bool          // the key is no lock; Token and Fence are empty then

	read time.Time // from when TTL counts
}

// Held reports whether a majority holds the same token, or an empty value.
func (l Lock) Held() bool { return l.Token != "" || l.Empty }

// count finds out what the views come to. There is one at least.
func (l *Lock) count() {
	l.On, l.Other = len(l.Views), true
	for _, v := range l.Views {
		l.Other = l.Other && v.Other
		if l.TTL == 0 || longestFirst(v.TTL, l.TTL) < 0 {
			l.TTL = v.TTL
		}
	}
	for _, v := range l.Views {
		if !v.Other && l.countToken(v.Token) {
			return
		}
	}
}

// countToken makes a token that of the lock if a majority holds it.
func (l *Lock) countToken(held string) bool {
	var ttls []time.Duration
	fences := map[uint64]int{}
	for _, v := range l.Views {
		if v.Token == held && !v.Other {
			ttls = append(ttls, v.TTL)
			fences[v.Fence]++
		}
	}
	if len(ttls) < l.Need {
		return false
	}
	slices.SortFunc(ttls, longestFirst)
	l.Token, l.Metadata, l.TTL, l.On, l.Empty = held, token.Metadata(held), ttls[l.Need-1], len(ttls), held == ""
	for fence, nodes := range fences {
		if nodes >= l.Need {
			l.Fence = fence
		}
	}
	return true
}

// longestFirst compares TTLs.
func longestFirst(a, b time.Duration) int {
	if a == redlock.NoTTL || b == redlock.NoTTL {
		return cmp.Compare(a, b) // NoTTL is below all others
	}
	return cmp.Compare(b, a)
}
