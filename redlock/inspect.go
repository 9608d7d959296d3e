package redlock

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/token"
)

// NoTTL is the TTL of a key that never expires.
const NoTTL = node.NoTTL

// State is what the nodes hold of a lock.
type State struct {
	Name string
	Need int // how many nodes make the majority
	// Token is what a majority of the nodes holds; "" if no majority holds the same. Even then the tokens of others may
	// prevent an acquire.
	Token    string
	Metadata string // of the holder, see [Metadata]
	// Fence is the fencing token that a majority holds with Token; 0 if there is none.
	Fence uint64
	// TTL is how much longer a majority holds the token, counted from the call of Inspect. It is NoTTL if the key never
	// expires, and 0 if nobody holds the lock.
	TTL time.Duration
	// Nodes[i] is about the i-th node given to New or Open.
	Nodes []NodeState
}

// NodeState is what one node holds of a lock.
type NodeState struct {
	Addr     string
	Token    string // what it holds, "" for nothing
	Metadata string // of the holder, see [Metadata]
	Fence    uint64 // of the holder, 0 for none: see [Lock.Fence]; on a minority of nodes it may be another
	TTL      time.Duration
	// Err is why there is no answer, an error of package pool or ErrPending; or ErrForeign, if the key is somebody's data.
	Err error
}

// Held reports whether a majority holds the same token.
func (s *State) Held() bool { return s.Token != "" }

// Inspect asks every node who holds a lock, and for how much longer. It changes nothing, waits for all nodes, for the node
// timeout at most, and its result may be outdated when it is read.
//
// Inspect returns a State except for an invalid name and a closed Locker. The error is [ErrNoQuorum] in a [*QuorumError] if
// fewer than a majority answered, joined with ctx.Err() if ctx ended first. That a node holds somebody's data under the name is
// an answer: its NodeState has [ErrForeign].
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	req, err := l.begin(name, nil)
	if err != nil {
		return nil, err
	}
	defer l.calls.Done()
	replies := l.poll(ctx, l.all(node.Observe(req.key)), nil)
	s := l.state(name, replies)
	s.count()
	if count(replies, quorum.Yes)+count(replies, quorum.No)+foreign(replies) >= s.Need {
		return s, nil
	}
	return s, l.unanswered(ctx, OpInspect, name, ErrNoQuorum, replies)
}

// state is what the nodes have answered to an observation, without what a majority holds.
func (l *Locker) state(name string, replies []node.Reply) *State {
	s := &State{Name: name, Need: quorum.Majority(len(l.nodes))}
	for i, reply := range replies {
		n := NodeState{Addr: l.nodes[i].Addr(), Err: reply.Err}
		switch reply.Answer {
		case quorum.Yes:
			n.Token, n.Fence = l.split(reply.Value)
			n.Metadata, n.TTL = token.Metadata(n.Token), reply.TTL
		case quorum.No:
			n.Err = nil
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

// count finds out what a majority holds.
func (s *State) count() {
	for _, n := range s.Nodes {
		var ttls []time.Duration
		same := 0
		for _, o := range s.Nodes {
			if o.Token != n.Token {
				continue
			}
			ttls = append(ttls, o.TTL)
			if o.Fence == n.Fence {
				same++
			}
		}
		if same >= s.Need {
			s.Fence = n.Fence
		}
		if len(ttls) >= s.Need && s.Token == "" {
			// NoTTL, -1, is the longest.
			slices.SortFunc(ttls, func(a, b time.Duration) int { return cmp.Compare(uint64(b), uint64(a)) })
			s.Token, s.Metadata, s.TTL = n.Token, n.Metadata, ttls[s.Need-1]
		}
	}
}
