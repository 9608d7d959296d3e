package survey

import (
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/token"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// Holds reports whether a node holds anything that may be a lock. An empty value keeps others from taking the lock, too; it has a
// TTL, while that of a token may be 0 in its last millisecond.
func Holds(n *redlock.NodeState) bool { return n.Err == nil && (n.Token != "" || n.TTL != 0) }

// Remove deletes on each node what a state says that the node holds, and nothing else: what another has taken since stays. The state
// is that of an Inspect; prefix is that of the keys. Replies[i] is what Nodes[i] has answered, the zero Reply if it was not asked,
// as it held nothing. Remove returns within the node timeout.
func Remove(nodes []*pool.Node, prefix string, state *redlock.State) []node.Reply {
	answers := make(receiver, len(nodes))
	asked := 0
	for i, n := range state.Nodes {
		if !Holds(&n) {
			continue
		}
		value := token.Join(n.Token, n.Fence)
		(*node.Node)(nodes[i]).Send(time.Now(), node.Delete(prefix+state.Name, value), answers, i)
		asked++
	}
	replies := make([]node.Reply, len(nodes))
	for range asked { // each answers, within its timeout
		a := <-answers
		replies[a.node] = a.reply
	}
	return replies
}

// receiver receives the replies of the nodes. It has room for all.
type receiver chan answer

type answer struct {
	node  int
	reply node.Reply
}

// Reply is called once for each command.
func (r receiver) Reply(i int, reply node.Reply) { r <- answer{i, reply} }
