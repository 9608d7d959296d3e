package redlock

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
)

// Verdict is the conclusion from the answers of the nodes: whether anybody holds a lock.
type Verdict string

const (
	// VerdictHeld means that a majority of the nodes holds the same token. Or it has the same shared lock, or the same
	// token in the same slot.
	VerdictHeld Verdict = "held"
	// VerdictNobody means that nobody holds the lock, whatever is on the nodes that did not answer. Tokens on a minority
	// may still prevent an acquire, until they are released or expire.
	//
	// Shared locks and slots that are on a minority, or that have ended, may prevent one too. Where the last of them ended
	// without an Unlock, writers are kept out for up to a quarter longer than the longest TTL was. If somebody has also
	// removed the TTL of the key, they are kept out until another sharer comes, or for ever. [Locker.ForceUnlock] ends
	// that.
	VerdictNobody Verdict = "nobody"
	// VerdictForeign means that nobody holds the lock and nobody can take it: the nodes without data of another program
	// are no majority. Data that has a TTL ends by itself.
	VerdictForeign Verdict = "foreign"
	// VerdictUnknown means that the nodes that did not answer decide: a lock of any kind may be on a majority, or not.
	VerdictUnknown Verdict = "unknown"
)

// LockState is the state of a lock on the nodes. [Locker.Inspect] returns it.
type LockState struct {
	Name    string
	Need    int // the number of nodes that make the majority
	Verdict Verdict
	// Kind is the kind of the locks that are held. If nobody is known to hold one, Kind shows a mark: it is KindShared or
	// KindSlot if a node has the mark of that kind. If nodes have both marks, the mark on more nodes counts, or KindShared
	// if both are on as many. Otherwise Kind is KindExclusive, also if the nodes hold nothing.
	Kind Kind
	// Token is the token that a majority of the nodes holds. It is "" without a majority, and if Kind is KindShared or
	// KindSlot. It is also "" if a majority holds an empty value, which another client has set. That value keeps the lock
	// from everybody else, as any token does.
	Token    string
	Metadata string // of the holder, see [Metadata]
	// Fence is the fencing token that a majority holds with Token; 0 if there is none.
	Fence uint64
	// Sharers are the holders of a shared lock or a slot. Each of them is on a majority of the nodes, and with a slot in
	// the same slot there. The one whose TTL ends first is in front. It is nil if there are none. Sharers on fewer nodes
	// are in Nodes only.
	Sharers []Sharer
	// TTL is how much longer a majority holds the token, or has the last of the Sharers, counted from the call of Inspect.
	// It is [NoLimit] if the key never expires, and 0 unless Verdict is VerdictHeld.
	TTL time.Duration
	// WriterWaits means that a majority of the nodes knows of a process that waits for the exclusive lock, or for a lock
	// of another kind, so nobody else gets a shared lock or a slot. Only a node that has one shows this.
	WriterWaits bool
	// Nodes[i] is about the i-th node given to New or Open. There is one for each node.
	Nodes []NodeState
}

// NodeState is the state of a lock on one node.
type NodeState struct {
	Addr string
	Held bool // the node holds a token, which may be empty, or the mark of shared locks or of slots
	// Kind is KindShared or KindSlot with that mark, and KindExclusive with a token. It is "" unless Held, and
	// NewLockState treats "" as KindExclusive.
	Kind     Kind
	Token    string // the token that the node holds; "" with a mark
	Metadata string // of the holder, see [Metadata]
	// Fence is the fencing token of the holder, see [Lock.Fence], or 0 if there is none. A minority of the nodes may have
	// a different one.
	Fence uint64
	// TTL is the time that the key, or the data, has left; NoLimit if it never expires. A mark has a longer TTL than any
	// sharer.
	TTL time.Duration
	// Sharers are the sharers that the node has, each of them once. The one whose TTL ends first is in front. With
	// KindShared and KindSlot it is nil if all sharers are gone, and the mark has not expired.
	Sharers     []Sharer
	WriterWaits bool // the node knows of such a process, see [LockState]; false unless Kind is KindShared or KindSlot
	// Err is the reason why there is no answer, an error of package nodeerr; nil if there is one. nodeerr.ErrForeign means
	// that data of another program is there.
	Err error
}

