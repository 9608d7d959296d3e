package lock

import (
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/wire"
)

// detached is what a process has still to do about a lock that it has left on the nodes ([Name.Detach]). A node that stood still may carry
// out the acquire later than that, and so set the key behind the Unlock of the process that has taken up the lock. A release behind the acquire
// could come too early: the other may hold the lock, and count on that node. So all nodes are asked when the late yes is there. The lock
// is over if too many nodes no longer hold the token for a majority of the others, and then the late key is released. Otherwise they
// are asked once more after the node timeout: the releases of an Unlock may have been on their way.
type detached struct {
	late []int  // the nodes that have granted the lock late, and may hold it
	look uint32 // the number of the look at all nodes that is under way
	gone int    // how many of them have said that they do not hold the token
}

// cameLate handles the yes of a node to the acquire of a lock that was left, which came after a Reply that there was none in time.
func (r *Round) cameLate(acts []Act, node int) []Act {
	r.detached.late = append(r.detached.late, node)
	return append(r.lookAtAll(acts), Act{What: Again, To: r.to})
}

// Again looks at the nodes once more, unless that is settled.
func (r *Round) Again(acts []Act) []Act {
	if len(r.detached.late) == 0 {
		return acts
	}
	return r.lookAtAll(acts)
}

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

// stillHolds handles the answer of a node to that look.
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
