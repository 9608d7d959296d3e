package redlock

import (
	"context"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// wait waits for a name until the call holds its lock, or gives up.
func (l *Locker) wait(ctx context.Context, req *request) (*Lock, error) {
	w, lock := l.first(ctx, req)
	if lock != nil {
		return lock, nil
	}
	waits := true
	l.waiting.Add(1)
	defer func() {
		l.waiting.Add(-1)
		if waits { // the log or the source of tokens has panicked
			w.abandon()
		}
	}()
	w.noteWait()
	for {
		select {
		case <-w.Woken:
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

// stopped reports whether the calls with ctx have to end: ctx or the Locker has ended.
func (l *Locker) stopped(ctx context.Context) bool {
	return ctx.Err() != nil || l.engine.Closing().Err() != nil
}

// first runs a round at once, as TryLock does, if no call is ahead. It returns a waiter if a call is ahead, or if the
// round is lost.
func (l *Locker) first(ctx context.Context, req *request) (*waiter, *Lock) {
	e, c := l.engine.Enter(req.key), engine.Call{Want: &req.Want, Metadata: req.metadata}
	if !e.Name.First(&c) {
		defer e.Exit()
		return l.joinLocked(ctx, e, req), nil
	}
	r, returned := e.AskLocked(&c, req.token, req.call), false
	defer func() {
		if !returned { // the log has panicked
			l.waitOn(ctx, e, &c, r, req).abandon()
		}
	}()
	e.Exit()
	outcome := r.Wait(ctx, nil)
	returned = true
	if outcome != quorum.Done {
		return l.waitOn(ctx, e, &c, r, req), nil
	}
	e.Enter()
	defer e.Exit()
	return nil, l.wonLocked(e, &c, r, req)
}

// waitOn makes a waiter of a first call whose round was not won.
func (l *Locker) waitOn(
	ctx context.Context, e *engine.Entry, first *engine.Call, r *engine.Acquire, req *request,
) *waiter {
	e.Enter()
	defer e.Exit()
	w := l.newWaiter(ctx, e, req, r.Grant().Start)
	e.WaitOnLocked(first, &w.Waiter, r)
	return w
}

// joinAll puts a call for several names into the queue for the name of req. lost means that the call has lost a round.
func (l *Locker) joinAll(ctx context.Context, req *request, lost bool) *waiter {
	e := l.engine.Enter(req.key)
	defer e.Exit()
	w := l.newWaiter(ctx, e, req, l.engine.Clock.Now())
	w.Several, w.Lost = true, lost
	e.WaitLocked(&w.Waiter)
	return w
}

// joinLocked puts a call into the queue for the name of req.
func (l *Locker) joinLocked(ctx context.Context, e *engine.Entry, req *request) *waiter {
	w := l.newWaiter(ctx, e, req, l.engine.Clock.Now())
	e.WaitLocked(&w.Waiter)
	return w
}

// newWaiter makes the waiter of a call that is about to wait.
func (l *Locker) newWaiter(ctx context.Context, e *engine.Entry, req *request, since time.Time) *waiter {
	w := &waiter{locker: l, entry: e, ctx: ctx, req: *req}
	w.Waiter = engine.Waiter{
		Call: engine.Call{Want: &w.req.Want, Metadata: req.metadata}, For: req.call, By: w, Since: since,
		Token: req.token, Woken: make(chan struct{}, 1),
	}
	return w
}

// look handles the event that woke w. If there is none, ctx has ended or the Locker was closed, and look gives up. It
// returns nothing if a round was lost and w still waits.
func (w *waiter) look(ctx context.Context) (*Lock, error) {
	l, e := w.locker, w.entry
	e.Enter()
	r := w.Round
	w.Round = nil
	switch {
	case w.lock != nil:
		e.Exit()
		return w.lock, nil
	case w.refused != nil:
		e.Exit()
		return nil, w.refused
	case r == nil:
		return nil, w.leaveLocked(ctx, nil)
	}
	e.Exit()
	if r.Wait(ctx, nil) == quorum.Done {
		e.Enter()
		defer e.Exit()
		e.Waiting.Lost = nil
		return l.wonLocked(e, &w.Call, r, &w.req), nil
	}
	var err error
	next, refusal := w.req, l.refusalOf(&r.Round)
	switch {
	case l.stopped(ctx):
		w.logRing()
		e.Enter()
		return nil, w.leaveLocked(ctx, refusal)
	case r.Outcome() != quorum.Denied && l.hopeless(refusal): // the queue itself observes the keys of other holders
		err = refusal
	default:
		if source := next.nextToken(); source != nil {
			err = failed(event.OpAcquire, w.req.name, source)
		}
	}
	e.Enter()
	defer e.Exit()
	if err != nil {
		e.GiveUpLocked(&w.Waiter)
		return nil, err
	}
	e.Waiting.Lost, w.Token, w.req.token = refusal, next.token, next.token
	e.LostLocked(r, &w.Call)
	return nil, nil
}

// abandon ends the wait of a call that panics. It releases the lock if the call has just got it.
func (w *waiter) abandon() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if lock, _ := w.look(over); lock != nil {
		_ = lock.Unlock(over)
	}
}

// leaveLocked gives up the wait, and releases the mutex. stopped is the refusal of the round that was under way, with
// the answers of the nodes until then; nil if there was no round.
func (w *waiter) leaveLocked(ctx context.Context, stopped *QuorumError) error {
	refusal := w.lastLocked(stopped)
	w.entry.GiveUpLocked(&w.Waiter)
	w.entry.Exit()
	return w.locker.refused(ctx, refusal)
}
