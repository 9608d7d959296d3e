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

// Verdict is the conclusion from the answers of the nodes: whether anybody holds a lock.
type Verdict string

const (
	// VerdictHeld means that a majority of the nodes holds the same token. Or it has the same shared lock, or the same
	// token in the same slot.
	VerdictHeld Verdict = "held"
	// VerdictNobody means that nobody holds the lock, whatever is on the nodes that did not answer. Tokens on a
	// minority may still prevent an acquire, until they are released or expire.
	//
	// Shared locks and slots that are on a minority, or that have ended, may prevent one too. Where the last of them
	// ended without an Unlock, writers are kept out for up to a quarter longer than the longest TTL was. If somebody
	// has also removed the TTL of the key, they are kept out until another sharer comes, or for ever.
	// [Locker.ForceUnlock] ends that.
	VerdictNobody Verdict = "nobody"
	// VerdictForeign means that nobody holds the lock and nobody can take it: the nodes without data of another program
	// are no majority. Data that has a TTL ends by itself.
	VerdictForeign Verdict = "foreign"
	// VerdictUnknown means that the nodes that did not answer decide: a lock of any kind may be on a majority, or not.
	VerdictUnknown Verdict = "unknown"
)

// LockState is the state of a lock on the nodes. [Locker.Inspect] returns it.
type LockState struct {
	Name string
	// Kind is the kind of the Holders. If there are none, it is that of a mark: KindShared or KindSlot if a node has
	// the mark of that kind. If nodes have both marks, the mark on more nodes counts, or KindShared if both are on as
	// many. Otherwise it is KindExclusive if a node holds a token, and "" if the nodes hold nothing.
	Kind    Kind
	Verdict Verdict
	Need    int // the number of nodes that make the majority
	// Holders are on a majority of the nodes each. The one whose TTL ends first is in front. It is nil unless Verdict
	// is VerdictHeld. With KindExclusive it has one element. Holders on fewer nodes are in Nodes only.
	Holders []Holder
	// WriterWaits means that a majority of the nodes knows of a process that waits for the exclusive lock, or for a
	// lock of another kind, so nobody else gets a shared lock or a slot. Only a node that has one shows this.
	WriterWaits bool
	// Nodes[i] is about the i-th node given to New or Open. There is one for each node.
	Nodes []NodeState
}

// NodeState is the state of a lock on one node.
type NodeState struct {
	Addr string
	// Kind is KindExclusive if the node holds a token, KindShared or KindSlot if it has the mark of shared locks or of
	// slots, and "" if it has nothing.
	Kind Kind
	// Holders are the holders that the node has, each of them once. The one whose TTL ends first is in front. With
	// KindExclusive it has one element. With KindShared and KindSlot it is nil if all holders are gone, and the mark
	// has not expired.
	Holders []Holder
	// TTL is the time that the key, or the data, has left; NoLimit if it never expires. A mark has a longer TTL than
	// any holder.
	TTL         time.Duration
	WriterWaits bool // the node knows of such a process, see [LockState]; false unless Kind is KindShared or KindSlot
	// Err is the reason why there is no answer, an error of package nodeerr; nil if there is one. nodeerr.ErrForeign
	// means that data of another program is there.
	Err error
}

// Holder is who holds a lock, of any kind.
type Holder struct {
	// Token is "" for an empty value, which another client has set. That value keeps the lock from everybody else, as
	// any token does.
	Token    Token
	Metadata string // see [Metadata]
	// Fence is the fencing token, see [Lock.Fence]. It is 0 if there is none, or if a minority of the nodes has the
	// same.
	Fence uint64
	// Slot is the index of the slot, from 0 to 1023. Holders that have slots at the same time have different ones. In a
	// NodeState it is -1 if the node has lost the slot, which counts as if the node did not have the Holder. It is 0
	// for the other kinds.
	Slot int
	// TTL is how much longer a majority has the Holder, or in a NodeState, that node. It is counted from the call, and
	// [NoLimit] if it never ends.
	TTL   time.Duration
	Nodes int // the number of nodes that have the Holder; 1 in a NodeState
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
