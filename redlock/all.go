package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/pool/nodeerr"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// together is a call that takes the locks of several names. It carries out the Steps of its [engine.All].
type together struct {
	*engine.All
	locker *Locker
	reqs   []request // in the order of the names
	try    bool      // it does not wait

	locks  []*Lock      // the locks that it holds, by name; nil if it does not hold the name
	waiter *waiter      // its place in the line of the name At; nil if it has none
	turn   *engine.Part // the part of a lost round at that name, until the next Step says what becomes of the turn
	last   *QuorumError // of the last round that was lost, or of a better informed one before it; nil if there is none
	err    error        // ends the call, instead of last
}

// together makes the call for some names. try means that it does not wait.
func (l *Locker) together(reqs []request, try bool) *together {
	return &together{
		All: l.engine.All(len(reqs), reqs[0].TTL, !try), locker: l, reqs: reqs, try: try, locks: make([]*Lock, len(reqs)),
	}
}

// take carries out Steps until the call has its locks, or gives up.
func (t *together) take(ctx context.Context) (*Locks, error) {
	done := false
	defer func() {
		if !done { // the log or the TokenSource has panicked
			t.prepare(t.Over())
		}
	}()
	for next := t.Begin(t.busy()); ; {
		t.prepare(next)
		switch next.Do {
		case engine.AskNames:
			next = t.ask(ctx, next.Names)
		case engine.Await:
			next = t.await(ctx, next.At)
		case engine.Refresh:
			ok := t.refresh(ctx)
			if next = t.Refreshed(ok); !ok {
				t.last = nil
			}
		case engine.HaveAll:
			done = true
			return newLocks(t.locks), nil
		case engine.GiveUp:
			done = true
			return nil, t.refused(ctx)
		}
	}
}

// busy returns the names where other calls or processes come first.
func (t *together) busy() (busy engine.Names) {
	for i := range t.reqs {
		if e := t.locker.engine.Find(t.reqs[i].key); e != nil {
			if e.Name.Busy() {
				busy |= 1 << i
			}
			e.Exit()
		}
	}
	return busy
}

// prepare does what a Step says about the turn, the locks and the place of the call.
func (t *together) prepare(next engine.Step) {
	w := t.waiter
	if t.turn != nil {
		e := w.entry
		e.Enter()
		if next.Missed {
			if !next.Leave {
				e.Waiting.Lost = t.last
			}
			e.GiveBackLocked(t.turn.Acquire, &w.Call)
		} else {
			e.AgainLocked(t.turn.Acquire)
		}
		e.Exit()
		t.turn = nil
	}
	if next.GiveBack {
		for i, lock := range t.locks {
			if lock != nil {
				lock.giveBack()
				t.locks[i] = nil
			}
		}
	}
	if next.Leave && w != nil {
		w.entry.Enter()
		w.entry.GiveUpLocked(&w.Waiter) // this does nothing if the wait has ended
		w.entry.Exit()
		t.waiter = nil
	}
}

// refused returns the error of a call that has given up.
func (t *together) refused(ctx context.Context) error {
	switch {
	case t.err != nil:
		return t.err
	case t.last == nil: // a lock of a call that does not wait was lost
		t.last = t.locker.refusal(event.OpAcquire, t.reqs[0].name, errTooLate, func(int) error { return nil })
	}
	return t.locker.refused(ctx, t.last)
}

// await waits for the turn of the call at name i.
func (t *together) await(ctx context.Context, i int) engine.Step {
	l := t.locker
	if t.waiter == nil {
		t.waiter = l.joinAll(ctx, &t.reqs[i], t.last != nil)
		t.waiter.noteWait()
	}
	for {
		next, until, ok := t.look(ctx)
		if ok {
			return next
		}
		impatient, stop := make(chan struct{}), func() bool { return true }
		if !until.IsZero() {
			stop = l.engine.Clock.AfterFunc(until.Sub(l.engine.Clock.Now()), func() { close(impatient) }).Stop
		}
		select {
		case <-t.waiter.Woken:
		case <-impatient:
		case <-ctx.Done():
		case <-l.engine.Closing().Done():
		}
		stop()
	}
}

// look returns the next Step if something has ended the wait. Otherwise it returns until when the call keeps the locks
// that it holds: see [engine.All].
func (t *together) look(ctx context.Context) (next engine.Step, until time.Time, ok bool) {
	w, e := t.waiter, t.waiter.entry
	e.Enter()
	until = t.Until(e.Name.Changes())
	offered, refused := w.Offered, w.refused
	w.Offered = false
	e.Exit()
	switch {
	case refused != nil:
		t.last = ofSeveral(refused)
		return t.Over(), until, true
	case offered:
		return t.Turn(t.stands(), t.busy()), until, true
	case t.locker.stopped(ctx):
		w.logRing()
		e.Enter()
		t.last = ofSeveral(w.lastLocked(t.last))
		e.Exit()
		return t.Over(), until, true
	case !until.IsZero() && !t.locker.engine.Clock.Now().Before(until):
		return t.Impatient(), until, true
	}
	return next, until, false
}

// stands reports whether no lock that the call holds was lost.
func (t *together) stands() bool {
	return !slices.ContainsFunc(t.locks, func(l *Lock) bool { return l != nil && l.Err() != nil })
}

// refresh extends the locks, so that all last for as long as if they had just been taken, and reports whether that
// succeeded. It leaves a lock that has nine tenths of that validity. From then on the locks are renewed if the call
// wants that.
func (t *together) refresh(ctx context.Context) bool {
	errs := newLocks(t.locks).each(func(lock *Lock) error {
		want := &lock.holder.Want
		if validity := want.TTL - t.locker.settings.Drift.Of(want.TTL) - want.Grace; lock.Remaining() >= validity*9/10 {
			return nil
		}
		return lock.Extend(ctx, want.TTL)
	})
	if first(errs) != nil {
		return false
	}
	for i, lock := range t.locks {
		lock.held.RenewFromNow(t.reqs[i].Renewed, t.reqs[i].MaxHold)
	}
	return true
}

// ofSeveral returns the refusal of a call about one name as that of a call about several. It makes a copy, because
// events may have the original.
func ofSeveral(refusal *QuorumError) *QuorumError {
	several := *refusal
	held := func(n NodeError) bool {
		return errors.Is(n.Err, nodeerr.ErrHeld) || errors.Is(n.Err, nodeerr.ErrForeign)
	}
	if several.Names == nil && (!errors.Is(several.Reason, ErrNoQuorum) || slices.ContainsFunc(several.Nodes, held)) {
		several.Names = []string{several.Name}
	}
	return &several
}

// giveBack releases a lock that no caller has got to know. It does not wait for the answers.
func (l *Lock) giveBack() {
	h := l.held
	h.Enter()
	defer h.Exit()
	now := h.Now()
	exclusive := h.Lease.Exclusive(now)
	if h.LeaveLocked(&l.hold, now, exclusive) == engine.None {
		h.ReleaseLocked(new(engine.Release), now, exclusive)
	}
}
