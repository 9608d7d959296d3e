package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/internal/lock"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// waiter is a call of Lock that waits. It is woken when it has one of round, lock and refused, which it may find long after that: when
// the lock that was passed on has expired, or its context has ended. With a round it stays at the head of the queue until it tells
// what came of it; with a lock or a refusal it has left the queue. All are under the mutex of the entry.
type waiter struct {
	lock.Call
	ctx   context.Context
	since time.Time
	req   request
	woken chan struct{} // has room for one

	round   *acquireRound // that has been begun for it
	lock    *Lock         // that was passed on to it
	refused *QuorumError  // why the lock cannot become free
}

// wake does not block.
func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // it has not looked yet
	}
}

// wait waits for a name until it holds the lock.
func (l *Locker) wait(ctx context.Context, req request) (*Lock, error) {
	e, w := l.names.join(ctx, req)
	waits := true
	defer func() {
		if waits { // the log or the source of tokens panics
			e.abandon(w)
		}
	}()
	if l.events.logs(slog.LevelWarn) {
		e.noteWait()
	}
	for {
		over := false
		select {
		case <-w.woken:
		case <-ctx.Done():
			over = true
		case <-l.closing.Done():
			over = true
		}
		if over && l.events.logs(slog.LevelWarn) {
			e.logRing(w)
		}
		if lock, err := e.look(ctx, w); lock != nil || err != nil {
			waits = false
			return lock, err
		}
	}
}

// join has a call wait.
func (s *names) join(ctx context.Context, req request) (*entry, *waiter) {
	w := &waiter{ctx: ctx, since: s.locker.clock.Now(), req: req, woken: make(chan struct{}, 1)}
	w.Call = lock.Call{Want: &w.req.Want, Of: w}
	e := s.enter(req.key)
	if e.waiting == nil {
		e.waiting = new(waiting)
	}
	e.doLocked(e.name.Wait(nil, &w.Call))
	e.unlock()
	return e, w
}

// look takes what w was woken for. It gives up if that is nothing, as ctx has ended or the Locker was closed. Nothing is returned if a
// round was lost and w waits on.
func (e *entry) look(ctx context.Context, w *waiter) (*Lock, error) {
	e.mu.Lock()
	r := w.round
	w.round = nil
	switch {
	case w.lock != nil:
		e.mu.Unlock()
		return w.lock, nil
	case w.refused != nil:
		e.mu.Unlock()
		return nil, w.refused
	case r == nil:
		return nil, e.leave(ctx, w, nil)
	}
	e.mu.Unlock()
	if r.wait(ctx, nil, e.locker.closing.Done()) == quorum.Done {
		e.mu.Lock()
		defer e.unlock()
		e.waiting.last = nil
		return e.wonLocked(&w.Call, r, w.req), nil
	}
	next, ended := w.req, ctx.Err() != nil || e.locker.closing.Err() != nil
	if ended || r.Outcome() != quorum.Denied && r.refusal.hopeless(e.locker.served.Load()) { // the queue finds out for itself what others hold
		if ended && e.locker.events.logs(slog.LevelWarn) {
			e.logRing(w)
		}
		e.mu.Lock()
		if ended {
			return nil, e.leave(ctx, w, r.refusal)
		}
		e.doLocked(e.name.Leave(nil, &w.Call))
		e.unlock()
		return nil, r.refusal
	}
	err := next.nextToken()
	e.mu.Lock()
	defer e.unlock()
	if err != nil {
		e.doLocked(e.name.Leave(nil, &w.Call))
		return nil, failed(event.OpAcquire, w.req.name, err)
	}
	e.waiting.last, w.req.token = r.refusal, next.token
	e.doLocked(e.name.Lost(nil, &w.Call, &r.acquire))
	return nil, nil
}

// abandon ends the wait of w, whose caller does not come back.
func (e *entry) abandon(w *waiter) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if lock, _ := e.look(over, w); lock != nil {
		_ = lock.Unlock(over)
	}
}

// leave gives up the wait of w. stopped is what the nodes had answered to its round, if one was under way. The caller has the mutex,
// which leave releases.
func (e *entry) leave(ctx context.Context, w *waiter, stopped *QuorumError) error {
	refusal := e.lastLocked(w, stopped)
	e.doLocked(e.name.Leave(nil, &w.Call))
	e.unlock()
	return e.locker.refused(ctx, refusal)
}

// lastLocked returns why w does not hold the lock, never nil: the last round that came to an end; that others had the lock while w
// waited, as far as that is known; or the round that was stopped, as far as it went. Keys without a TTL, and data of another program,
// are added as they were observed.
func (e *entry) lastLocked(w *waiter, stopped *QuorumError) *QuorumError {
	reason := ErrNoQuorum // while the first round is under way
	if e.name.Taken(w.since) {
		reason = ErrTaken
	}
	refusal := e.locker.refusal(event.OpAcquire, w.req.name, reason, func(i int) error {
		if seen, _ := e.name.Seen(i); seen.Held {
			return nodeerr.ErrHeld
		}
		return nodeerr.ErrQueued
	})
	switch last := e.waiting.last; {
	case last != nil:
		refusal.Reason = last.Reason
		copy(refusal.Nodes, last.Nodes)
	case stopped != nil && (reason == ErrNoQuorum || stopped.failed() > len(refusal.Nodes)-refusal.Need): //nolint:errorlint // it is set above
		return stopped
	}
	now := e.locker.clock.Now()
	for i := range refusal.Nodes {
		n := &refusal.Nodes[i]
		switch seen, since := e.name.Seen(i); {
		case seen.Foreign && !errors.Is(n.Err, nodeerr.ErrForeign):
			n.Err = nodeerr.ErrForeign
		case seen.NoTTL && !since.IsZero(): // otherwise it has changed since
			n.Err = fmt.Errorf("%w: %w, and was seen unchanged for %v", nodeerr.ErrHeld, nodeerr.ErrNoExpiry, now.Sub(since).Round(time.Millisecond))
		}
	}
	refusal.blame()
	return refusal
}
