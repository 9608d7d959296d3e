package redlock

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/lockstate"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Verdict says whether anybody holds a lock.
type Verdict string

const (
	// VerdictHeld means that a majority of the nodes has the same holder.
	VerdictHeld Verdict = "held"
	// VerdictNobody means that nobody holds the lock, whatever the missing nodes have. Keys on a minority, and readers and
	// slots that ended without an Unlock, may still prevent an acquire until they expire.
	VerdictNobody Verdict = "nobody"
	// VerdictForeign means that nobody can take the lock: data of another program is on too many nodes.
	VerdictForeign Verdict = "foreign"
	// VerdictUnknown means that the answer depends on nodes that did not answer.
	VerdictUnknown Verdict = "unknown"
)

// LockState is the state of a lock on the nodes, by [Locker.Inspect].
type LockState struct {
	Name string
	// Kind is that of the Holders, or else of what most nodes have, marks first, or "" if they have nothing.
	Kind    Kind
	Verdict Verdict
	Need    int // the majority
	// Holders are on a majority each, in the order of their TTLs. They are nil unless Verdict is VerdictHeld.
	Holders []Holder
	// WriterWaits means that a majority knows of a process that waits for another kind, and keeps new callers out.
	WriterWaits bool
	// Nodes[i] is about the i-th node.
	Nodes []NodeState
}

// NodeState is the state of a lock on one node.
type NodeState struct {
	Addr string
	// Kind is "" if there is nothing.
	Kind Kind
	// Holders are the holders that the node has, in the order of their TTLs; nil also for a mark that remains.
	Holders []Holder
	// TTL is that of the key, or NoLimit.
	TTL         time.Duration
	WriterWaits bool // see LockState
	// Err is an error of package nodeerr if there is no answer, or nodeerr.ErrForeign for data of another program.
	Err error
}

// Holder holds a lock, of any kind.
type Holder struct {
	// Token is "" for an empty value of another client, which keeps the lock taken.
	Token    Token
	Metadata string // see [Metadata]
	// Fence is 0 if there is none, or fewer than a majority have it: see [Lock.Fence].
	Fence uint64
	// Slot is from 0 to 1023, different for each holder; 0 for other kinds. In a NodeState -1 means that the node has lost
	// it.
	Slot int
	// TTL is how much longer a majority, or in a NodeState the node, has the Holder; [NoLimit] if it never ends.
	TTL   time.Duration
	Nodes int // how many nodes have the Holder; 1 in a NodeState
}

func init() { lockstate.Of = newLockState }

// newLockState computes the LockState from the states of all nodes that the lock is taken on. A node whose Err is set
// has not answered, and may hold anything, unless Err is [nodeerr.ErrForeign]. Nodes with equal Tokens and different
// Fences have the same holder.
func newLockState(name string, nodes []NodeState) *LockState {
	s := &LockState{Name: name, Need: quorum.Majority(len(nodes)), Verdict: VerdictNobody, Nodes: nodes}
	missing, data, told, most := 0, 0, 0, 0
	for i := range nodes {
		switch n := &nodes[i]; {
		case errors.Is(n.Err, nodeerr.ErrForeign):
			data++
		case n.Err != nil:
			missing++
		case n.WriterWaits:
			told++
		}
	}
	s.WriterWaits = told >= s.Need
	for _, kind := range kindsOn(nodes) {
		for _, h := range holdersOn(nodes, kind, s.Need) {
			if most = max(most, h.Nodes); h.Nodes >= s.Need {
				s.Kind, s.Holders = kind, append(s.Holders, h)
			}
		}
		s.Kind = cmp.Or(s.Kind, kind)
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

// kindsOn returns the kinds that are on the nodes. Marks are in front, and those on the most nodes before the others.
func kindsOn(nodes []NodeState) []Kind {
	on := map[Kind]int{}
	for _, n := range nodes {
		if n.Err == nil && n.Kind != "" {
			on[n.Kind]++
		}
	}
	if on[KindExclusive] > 0 {
		on[KindExclusive] = 0 // a mark counts before tokens
	}
	return slices.SortedFunc(maps.Keys(on), func(a, b Kind) int {
		return cmp.Or(cmp.Compare(on[b], on[a]), cmp.Compare(a, b))
	})
}

// holdersOn returns the holders of a kind that are on any of the nodes, the one whose TTL ends first in front. need of
// the nodes have the TTL and the Fence of a Holder. If fewer nodes have the Holder, both are 0.
func holdersOn(nodes []NodeState, kind Kind, need int) (all []Holder) {
	type who struct {
		token Token
		slot  int
	}
	on := map[who][]Holder{}
	for i := range nodes {
		if n := &nodes[i]; n.Err == nil && n.Kind == kind {
			for _, h := range n.Holders {
				if w := (who{h.Token, h.Slot}); h.Slot >= 0 {
					on[w] = append(on[w], h)
				}
			}
		}
	}
	for _, same := range on {
		h := same[0]
		if h.Nodes, h.Fence, h.TTL = len(same), 0, 0; h.Nodes >= need {
			slices.SortFunc(same, func(a, b Holder) int { return cmp.Compare(a.TTL, b.TTL) })
			h.TTL, h.Fence = same[h.Nodes-need].TTL, commonFence(same, need)
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.TTL, b.TTL), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Slot, b.Slot))
	})
	return all
}

// commonFence returns the fencing token that need of the nodes have with a holder, or 0.
func commonFence(same []Holder, need int) uint64 {
	on := map[uint64]int{}
	for _, h := range same {
		if on[h.Fence]++; on[h.Fence] >= need {
			return h.Fence
		}
	}
	return 0
}
