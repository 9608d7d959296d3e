// Package survey finds out what locks the nodes hold.
package survey

import (
	"errors"
	"fmt"
	"slices"
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

	owners presences
}

// NodeReport is how a node has answered.
type NodeReport struct {
	Addr string
	Keys int           // under how many of the names it holds something
	Took time.Duration // for all answers together
	Err  error         // why they are not complete
	// Process tells the server from one that was there before under the address (run_id); "" if it does not say.
	Process string
}

// Lock is what the nodes hold under one name. All but the name and the Views is what these come to, see [Listing.Judge].
type Lock struct {
	Name    string
	Verdict redlock.Verdict
	// Kind is redlock.KindShared or redlock.KindSlot if who holds the lock shares it, or if nobody holds it and a node has
	// the mark of that kind.
	Kind redlock.Kind
	// Holders are who holds the lock, as Inspect finds, the one that ends first in front. Held without Holders means that the mark
	// of a kind that several share is on a majority, and too few nodes have shown who they are.
	Holders []Holder
	// Others are the sharers on fewer nodes than hold a lock, each with the longest TTL on any node.
	Others []Holder
	More   bool // a node has more sharers than the form.MostSharers that end last, which are listed
	// Token is that of the only holder of an exclusive lock, with Metadata and Fence; "" if there is none.
	Token    string
	Metadata string
	Fence    uint64
	// TTL is how much longer a majority holds the lock, of sharers for the last one, or for the mark if there are no Holders. Without
	// a majority, it is the longest on any node. redlock.NoLimit means for ever.
	TTL     time.Duration
	On      int    // how many nodes have any of the holders, or without a majority, anything under the name
	Other   bool   // all that is there is data of another program: of another type, or longer than a token
	Empty   bool   // the token that a majority holds is an empty value
	Kept    bool   // there are Holders, and each is Kept
	Waiting int    // how many processes wait for the lock, -1 if no node says: the median of what the nodes say
	Views   []View // of the nodes that hold anything, in the order of the nodes
}

// Holder holds a lock, or shares it on too few nodes.
type Holder struct {
	redlock.Holder
	// Kept means that no process listens on behalf of the Holder's Locker, as far as a majority of the nodes knows. A Locker listens from
	// its first wait or renewal on. It is false for the token of another client.
	Kept bool
}

// View is what one node holds under a name.
type View struct {
	Node  int // the i-th server
	Kind  redlock.Kind
	Token string
	Fence uint64
	TTL   time.Duration // redlock.NoLimit means for ever
	Other bool          // the key is no lock; Token and Fence are empty then
	// Sharers are who shares the lock on the node, the one that ends first in front: form.MostSharers at most. They count only if the
	// node has Shown them.
	Sharers []redlock.Holder
	Shown   bool
	More    bool // there are more sharers, which end earlier

	read  time.Time // from when TTL counts
	waits int       // how many processes wait as far as the node knows, and 1; 0 means that it does not say
}

// KeptHolders returns how many of the Holders are Kept.
func (l Lock) KeptHolders() (n int) {
	for _, h := range l.Holders {
		if h.Kept {
			n++
		}
	}
	return n
}

// KeptWord is "kept" if all Holders are Kept, with their number in front if only some are, and "" if none is.
func (l Lock) KeptWord() string {
	switch n := l.KeptHolders(); n {
	case 0:
		return ""
	case len(l.Holders):
		return "kept"
	default:
		return fmt.Sprintf("%d kept", n)
	}
}

// WaitWord says how many processes wait for the lock, "" if none is known to.
func (l Lock) WaitWord() string {
	switch {
	case l.Waiting < 1:
		return ""
	case l.Waiting == 1:
		return "1 waits"
	}
	return fmt.Sprintf("%d wait", l.Waiting)
}

// Held reports whether a majority is known to hold the lock.
func (l Lock) Held() bool { return l.Verdict == redlock.VerdictHeld }

// hidden reports whether a node has the mark of sharers, but has not shown them.
func (v View) hidden() bool { return display.Several(v.Kind) && !v.Shown }

