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

// Verdict is whether anybody holds a lock, as far as the answers of the nodes show it.
type Verdict string

const (
	// VerdictHeld means that a majority of the nodes holds the same token, or has the same shared lock, or the same token in the same slot.
	VerdictHeld Verdict = "held"
	// VerdictNobody means that nobody holds the lock, whatever the nodes hold that did not answer. Tokens on a minority may still
	// prevent an acquire, until they are released or expire. So may shared locks and slots that are on a minority, or gone: where the last one
	// has ended without an Unlock, writers are kept out for up to a quarter longer than the longest TTL was, and if somebody has removed that
	// of the key, until another comes, or for ever. [Locker.ForceUnlock] ends that.
	VerdictNobody Verdict = "nobody"
	// VerdictForeign means that nobody holds the lock and nobody can take it: data of another program is on so many nodes that
	// the others are no majority. What has a TTL ends by itself.
	VerdictForeign Verdict = "foreign"
	// VerdictUnknown means that a lock of any kind may be on a majority or not: the nodes that did not answer decide.
	VerdictUnknown Verdict = "unknown"
)

// LockState is what the nodes hold of a lock. [Locker.Inspect] returns it.
type LockState struct {
	Name    string
	Need    int // how many nodes make the majority
	Verdict Verdict
	// Kind is that of the locks that are held. If nobody is known to hold one, it is KindShared or KindSlot where a node has the mark of that
	// kind: if both are there, that which is on more nodes counts, or if these are as many, KindShared. Otherwise it is KindExclusive, also
	// if the nodes hold nothing.
	Kind Kind
	// Token is what a majority of the nodes holds; "" without a majority, and if Kind is KindShared or KindSlot. It is "" also if that is an empty value,
	// which another client has set: it keeps the lock from everybody else, as any token does.
	Token    string
	Metadata string // of the holder, see [Metadata]
	// Fence is the fencing token that a majority holds with Token; 0 if there is none.
	Fence uint64
	// Sharers have a shared lock, or a slot: they are on a majority of the nodes, and with a slot, in the same one there. The
	// one whose TTL ends first is in front. It is nil if there are none. Those on fewer nodes are in Nodes only.
	Sharers []Sharer
	// TTL is how much longer a majority holds the token, or has the last of the Sharers, counted from the call of Inspect. It is [NoLimit] if
	// the key never expires, and 0 unless Verdict is VerdictHeld.
	TTL time.Duration
	// WriterWaits is whether a majority of the nodes has been told that a writer waits, so that nobody else gets a shared lock or a slot.
	// It is known only of nodes that have some.
	WriterWaits bool
	// Nodes[i] is about the i-th node given to New or Open. There is one for each.
	Nodes []NodeState
}

// NodeState is what one node holds of a lock.
type NodeState struct {
	Addr     string
	Held     bool          // it holds a token, which may be empty, or the mark of shared locks or of slots
	Kind     Kind          // KindShared or KindSlot with that mark, KindExclusive with a token; "" unless Held, and "" counts as KindExclusive
	Token    string        // that it holds; "" with a mark
	Metadata string        // of the holder, see [Metadata]
	Fence    uint64        // of the holder, 0 for none: see [Lock.Fence]; on a minority of nodes it may be another
	TTL      time.Duration // that the key, or the data, has left, NoLimit if it never expires; that of a mark is longer than that of any sharer
	// Sharers are those whom it has, the one whose TTL ends first in front, each of them once. With KindShared and KindSlot
	// it is nil if they are gone, and the mark has not expired.
	Sharers     []Sharer
	WriterWaits bool // it has been told that a writer waits, see [LockState]; false unless Kind is KindShared or KindSlot
	// Err is why there is no answer, an error of package nodeerr; nodeerr.ErrForeign means that data of another program is there.
	Err error
}

// Sharer is one who has a shared lock or a slot.
type Sharer struct {
	Token    string
	Metadata string        // of its holder, see [Metadata]
	TTL      time.Duration // how much longer a majority has it, in a NodeState that node
	Nodes    int           // how many nodes have it; 1 in a NodeState
	// Slot is the index of the slot, from 0 to 1023: of those who have one at a time each has another. It is -1 if the node has lost it, which
	// counts as if the node did not have the Sharer. A shared lock has no slot, and 0 here.
	Slot int
}

// NewLockState computes the LockState from the states of all nodes that the lock is taken on. A node whose Err is set has not
// answered, and may hold anything, unless that is [nodeerr.ErrForeign]. Nodes with equal Tokens and different Fences have one holder.
func NewLockState(name string, nodes []NodeState) *LockState {
	s := &LockState{Name: name, Need: quorum.Majority(len(nodes)), Verdict: VerdictNobody, Kind: KindExclusive, Nodes: nodes}
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

// shareAny is share of all kinds whose marks are there. The Kind is that of which there are the most, unless another is held.
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

// share returns how many nodes have the sharer of a kind that is on the most, and makes holders of those on a majority. At most
// one of the kinds has any.
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
	slices.SortFunc(s.Sharers, func(a, b Sharer) int { return cmp.Or(cmp.Compare(a.TTL, b.TTL), cmp.Compare(a.Token, b.Token)) })
	if n := len(s.Sharers); n > 0 {
		s.TTL = s.Sharers[n-1].TTL
	}
	return most
}

// forMajority returns how long a majority has what the nodes have for such TTLs.
func (s *LockState) forMajority(ttls []time.Duration) time.Duration {
	slices.Sort(ttls)
	return ttls[len(ttls)-s.Need]
}
