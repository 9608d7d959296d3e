package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool"
)

// NoTTL is the TTL of a key that never expires.
const NoTTL = pool.NoTTL

// State is what the nodes say of a lock.
type State struct {
	Name string
	Need int // how many nodes make the majority
	// Token is what a majority of the nodes holds, "" if none holds the same. Then others may still be
	// in the way of an acquire.
	Token    string
	Metadata string // of the holder, see [Metadata]
	// Fence is the fencing token that a majority holds with Token; 0 where there is none.
	Fence uint64
	// TTL is how much longer a majority holds the token, from when Inspect was called: NoTTL for ever, 0
	// where nobody holds the lock.
	TTL time.Duration
	// Nodes[i] is about the i-th node given to New.
	Nodes []NodeState
}

// NodeState is what one node says of a lock.
type NodeState struct {
	Addr     string
	Token    string // what it holds, "" for nothing
	Metadata string // of the holder, see [Metadata]
	Fence    uint64 // of the holder, 0 for none: see [Lock.Fence]; on a minority of nodes it may be another
	TTL      time.Duration
	Err      error // why there was no answer; an error of package pool or ErrPending
}

// Held says whether a majority holds the same token.
func (s *State) Held() bool { return s.Token != "" }

// Inspect asks every node who holds a lock, for how much longer. It changes nothing, waits for all
// nodes, for the node timeout at the longest, and what it says may be over when it is read.
//
// A State is returned in any case but for a bad name and a closed Locker. The error is [ErrNoQuorum] in
// a [*QuorumError] where fewer than a majority answered, joined with ctx.Err() where that is why.
func (l *Locker) Inspect(ctx context.Context, name string) (*State, error) {
	req, err := l.request(name, nil)
	if err != nil {
		return nil, err
	}
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.calls.Done()
	p := l.poll(pool.Look(req.key), nil)
	err = p.wait(ctx)
	s := &State{Name: name, Need: quorum.Majority(len(l.nodes))}
	for i, reply := range p.replies() {
		n := NodeState{Addr: l.nodes[i].Addr(), Err: reply.Err}
		switch reply.Answer {
		case pool.Yes:
			n.Token, n.Fence = l.split(reply.Value)
			n.Metadata, n.TTL = metadataOf(n.Token), reply.TTL
		case pool.No:
			n.Err = nil
		}
		s.Nodes = append(s.Nodes, n)
	}
	s.count()
	if answered := p.count(pool.Yes) + p.count(pool.No); answered >= s.Need {
		return s, nil
	}
	return s, p.refused(ctx, err, opInspect, name, ErrNoQuorum)
}

// count finds out what a majority holds.
func (s *State) count() {
	for _, n := range s.Nodes {
		if n.Token == "" {
			continue
		}
		var ttls []time.Duration
		same := 0
		for _, o := range s.Nodes {
			if o.Token == n.Token {
				ttls = append(ttls, o.TTL)
			}
			if o.Token == n.Token && o.Fence == n.Fence {
				same++
			}
		}
		if same >= s.Need {
			s.Fence = n.Fence
		}
		if len(ttls) >= s.Need && s.Token == "" {
			s.Token, s.Metadata, s.TTL = n.Token, n.Metadata, majorityTTL(ttls, s.Need)
		}
	}
}

// majorityTTL returns how much longer at least need nodes hold what they hold.
func majorityTTL(ttls []time.Duration, need int) time.Duration {
	slices.SortFunc(ttls, func(a, b time.Duration) int {
		switch {
		case a == b:
			return 0
		case a == NoTTL || b != NoTTL && a > b:
			return -1
		default:
			return 1
		}
	})
	return ttls[need-1]
}
