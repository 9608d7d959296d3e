package survey

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/cmd/redlock/internal/display"
	"github.com/quorumlock/quorumlock/internal/form"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock"
)

// Overlap is what to know before a lock is removed whose holder may not be gone.
const Overlap = "A holder that still runs keeps working beside the next one. If it renews, it notices within moments, or at its next " +
	"renewal. If it does not, it notices at its Unlock or its deadline."

// Remove deletes on each node what a state says that the node holds, and nothing else: what another has taken since stays, and so does a
// reader, or the holder of a slot, that has come since. The state is that of an Inspect; prefix is that of the keys. Failed[i] is why Nodes[i] has not
// deleted it, nil if it has, or was not asked, as it held nothing. Remove returns within the node timeout. Record is the line for the log, whose form is documented, and stable;
// "" if nothing was removed.
func Remove(nodes []*pool.Node, prefix string, state *redlock.LockState) (failed []error, record string) {
	deletions := make([][]*wire.Command, len(nodes))
	asked := 0
	for i, n := range state.Nodes {
		if n.Kind != "" {
			deletions[i] = removals(prefix+state.Name, &n)
			asked += len(deletions[i])
		}
	}
	answers := make(receiver, asked)
	now := time.Now()
	for i, all := range deletions {
		for _, deletion := range all {
			tag := wire.Tag{Node: uint16(i)}
			if err := (*node.Node)(nodes[i]).Send(now, deletion, answers, tag); err != nil {
				answers.Reply(tag, wire.Unsent(err))
			}
		}
	}
	failed = make([]error, len(nodes))
	removed, unknown := map[int]bool{}, map[int]bool{}
	for range asked { // each answers, within its timeout
		a := <-answers
		switch {
		case a.err == nil:
			removed[a.node] = true
		case !errors.Is(a.err, nodeerr.ErrAbsent) && !errors.Is(a.err, nodeerr.ErrHeld) && !errors.Is(a.err, nodeerr.ErrForeign):
			failed[a.node], unknown[a.node] = a.err, true
		case !unknown[a.node]:
			failed[a.node] = a.err
		}
	}
	for i := range removed {
		if !unknown[i] { // some sharers may have gone before
			failed[i] = nil
		}
	}
	if len(removed) > 0 {
		who := display.Holder(state)
		if only := state.Holders; len(only) == 1 { // of many readers perhaps, one was ended
			who = cmp.Or(only[0].Metadata, who)
		}
		record = fmt.Sprintf("redlock: forced unlock key=%q removed=%d nodes=%d holder=%q", prefix+state.Name, len(removed), len(nodes), who)
	}
	return failed, record
}

// removals are the commands that delete what a node holds. Sharers are ended one by one, and then the mark if nobody
// is in.
func removals(key string, n *redlock.NodeState) (all []*wire.Command) {
	add := func(f form.Form, seen form.Observation) {
		c := new(wire.Command)
		f.Remove(c, key, seen)
		all = append(all, c)
	}
	if !display.Several(n.Kind) {
		h := n.Holders[0]
		add(form.Exclusive{}, form.Observation{Value: token.Join(string(h.Token), h.Fence)})
		return all
	}
	shared := form.Shared{Kind: form.KindNamed(string(n.Kind))}
	for _, h := range n.Holders {
		add(shared, form.Observation{Token: string(h.Token)})
	}
	add(shared, form.Observation{})
	return all
}

// receiver receives the replies of the nodes. It has room for all.
type receiver chan answer

type answer struct {
	node int
	err  error // nil if it has deleted something
}

// Reply is called once for each command.
func (r receiver) Reply(tag wire.Tag, reply *wire.Reply) { r <- answer{int(tag.Node), reply.Err} }
