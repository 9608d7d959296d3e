package lock

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// Attach is the search for a lock by its token. It finds out whether a majority of the nodes holds the token, and the
// kind of the lock. It asks each node for the value of the key. If that value is a mark, it asks the node once more:
// whether the token is among the sharers.
type Attach struct {
	votes   *quorum.Attach
	id      form.ID
	longest time.Duration
	asked   []form.Kind // asked[i] is the kind of the lock that the last question to node i was about
}

// kindBit is the lowest bit for the kind of a lock in a number. All numbers of locks are below it. So locks of two
// kinds do not count together, even if a client has chosen the same token for both.
const kindBit = 60

// NewAttach begins to ask n nodes. The lease counts from the Start of grant, which has no TTL. A key without a TTL
// counts as one that lasts for longest.
func NewAttach(n int, id form.ID, grant quorum.Grant, longest time.Duration) *Attach {
	return &Attach{votes: quorum.NewAttach(n, grant), id: id, longest: longest, asked: make([]form.Kind, n)}
}

// Observed handles the answer of a node about its key. The first question to a node is [form.Form.ObserveMaster]. If
// next is not nil, the caller sends it to the node, and passes that answer to Observed too.
func (a *Attach) Observed(
	clock quorum.Clock, node int, o form.Observation, server string,
) (next *wire.Command, outcome quorum.Outcome) {
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

// Lock returns the lock that the nodes hold, if the outcome is Done.
func (a *Attach) Lock() (id form.ID, kind form.Kind, lease quorum.Lease) {
	number := a.votes.Fence()
	a.id.Number = number & (1<<kindBit - 1)
	return a.id, form.Kind(number >> kindBit), a.votes.Lease(a.longest)
}