// Sharer is the holder of a shared lock or of a slot.
type Sharer struct {
	Token    string
	Metadata string        // of its holder, see [Metadata]
	TTL      time.Duration // how much longer a majority has the Sharer, or in a NodeState, that node
	Nodes    int           // the number of nodes that have the Sharer; 1 in a NodeState
	// Slot is the index of the slot, from 0 to 1023. Sharers that have slots at the same time have different ones. It is
	// -1 if the node has lost the slot, which counts as if the node did not have the Sharer. It is 0 for a shared lock,
	// which has no slot.
	Slot int
}

// NewLockState computes the LockState from the states of all nodes that the lock is taken on. A node whose Err is set
// has not answered, and may hold anything, unless Err is [nodeerr.ErrForeign]. Nodes with equal Tokens and different
// Fences have the same holder.
func NewLockState(name string, nodes []NodeState) *LockState {
	s := &LockState{
		Name: name, Need: quorum.Majority(len(nodes)), Verdict: VerdictNobody, Kind: KindExclusive, Nodes: nodes,
	}
	missing, data, most, told := 0, 0, 0, 0
	marks := map[Kind]int{} // on how many nodes the mark of each kind is
	for i := range nodes {
		n := &nodes[i]
		if n.Err == nil && n.WriterWaits {
			told++
		}
		switch {
		case errors.Is(n.Err, nodeerr.ErrForeign):
			data++
		case n.Err != nil:
			missing++
		case n.Held && n.Kind.several():
			marks[n.Kind]++
		case n.Held:
			most = max(most, s.count(n))
		}
	}
	if most < s.Need {
		most = max(most, s.shareAny(marks))
	}
	s.WriterWaits = told >= s.Need
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
		if !o.Held || o.Err != nil || o.Kind.several() || o.Token != n.Token {
			continue
		}
		ttls = append(ttls, o.TTL)
		if o.Fence == n.Fence {
			fences++
		}
	}
	if len(ttls) >= s.Need {
		s.Token, s.Metadata, s.TTL = n.Token, n.Metadata, s.forMajority(ttls)
		if fences >= s.Need {
			s.Fence = n.Fence
		}
	}
	return len(ttls)
}

// shareAny calls share for each kind whose mark is there. Kind becomes the kind whose mark is on the most nodes, unless
// sharers of another kind are on a majority.
func (s *LockState) shareAny(marks map[Kind]int) (most int) {
	kinds := slices.SortedFunc(maps.Keys(marks), func(a, b Kind) int {
		return cmp.Or(cmp.Compare(marks[b], marks[a]), cmp.Compare(a, b))
	})
	if len(kinds) > 0 {
		s.Kind = kinds[0]
	}
	for _, kind := range kinds {
		most = max(most, s.share(kind))
	}
	return most
}

// share returns the highest number of nodes that have the same sharer of a kind. It makes holders of the sharers that
// are on a majority. At most one of the kinds has any.
func (s *LockState) share(kind Kind) (most int) {
	type sharer struct {
		token string
		slot  int
	}
	ttls, metadata := map[sharer][]time.Duration{}, map[sharer]string{}
	for _, n := range s.Nodes {
		if n.Err != nil || n.Kind != kind {
			continue
		}
		for _, r := range n.Sharers {
			if who := (sharer{r.Token, r.Slot}); r.Slot >= 0 {
				ttls[who], metadata[who] = append(ttls[who], r.TTL), r.Metadata
			}
		}
	}
	for who, on := range ttls {
		most = max(most, len(on))
		if len(on) >= s.Need {
			s.Kind = kind
			s.Sharers = append(s.Sharers, Sharer{who.token, metadata[who], s.forMajority(on), len(on), who.slot})
		}
	}
	slices.SortFunc(s.Sharers, func(a, b Sharer) int {
		return cmp.Or(cmp.Compare(a.TTL, b.TTL), cmp.Compare(a.Token, b.Token))
	})
	if n := len(s.Sharers); n > 0 {
		s.TTL = s.Sharers[n-1].TTL
	}
	return most
}

// forMajority returns how much longer a majority has a token or a sharer. ttls are those on the nodes that have it.
func (s *LockState) forMajority(ttls []time.Duration) time.Duration {
	slices.Sort(ttls)
	return ttls[len(ttls)-s.Need]
}
