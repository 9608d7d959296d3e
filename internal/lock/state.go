package lock

import (
	"fmt"
	"time"
)

// state is the activity of the head of the queue. Time alone changes no state: in state ours the lock of this process
// may have expired, until an input finds that.
//
// docs/design.md has the table of the states, which is made from this file.
type state uint8

const (
	idle     state = iota // no call waits, and this process does not have the lock
	trying                // the head has a round under way
	watching              // the head waits for answers or pushes of the nodes, or for the end of a pause
	ours                  // this process has the lock; the head, if there is one, waits for its end
)

func (s state) String() string { return [...]string{"idle", "trying", "watching", "ours"}[s] }

// legal is the table of the changes that may happen: from the state of the row to that of the column. A change to the
// same state is another round, or another reason to watch.
var legal = [...][4]bool{
	//        idle   trying watching ours
	idle:     {false, true, true, false},
	trying:   {true, true, true, true},
	watching: {true, true, true, true}, // to ours when a lock is handed off that a call outside the queue took
	ours:     {true, false, true, false},
}

// become changes the state. It reports a change that legal does not allow.
func (q *queue) become(s state) {
	if !legal[q.state][s] && q.rules.Broken != nil {
		q.rules.Broken(fmt.Errorf("the queue of %q changes from %v to %v", q.key, q.state, s))
	}
	q.state = s
}

// rest returns the state without a round and without the lock.
func (q *queue) rest() state {
	if len(q.line.calls) > 0 {
		return watching
	}
	return idle
}

// settle makes the queue idle if no call is left in the line and this process does not have the lock.
func (q *queue) settle() {
	if len(q.line.calls) == 0 && q.state != ours {
		q.become(idle)
	}
}

// acquired records that this process has the lock.
func (q *queue) acquired(now time.Time, l *Lease) {
	for i := range q.view.nodes {
		q.view.nodes[i].noTTLFrom = time.Time{} // this process does not follow changes while it has the lock
	}
	q.become(ours)
	q.holder, q.since = l, now
	q.changes.saw(now, q.rules.Self)
	q.view.token, q.turn.until = "", time.Time{}
}

// over records that this process no longer has the lock.
func (q *queue) over(now time.Time) {
	if q.state == ours {
		q.holder, q.since = nil, now
		q.changes.saw(now, "")
		q.become(q.rest())
	}
}

// expire ends state ours if the lock has expired and no call waits for its end.
func (q *queue) expire(now time.Time) {
	if len(q.line.calls) == 0 && !q.holds(now) {
		q.over(now)
	}
}

// holds reports whether this process has a lock whose key a majority of the nodes still keeps.
func (q *queue) holds(now time.Time) bool { return q.state == ours && now.Before(q.holder.Kept()) }

// waits reports whether the head waits for answers or pushes of the nodes. In state ours it does so when the lock of
// this process has expired, and next has not found that yet.
func (q *queue) waits(now time.Time) bool {
	return q.state == watching || q.state == ours && len(q.line.calls) > 0 && !q.holds(now)
}

// Verify returns an error if the queue does not match its state.
func (n *Name) Verify() error {
	q := n.queue
	if q == nil {
		return nil
	}
	if n.first != (q.state == trying && q.line.calls[0] == nobody) {
		return fmt.Errorf("the queue of %q is %v, and a first call tries: %t", q.key, q.state, n.first)
	}
	if waits := len(q.line.calls) > 0; q.state == idle && waits ||
		(q.state == trying || q.state == watching) && !waits || (q.state == ours) != (q.holder != nil) {
		return fmt.Errorf("the queue of %q is %v with %d calls; this process has the lock: %t",
			q.key, q.state, len(q.line.calls), q.holder != nil)
	}
	return nil
}
