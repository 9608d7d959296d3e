package survey

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/pool"
	"github.com/quorumlock/quorumlock/redlock"
)

// Remove deletes on each node what a state says that the node holds, and nothing else: what another has taken since stays. The state
// is that of an Inspect; prefix is that of the keys. Replies[i] is what Nodes[i] has answered, the zero Reply if it was not asked,
// as it held nothing. Remove returns within the node timeout.
func Remove(nodes []*pool.Node, prefix string, state *redlock.State) []node.Reply {
	answers := make(receiver, len(nodes))
	asked := 0
	for i, n := range state.Nodes {
		if n.Err != nil || n.Token == "" && n.TTL == 0 {
			continue
		}
		value := n.Token
		if n.Fence > 0 {
			value = fmt.Sprintf("%s|%d", n.Token, n.Fence)
		}
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
