package lock

import (
	"fmt"
	"time"
)

// state is what the first call does. Time alone changes no state: the lock of this process may have expired in state ours, until an input
// finds that.
//
// docs/design.md has the table, which is made from this file.
type state uint8

const (
	idle     state = iota // no call waits, and this process does not have the lock
	trying                // the first call has a round under way
	watching              // the first call waits for what the nodes show, or for the end of a pause
	ours                  // this process has the lock; the first call, if any, waits for its end
)

func (s state) String() string { return [...]string{"idle", "trying", "watching", "ours"}[s] }

// legal holds the changes that may happen: from the state of the row to that of the column. A change to the same state is another round, or
// another reason to watch.
var legal = [...][4]bool{
	//        idle   trying watching ours
	idle:     {false, true, true, false},
	trying:   {true, true, true, true},
	watching: {true, true, true, true}, // to ours when the lock is handed off that a call has taken which did not wait
	ours:     {true, false, true, false},
}

// become changes the state.
func (q *queue) become(s state) {
	if !legal[q.state][s] && q.rules.Broken != nil {
		q.rules.Broken(fmt.Errorf("the queue of %q changes from %v to %v", q.key, q.state, s))
	}
	q.state = s
}

// rest is the state without a round and without the lock.
func (q *queue) rest() state {
	if len(q.line.calls) > 0 {
		return watching
	}
	return idle
}

// settle follows when calls have left the line: without any, nothing is tried or watched.
func (q *queue) settle() {
	if len(q.line.calls) == 0 && q.state != ours {
		q.become(idle)
	}
}

// acquired records that this process has the lock.
func (q *queue) acquired(now time.Time, l *Lease) {
	for i := range q.view.nodes {
		q.view.nodes[i].noTTLFrom = time.Time{} // changes are not followed while the lock is held here
	}
	q.become(ours)
	q.holder, q.since = l, now
	q.view.token, q.turn.until = "", time.Time{}
}

// over records that this process no longer has the lock.
func (q *queue) over(now time.Time) {
	if q.state == ours {
		q.holder, q.since = nil, now
		q.become(q.rest())
	}
}

// expire ends state ours if nobody waits for its end and the lock has expired.
func (q *queue) expire(now time.Time) {
	if len(q.line.calls) == 0 && !q.holds(now) {
		q.over(now)
	}
}

// holds reports whether this process has the lock, as far as it knows.
func (q *queue) holds(now time.Time) bool { return q.state == ours && now.Before(q.holder.Kept()) }

// waits reports whether the first call waits for what the nodes show: also if the lock of this process has expired and next has not found
// that yet.
func (q *queue) waits(now time.Time) bool {
	return q.state == watching || q.state == ours && len(q.line.calls) > 0 && !q.holds(now)
}

// Verify returns an error if the queue is not as its state says.
func (n *Name) Verify() error {
	q := n.queue
	if q == nil {
		return nil
	}
	if n.first != (q.state == trying && q.line.calls[0] == nobody) {
		return fmt.Errorf("the queue of %q is %v, and a first call tries: %t", q.key, q.state, n.first)
	}
	if waits := len(q.line.calls) > 0; q.state == idle && waits || (q.state == trying || q.state == watching) && !waits || (q.state == ours) != (q.holder != nil) {
		return fmt.Errorf("the queue of %q is %v with %d calls; this process has the lock: %t", q.key, q.state, len(q.line.calls), q.holder != nil)
	}
	return nil
}
