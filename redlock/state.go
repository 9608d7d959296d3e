package redlock

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Verdict is whether anybody holds a lock, as far as the answers of the nodes show it.
type Verdict string

const (
	// VerdictHeld means that a majority of the nodes holds the same token.
	VerdictHeld Verdict = "held"
	// VerdictNobody means that nobody holds the lock, whatever the nodes hold that did not answer. Tokens on a minority may still
	// prevent an acquire, until they are released or expire.
	VerdictNobody Verdict = "nobody"
	// VerdictForeign means that nobody holds the lock and nobody can take it: data of another program is on so many nodes that
	// the others are no majority.
	VerdictForeign Verdict = "foreign"
	// VerdictUnknown means that a token may be on a majority or not: the nodes that did not answer decide.
	VerdictUnknown Verdict = "unknown"
)

// LockState is what the nodes hold of a lock. [Locker.Inspect] returns it.
type LockState struct {
	Name    string
	Need    int // how many nodes make the majority
	Verdict Verdict
	// Token is what a majority of the nodes holds; "" without a majority. It is "" also if that is an empty value, which another
	// client has set: it keeps the lock from everybody else, as any token does.
	Token    string
	Metadata string // of the holder, see [Metadata]
	// Fence is the fencing token that a majority holds with Token; 0 if there is none.
	Fence uint64
	// TTL is how much longer a majority holds the token, counted from the call of Inspect. It is [NoLimit] if the key never
	// expires, and 0 unless Verdict is VerdictHeld.
	TTL time.Duration
	// Nodes[i] is about the i-th node given to New or Open. There is one for each.
	Nodes []NodeState
}

// NodeState is what one node holds of a lock.
type NodeState struct {
	Addr     string
	Held     bool          // it holds a token, which may be empty
	Token    string        // that it holds
	Metadata string        // of the holder, see [Metadata]
	Fence    uint64        // of the holder, 0 for none: see [Lock.Fence]; on a minority of nodes it may be another
	TTL      time.Duration // that the key has left, NoLimit if it never expires
	// Err is why there is no answer, an error of package nodeerr; nodeerr.ErrForeign means that data of another program is there.
	Err error
}

// NewLockState computes the LockState from the states of all nodes that the lock is taken on. A node whose Err is set has not
// answered, and may hold anything, unless that is [nodeerr.ErrForeign]. Nodes with equal Tokens and different Fences have one holder.
func NewLockState(name string, nodes []NodeState) *LockState {
	s := &LockState{Name: name, Need: quorum.Majority(len(nodes)), Verdict: VerdictNobody, Nodes: nodes}
	missing, data, most := 0, 0, 0
	for i := range nodes {
		switch n := &nodes[i]; {
		case errors.Is(n.Err, nodeerr.ErrForeign):
			data++
		case n.Err != nil:
			missing++
		case n.Held:
			most = max(most, s.count(n))
		}
	}
	switch {
	case most >= s.Need:
		s.Verdict = VerdictHeld
	case most+missing >= s.Need:
		s.Verdict = VerdictUnknown
	case data > 0 && len(nodes)-data < s.Need:
		s.Verdict = VerdictForeign
	}
	return s
}

// count returns how many nodes hold the token of n, and makes n the holder if they are a majority.
func (s *LockState) count(n *NodeState) int {
	var ttls []time.Duration
	fences := 0
	for _, o := range s.Nodes {
		if !o.Held || o.Err != nil || o.Token != n.Token {
			continue
		}
		ttls = append(ttls, o.TTL)
		if o.Fence == n.Fence {
			fences++
		}
	}
	if len(ttls) >= s.Need {
		slices.Sort(ttls)
		s.Token, s.Metadata, s.TTL = n.Token, n.Metadata, ttls[len(ttls)-s.Need]
		if fences >= s.Need {
			s.Fence = n.Fence
		}
	}
	return len(ttls)
}
