package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Attach finds out whether a majority of the nodes holds a token, and as what. It asks each node what the key holds, and one where several
// share the lock once more, whether the token is among theirs.
type Attach struct {
	votes   *quorum.Attach
	id      form.ID
	longest time.Duration
	asked   []form.Kind // asked[i] is the kind of the lock that the last question to node i was about
}

// kindBit is above all numbers of locks. From there on a number has the kind of a lock, so that locks of two kinds do not count together,
// though a client has chosen the same token for both.
const kindBit = 60

// NewAttach begins to ask n nodes. The lease counts from the start of the grant, which has no TTL, and lasts for longest if the key has none.
func NewAttach(n int, id form.ID, grant quorum.Grant, longest time.Duration) *Attach {
	return &Attach{votes: quorum.NewAttach(n, grant), id: id, longest: longest, asked: make([]form.Kind, n)}
}

// Observed takes what a node holds: first by [form.Form.ObserveMaster], and then by next, which the node is asked if it is not nil.
func (a *Attach) Observed(clock quorum.Clock, node int, o form.Observation, server string) (next *wire.Command, outcome quorum.Outcome) {
	asked := a.asked[node]
	if of := form.KindOf(o.Value); !asked.Several() && of.Several() && o.Answer == quorum.Yes {
		a.asked[node] = of
		return form.Shared{Kind: of}.Look(a.id), quorum.Undecided
	}
	ttl := o.TTL
	if ttl == wire.NoTTL {
		ttl = a.longest
	}
	held, number := o.Holds(a.id.Token), uint64(asked)<<kindBit|o.Number()
	return nil, a.votes.Observed(clock, node, held, number, ttl, server).Outcome
}

// Lock returns what the nodes hold, if the outcome is Done.
func (a *Attach) Lock() (id form.ID, kind form.Kind, lease quorum.Lease) {
	number := a.votes.Fence()
	a.id.Number = number & (1<<kindBit - 1)
	return a.id, form.Kind(number >> kindBit), a.votes.Lease(a.longest)
}
