package quorum

import "slices"

// Announce is a message to the process that holds the lock: somebody waits in this one.
type Announce struct {
	Node int // to send it through
	To   string
}

// Pass is a message to another process, through every node: it is its turn.
type Pass struct {
	To     string
	Rivals []string // those that wait after it
}

// pass gives the turn to the other process that has waited for the longest, if one is known.
func (q *Queue[W]) pass() Moves {
	if len(q.rivals) == 0 {
		return Moves{}
	}
	p := &Pass{To: q.rivals[0], Rivals: q.rivals[1:]}
	q.rivals = nil
	return Moves{Pass: p}
}

// Heard tells that another process waits, as it says to the holder.
func (q *Queue[W]) Heard(who string) {
	if who != q.self && !slices.Contains(q.rivals, who) && len(q.rivals) < maxRivals {
		q.rivals = append(q.rivals, who)
	}
}

// Told tells that another process has said through a node that it is our turn. The round
// begins when a majority has: the release is ahead of the message on each.
func (q *Queue[W]) Told(node int, rivals []string) Moves {
	if !q.held.IsZero() {
		return Moves{} // we have come before it
	}
	q.told[node] = true
	n := 0
	for _, told := range q.told {
		if told {
			n++
		}
	}
	if n != Majority(len(q.told)) {
		return Moves{}
	}
	for _, who := range rivals {
		q.Heard(who)
	}
	if len(q.waiters) == 0 {
		clear(q.told)
		return q.pass()
	}
	if q.trying {
		q.again = true
		return Moves{}
	}
	return q.try()
}
