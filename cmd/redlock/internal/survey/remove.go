package survey

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// Overlap is what to know before a lock is removed whose holder may not be gone.
const Overlap = "A holder that still runs keeps working beside the next one. If it renews, it notices within moments, or at its next " +
	"renewal. If it does not, it notices at its Unlock or its deadline."

// Remove deletes on each node what a state says that the node holds, and nothing else: what another has taken since stays. The state
// is that of an Inspect; prefix is that of the keys. Failed[i] is why Nodes[i] has not deleted it, nil if it has, or was not asked,
// as it held nothing. Remove returns within the node timeout. Record is the line for the log, whose form is documented, and stable;
// "" if nothing was removed.
func Remove(nodes []*pool.Node, prefix string, state *redlock.LockState) (failed []error, record string) {
	answers := make(receiver, len(nodes))
	asked := 0
	for i, n := range state.Nodes {
		if !n.Held {
			continue
		}
		deletion := new(wire.Command)
		form.Exclusive{}.Remove(deletion, prefix+state.Name, form.Seen{Value: token.Join(n.Token, n.Fence)})
		tag := wire.Tag{Node: uint16(i)}
		if err := (*node.Node)(nodes[i]).Send(time.Now(), deletion, answers, tag); err != nil {
			answers.Reply(tag, wire.Reply{Err: err})
		}
		asked++
	}
	failed = make([]error, len(nodes))
	removed := 0
	for range asked { // each answers, within its timeout
		a := <-answers
		failed[a.node] = a.err
		if a.err == nil {
			removed++
		}
	}
	if removed > 0 {
		record = fmt.Sprintf("redlock: forced unlock key=%q removed=%d nodes=%d holder=%q", prefix+state.Name, removed, len(nodes), state.Metadata)
	}
	return failed, record
}

// receiver receives the replies of the nodes. It has room for all.
type receiver chan answer

type answer struct {
	node int
	err  error // nil if it has deleted the lock
}

// Reply is called once for each command.
func (r receiver) Reply(tag wire.Tag, reply wire.Reply) { r <- answer{int(tag.Node), reply.Err} }
