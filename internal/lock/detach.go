package lock

import (
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// detached is the work that a process still has with a lock that it has left on the nodes ([Name.Detach]).
//
// A node that stood still may carry out the acquire after that. It may even set the key after the Unlock of the process
// that has attached to the lock. A release right behind the acquire could come too early: the other process may hold
// the lock, and count on that node. So this process looks at all nodes when the late yes arrives. If the nodes that may
// still hold the token are no majority, the lock is over, and the late keys are released. Otherwise the process looks
// at the nodes once more after the node timeout, because the releases of an Unlock may have been on their way.
type detached struct {
	late []int  // the nodes that have granted the lock late, and may still hold it
	look uint32 // the number of the last look at all nodes
	gone int    // how many nodes have answered this look that they do not hold the token
}

// cameLate handles the late yes ([wire.Reply]) of a node to the acquire of a lock that was left on the nodes.
func (r *Round) cameLate(acts []Act, node int) []Act {
	r.detached.late = append(r.detached.late, node)
	return append(r.lookAtAll(acts), Act{What: Again, To: r.to})
}

// Again looks at all nodes once more, unless the late keys have been released.
func (r *Round) Again(acts []Act) []Act {
	if len(r.detached.late) == 0 {
		return acts
	}
	return r.lookAtAll(acts)
}

// lookAtAll begins a look at all nodes. From then on, answers to an earlier look do not count.
func (r *Round) lookAtAll(acts []Act) []Act {
	l := r.detached
	l.look, l.gone = l.look+1, 0
	look := r.form.Look(r.id)
	look.Tracked, look.BySource = false, false
	for i := range r.Nodes() {
		acts = append(acts, Act{Command: look, Tag: wire.Tag{What: Detached, Serial: l.look, Node: uint16(i)}, To: r.to})
	}
	return acts
}

// stillHolds handles the answer of a node to a look at all nodes.
func (r *Round) stillHolds(acts []Act, tag wire.Tag, reply *wire.Reply) []Act {
	l := r.detached
	if tag.Serial != l.look || r.form.Shows(reply).Holds(r.id.Token) != quorum.No {
		return acts
	}
	if l.gone++; r.Nodes()-l.gone != quorum.Majority(r.Nodes())-1 {
		return acts
	}
	release := new(wire.Command)
	r.form.Release(release, r.id, r.grant.TTL)
	for _, i := range l.late {
		acts = append(acts, Act{Command: release, Tag: wire.Tag{What: Forgotten, Node: uint16(i)}})
	}
	l.late = nil
	return acts
}
