package redlock

import (
	"context"
	"log/slog"
	"time"

	"github.com/quorumlock/quorumlock/internal/engine"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/redlock/event"
)

// Unlock releases the lock. It waits for the node timeout at most. A ctx that has ended before the call is ignored, so
// "defer lock.Unlock(ctx)" is right. If ctx ends later, Unlock returns, and the release goes on.
//
//	nil           a majority held the lock until now, or another handle still holds it
//	ErrLost       it was lost (ErrExpired, ErrGone): the work may have overlapped with another holder's
//	ErrReleased   this handle has been unlocked before
//	ErrNoQuorum   unknown: too few nodes answered, or ctx ended (then with ctx.Err())
//	ErrInvalid    the Lock is nil
//
// In each case the lock is over for this handle. After ErrNoQuorum the release is sent again when nodes are back,
// except to servers that refused it; the key ends at its TTL at the latest. A second call may return [ErrNotHeld]
// alone, if the first released the lock.
func (l *Lock) Unlock(ctx context.Context) (err error) {
	if l == nil {
		return failed(event.OpUnlock, "", noLock)
	}
	e, call, handedOff := &l.locker.events, l.locker.newCall(ctx), false
	if call != nil {
		defer func() {
			if !e.endUnheard(call) {
				e.emitEnd(call, event.Unlock{
					Context: ctx, Call: call.id, Lock: callOf(l.holder.Of).callID(), Name: l.Name(), Kind: string(l.Kind()),
					Start: call.start, Took: time.Since(call.start), Handoff: handedOff, Err: err,
				})
			}
		}()
	}
	handedOff, err = l.unlock(ctx, call)
	return err
}

// noLock is the error of the Unlock of a nil handle.
var noLock = invalid("there is no lock: the call that should have returned it has failed")

// unlock ends a hold: it hands the lock off, or releases it after the last hold.
func (l *Lock) unlock(ctx context.Context, call *observedCall) (handedOff bool, err error) {
	ctx = living(ctx)
	h, locker := l.held, l.locker
	h.Enter()
	l.meanLocked()
	h.LingerLocked()
	if l.handOffLocked(call) {
		h.Exit()
		return true, nil
	}
	r := new(engine.Release)
	r.Of = call
	// The answers count from now. So begin reads its time first: otherwise an answer would seem later than it was.
	locker.events.begin(&r.Round)
	now := h.Now()
	ending, exclusive := h.AtLocked(now), h.Lease.Exclusive(now)
	left := h.LeaveLocked(&l.hold, now, exclusive)
	inTime := l.hold.InTime() // as the first call of Unlock found it, if this is another one
	if left == engine.None {
		h.ReleaseLocked(r, now, exclusive)
	}
	h.Exit()
	if ending == quorum.Expired && exclusive {
		locker.events.logLine(slog.LevelInfo, false,
			"redlock: a lock was not renewed in time, and is released within its grace", "name", l.Name())
	}
	switch {
	case left == engine.Nothing:
		return false, failed(event.OpUnlock, l.Name(), ErrReleased)
	case left == engine.Others && !exclusive:
		return false, failed(event.OpUnlock, l.Name(), locker.end(h, ending))
	case left == engine.Others:
		return false, nil
	}
	outcome, refusal := l.awaitRelease(ctx, r, ending)
	switch {
	case outcome == quorum.Done:
		return false, nil
	case outcome == quorum.NoQuorum:
		return false, givenUp(ctx, refusal)
	case !inTime && ending != quorum.Released:
		return false, failed(event.OpUnlock, l.Name(), locker.end(h, ending))
	}
	return false, refusal
}

// living returns ctx, without its end if it has ended.
func living(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// awaitRelease waits until the release has its outcome, or ctx ends. It returns the outcome, or NoQuorum if the release
// still goes on. ending is how the lock had ended before the release.
func (l *Lock) awaitRelease(
	ctx context.Context, r *engine.Release, ending quorum.Ending,
) (quorum.Outcome, *QuorumError) {
	select {
	case <-r.Done():
	case <-ctx.Done():
		if says(context.Cause(ctx), l.Name(), ErrNotHeld) {
			<-r.Done() // ctx is the lock's own context, which has ended with the lock
		}
	}
	l.held.Enter()
	defer l.held.Exit()
	outcome := r.Outcome()
	switch outcome {
	case quorum.Done:
		return outcome, nil
	case quorum.Undecided:
		outcome = quorum.NoQuorum
	}
	if outcome == quorum.NoQuorum {
		l.held.Lease.Unsure()
	}
	reason := reasons[event.OpUnlock][outcome]
	if outcome == quorum.Denied && ending != quorum.Released { // otherwise an earlier call may have released it
		reason = ErrGone
	}
	return outcome, l.locker.refusal(event.OpUnlock, l.Name(), reason, r.Why)
}

// handOffLocked hands off a lock that is being unlocked to the next waiter of its name in this Locker. It returns false
// if there is none, or if the lock may not be handed off.
func (l *Lock) handOffLocked(unlock *observedCall) bool {
	h, locker := l.held, l.locker
	to := h.NextLocked(&l.hold)
	if to == nil {
		return false
	}
	w := to.By.(*waiter)
	if locker.events.wants(groupEnds) {
		locker.endedLocked(h, event.End{Err: ErrReleased}, unlock)
	}
	next := &struct { // the next holder, with its handle
		engine.Holder
		handle Lock
	}{Holder: holder(&w.req)}
	if !locker.events.wants(groupEnds) { // the log tells for how long this process has had the lock
		next.Since = h.Holder.Since
	}
	next.handle = Lock{
		locker: locker, held: h, holder: &next.Holder,
		hold: engine.Hold{Hold: h.HandOffLocked(&l.hold, to, &next.Holder)},
	}
	w.lock = &next.handle
	return true
}
