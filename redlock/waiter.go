package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// waiter is a call of Lock that waits. lock and refused are under the mutex of the entry.
type waiter struct {
	engine.Waiter
	locker  *Locker
	entry   *engine.Entry
	ctx     context.Context
	req     request
	lock    *Lock        // the lock that was handed off to the call
	refused *QuorumError // why the lock cannot become free
}

// lostLocked returns why the last round for the name was lost. It returns nil if no round was lost since the lock was
// won or handed off.
func (w *waiter) lostLocked() *QuorumError {
	lost, _ := w.entry.Waiting.Lost.(*QuorumError)
	return lost
}

// Refused records why the wait of a call has ended: data of another program is in the way and stays.
func (p program) Refused(of *engine.Waiter) {
	w := of.By.(*waiter)
	w.refused = w.lastLocked(nil)
	w.refused.Reason = ErrForeign // whatever the reason of the last round
}

// lastLocked returns why w does not hold the lock; never nil. That is the refusal of the last round that ended.
// Otherwise it is that others had the lock while w waited, if that is known, or the refusal of the stopped round.
// Except to the latter, lastLocked adds the observed keys without a TTL, and observed data of another program.
func (w *waiter) lastLocked(stopped *QuorumError) *QuorumError {
	l, name := w.locker, &w.entry.Name
	reason := ErrNoQuorum // while the first round is under way
	if name.Taken(w.Since) {
		reason = ErrTaken
	}
	refusal := l.refusal(event.OpAcquire, w.req.name, reason, func(i int) error {
		if o, _ := name.Observation(i); o.Exists {
			return nodeerr.ErrHeld
		}
		return nodeerr.ErrQueued
	})
	switch last := w.lostLocked(); {
	case last != nil:
		refusal.Reason = last.Reason
		copy(refusal.Nodes, last.Nodes)
	case stopped != nil && (reason == ErrNoQuorum || stopped.preventedBy(isFailure)): //nolint:errorlint // it is set above
		return stopped
	}
	now := l.engine.Clock.Now()
	for i := range refusal.Nodes {
		n := &refusal.Nodes[i]
		switch o, since := name.Observation(i); {
		case o.Foreign && o.TTL > 0:
			n.Err = &engine.Passing{TTL: o.TTL}
		case o.Foreign && !errors.Is(n.Err, nodeerr.ErrForeign):
			n.Err = nodeerr.ErrForeign
		case o.NoTTL && !since.IsZero(): // otherwise the key has changed since
			n.Err = fmt.Errorf("%w: %w, and was seen unchanged for %v",
				nodeerr.ErrHeld, nodeerr.ErrNoExpiry, now.Sub(since).Round(time.Millisecond))
		}
	}
	refusal.blame()
	return refusal
}