// Judge finds out what the views of a lock come to. A node without a view that has not answered completely may hold anything. If
// nodes decide that have not shown who shares the lock, the mark of sharers counts as a token does.
func (of *Listing) Judge(l *Lock) {
	s := of.state(l, true)
	marks := s.Verdict == redlock.VerdictUnknown && slices.ContainsFunc(l.Views, View.hidden)
	if marks {
		s = of.state(l, false)
	}
	*l = Lock{Name: l.Name, Views: l.Views, Verdict: s.Verdict, Kind: redlock.KindExclusive, On: len(l.Views), Waiting: waiting(l.Views)}
	l.Other = len(l.Views) > 0
	for _, v := range l.Views {
		l.Other, l.More, l.TTL = l.Other && v.Other, l.More || v.More, max(l.TTL, v.TTL)
		if display.Several(v.Kind) {
			l.Kind = v.Kind
		}
	}
	switch {
	case marks && l.Held():
		h := s.Holders[0]
		l.TTL, l.On = h.TTL, h.Nodes
		if kind := form.KindOf(string(h.Token)); kind.Several() {
			l.Kind = redlock.Kind(kind.String())
			return
		}
	case l.Held():
		l.TTL, l.On = s.Holders[len(s.Holders)-1].TTL, sharedOn(s)
	}
	if l.Held() {
		l.Kind = s.Kind
	}
	of.introduce(l, s)
}

// introduce sets who has the lock.
func (of *Listing) introduce(l *Lock, s *redlock.LockState) {
	for _, h := range s.Holders {
		l.Holders = append(l.Holders, Holder{h, of.owners.kept(h.Token, of.Need)})
	}
	l.Kept = len(l.Holders) > 0 && l.KeptHolders() == len(l.Holders)
	if l.Held() && l.Kind == redlock.KindExclusive {
		h := s.Holders[0]
		l.Token, l.Metadata, l.Fence, l.Empty = string(h.Token), h.Metadata, h.Fence, h.Token == ""
	}
	if display.Several(l.Kind) {
		for _, h := range Sharers(s, l.Kind)[len(l.Holders):] {
			l.Others = append(l.Others, Holder{h, of.owners.kept(h.Token, of.Need)})
		}
	}
}

// state concludes from the views of a lock. With sharers, a node that has not shown who shares the lock has not answered. Without,
// marks are as tokens.
func (of *Listing) state(l *Lock, sharers bool) *redlock.LockState {
	nodes := make([]redlock.NodeState, len(of.Nodes))
	for i, report := range of.Nodes {
		nodes[i] = redlock.NodeState{Addr: report.Addr, Err: report.Err}
	}
	for _, v := range l.Views {
		n := &nodes[v.Node]
		n.Kind, n.Err = redlock.KindExclusive, nil
		h := redlock.Holder{Token: redlock.Token(v.Token), Metadata: token.Metadata(v.Token), Fence: v.Fence, TTL: v.TTL, Nodes: 1}
		switch several := display.Several(v.Kind); {
		case v.Other:
			n.Err = nodeerr.ErrForeign
		case several && !sharers:
			h.Token = redlock.Token(form.KindNamed(string(v.Kind)).Mark())
		case several && !v.Shown:
			n.Err = errHidden
		case several:
			n.Kind, n.Holders = v.Kind, v.Sharers
			continue
		}
		n.Holders = []redlock.Holder{h}
	}
	return State(l.Name, nodes)
}

// errHidden is why nothing is known of the sharers that a node has. It is not shown.
var errHidden = errors.New("it has not shown who shares the lock")

// sharedOn returns how many nodes have any of the holders.
func sharedOn(s *redlock.LockState) (n int) {
	if len(s.Holders) == 1 {
		return s.Holders[0].Nodes
	}
	for _, node := range s.Nodes {
		if node.Kind == s.Kind && slices.ContainsFunc(node.Holders, func(on redlock.Holder) bool {
			return slices.ContainsFunc(s.Holders, func(h redlock.Holder) bool { return h.Token == on.Token && h.Slot == on.Slot })
		}) {
			n++
		}
	}
	return n
}

// State concludes from the states of all nodes who holds a lock, as an Inspect does.
var State = lockstate.Of.(func(name string, nodes []redlock.NodeState) *redlock.LockState)
