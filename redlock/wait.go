package redlock

import (
	"context"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// wait waits for a name until it holds the lock.
func (l *Locker) wait(ctx context.Context, req *request) (*Lock, error) {
	w := l.join(ctx, req, nil)
	waits := true
	defer func() {
		if waits { // the log or the source of tokens panics
			w.abandon()
		}
	}()
	w.noteWait()
	for {
		select {
		case <-w.woken:
		case <-ctx.Done():
			w.logRing()
		case <-l.engine.Closing().Done():
			w.logRing()
		}
		if lock, err := w.look(ctx); lock != nil || err != nil {
			waits = false
			return lock, err
		}
	}
}

// join has a call wait: for one name, or for that of req among all, after a round that was lost.
func (l *Locker) join(ctx context.Context, req *request, all *together) *waiter {
	w := &waiter{locker: l, ctx: ctx, since: l.engine.Clock.Now(), req: *req, all: all, woken: make(chan struct{}, 1)}
	w.Call = engine.Call{Want: &w.req.Want, Metadata: w.req.metadata, Of: w, Lost: all != nil}
	w.entry = l.engine.Enter(req.key)
	if w.entry.Waiters == nil {
		w.entry.Waiters = new(waiting)
	}
	w.entry.WaitLocked(&w.Call)
	w.entry.Unlock()
	return w
}

// look takes what w was woken for. It gives up if that is nothing, as ctx has ended or the Locker was closed. Nothing is returned if a
// round was lost and w waits on.
func (w *waiter) look(ctx context.Context) (*Lock, error) {
	l, e := w.locker, w.entry
	e.Lock()
	r := w.round
	w.round = nil
	switch {
	case w.lock != nil:
		e.Unlock()
		return w.lock, nil
	case w.refused != nil:
		e.Unlock()
		return nil, w.refused
	case r == nil:
		return nil, w.leaveLocked(ctx, nil)
	}
	e.Unlock()
	if r.Wait(ctx, nil) == quorum.Done {
		e.Lock()
		defer e.Unlock()
		w.waiting().last = nil
		return l.wonLocked(e, &w.Call, r, &w.req), nil
	}
	var err error
	next := w.req
	switch {
	case ctx.Err() != nil || l.engine.Closing().Err() != nil:
		w.logRing()
		e.Lock()
		return nil, w.leaveLocked(ctx, r.refusal)
	case r.Outcome() != quorum.Denied && l.hopeless(r.refusal): // the queue finds out for itself what others hold
		err = r.refusal
	default:
		if source := next.nextToken(); source != nil {
			err = failed(event.OpAcquire, w.req.name, source)
		}
	}
	e.Lock()
	defer e.Unlock()
	if err != nil {
		e.GiveUpLocked(&w.Call)
		return nil, err
	}
	w.waiting().last, w.req.token = r.refusal, next.token
	e.LostLocked(&r.Acquire, &w.Call)
	return nil, nil
}

// abandon ends the wait of a call whose caller does not come back.
func (w *waiter) abandon() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if lock, _ := w.look(over); lock != nil {
		_ = lock.Unlock(over)
	}
}

// leaveLocked gives up the wait. stopped is what the nodes had answered to the round of the call, if one was under way. It releases
// the mutex.
func (w *waiter) leaveLocked(ctx context.Context, stopped *QuorumError) error {
	refusal := w.lastLocked(stopped)
	w.entry.GiveUpLocked(&w.Call)
	w.entry.Unlock()
	return w.locker.refused(ctx, refusal)
}
