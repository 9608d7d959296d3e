package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/clock"
	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// waiting is what a Locker has of the calls that wait for a name. It is under the mutex of the entry. It implements [engine.Waiters].
type waiting struct {
	engine.Waiting
	last       *QuorumError // why the last round was lost; nil means that none was since the lock was won or passed on
	notice     clock.Timer  // for logWait
	noting     bool         // it is set
	ringLogged time.Time    // see logRingOnce
}

func (q *waiting) Stop() {
	q.Waiting.Stop()
	if q.notice != nil {
		q.notice.Stop()
	}
}

// waiter is a call of Lock that waits. It is woken when it has one of round, offered, lock and refused, which it may find long after that: when
// the lock that was passed on has expired, or its context has ended. With a round it stays at the head of the queue until it tells
// what came of it; with a lock or a refusal it has left the queue. All are under the mutex of the entry. It implements [engine.Waiter].
type waiter struct {
	engine.Call
	locker *Locker
	entry  *engine.Entry
	ctx    context.Context
	since  time.Time
	req    request
	all    *together     // that waits for this name among others; nil: for this one alone
	woken  chan struct{} // has room for one

	round   *engine.Acquire // that has been begun for it
	offered bool            // a round of all is to begin
	lock    *Lock           // that was passed on to it
	refused *QuorumError    // why the lock cannot become free
}

// waiting returns what the waiter shares with the others that wait for its name.
func (w *waiter) waiting() *waiting { return w.entry.Waiters.(*waiting) }

func (w *waiter) Offered() {
	if w.all != nil {
		w.offered = true
	} else {
		w.round = w.locker.beginLocked(w.entry, &w.Call, &w.req)
	}
	w.wake()
}

func (w *waiter) Refused() {
	w.refused = w.lastLocked(nil)
	w.refused.Reason = ErrForeign // whatever the last round was lost to
	w.wake()
}

// wake does not block.
func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // it has not looked yet
	}
}

// lastLocked returns why w does not hold the lock, never nil: the last round that came to an end; that others had the lock while w
// waited, as far as that is known; or the round that was stopped, as far as it went. Keys without a TTL, and data of another program,
// are added as they were observed.
func (w *waiter) lastLocked(stopped *QuorumError) *QuorumError {
	l, name := w.locker, &w.entry.Name
	reason := ErrNoQuorum // while the first round is under way
	if name.Taken(w.since) {
		reason = ErrTaken
	}
	refusal := l.refusal(event.OpAcquire, w.req.name, reason, func(i int) error {
		if seen, _ := name.Seen(i); seen.Held {
			return nodeerr.ErrHeld
		}
		return nodeerr.ErrQueued
	})
	switch last := w.waiting().last; {
	case last != nil:
		refusal.Reason = last.Reason
		copy(refusal.Nodes, last.Nodes)
	case stopped != nil && (reason == ErrNoQuorum || stopped.preventedBy(isFailure)): //nolint:errorlint // it is set above
		return stopped
	}
	now := l.engine.Clock.Now()
	for i := range refusal.Nodes {
		n := &refusal.Nodes[i]
		switch seen, since := name.Seen(i); {
		case seen.Foreign && seen.TTL > 0:
			n.Err = &engine.Passing{TTL: seen.TTL}
		case seen.Foreign && !errors.Is(n.Err, nodeerr.ErrForeign):
			n.Err = nodeerr.ErrForeign
		case seen.NoTTL && !since.IsZero(): // otherwise it has changed since
			n.Err = fmt.Errorf("%w: %w, and was seen unchanged for %v", nodeerr.ErrHeld, nodeerr.ErrNoExpiry, now.Sub(since).Round(time.Millisecond))
		}
	}
	refusal.blame()
	return refusal
}
