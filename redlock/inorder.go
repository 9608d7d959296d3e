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

// maxTurns is the number of rounds that a call for several names loses on turns of its own. Then it goes on in the
// order of the names.
const maxTurns = 4

// wait runs rounds over all names until it holds their locks. After a lost round it waits for the first name that is in
// the way. Meanwhile it holds nothing, and it has its turn there like any other call. If that does not lead to the
// locks, it goes on in order.
func (t *together) wait(ctx context.Context) (*Locks, error) {
	impatient := make(chan struct{})
	defer t.locker.engine.Clock.AfterFunc(t.all[0].TTL, func() { close(impatient) }).Stop()
	locks, lost, err := t.round(ctx, t.all, nil)
	for turns := 0; lost != nil && err == nil; {
		select {
		case <-impatient:
			turns = maxTurns
		default:
		}
		switch {
		case t.over(ctx, lost):
			return nil, t.locker.refused(ctx, lost.refusal)
		case turns >= maxTurns, lost.scattered():
			return t.inOrder(ctx, false)
		}
		locks, lost, err = t.queue(ctx, max(lost.blocked, 0), lost, &turns, impatient)
	}
	if err != nil {
		return nil, err
	}
	return newLocks(locks), nil
}

// over reports whether a lost round is the last: ctx or the Locker has ended, or nobody can take one of the names.
func (t *together) over(ctx context.Context, lost *attempt) bool {
	return ctx.Err() != nil || t.locker.engine.Closing().Err() != nil || lost.hopeless
}

// queue waits for the i-th name after a lost round, and runs a round over all names on each turn. It returns the last
// lost round if another name is in the way now, or if the wait has lasted for too long.
func (t *together) queue(
	ctx context.Context, i int, lost *attempt, turns *int, impatient <-chan struct{},
) (locks []*Lock, _ *attempt, err error) {
	w := t.locker.join(ctx, &t.all[i], true)
	e := w.entry
	defer func() {
		e.Enter()
		e.GiveUpLocked(&w.Waiter) // this does nothing if the call has the locks
		e.Exit()
	}()
	w.noteWait()
	for *turns < maxTurns {
		select {
		case <-w.Woken:
		case <-impatient:
		case <-ctx.Done():
			w.logRing()
		case <-t.locker.engine.Closing().Done():
			w.logRing()
		}
		e.Enter()
		offered, refused := w.Offered, w.refused
		w.Offered = false
		if !offered && refused == nil {
			lost.refusal = ofSeveral(w.lastLocked(lost.refusal))
		}
		e.Exit()
		switch {
		case refused != nil:
			return nil, nil, ofSeveral(refused)
		case !offered:
			return nil, lost, nil
		}
		*turns++
		if locks, lost, err = t.round(ctx, t.all, w); lost == nil {
			return locks, nil, err
		}
		leaves := lost.blocked >= 0 && lost.blocked != i || lost.scattered() || t.over(ctx, lost)
		e.Enter()
		if e.GiveBackLocked(lost.parts[i].Acquire); !leaves {
			e.Waiting.Lost = lost.refusal
		}
		// If the call leaves and nobody holds this name, GiveUpLocked gives the next call its turn at once.
		if !leaves || lost.Blocks(lost.others[i]) {
			e.LostLocked(lost.parts[i].Acquire, &w.Call)
		}
		e.Exit()
		if leaves {
			break
		}
	}
	return nil, lost, nil
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

// errImpatient is the reason why a call in order releases the locks that it holds. Others may have taken the locks in
// another order, and wait for these.
var errImpatient = errors.New("it has waited for long while it holds locks")

// inOrder takes the locks in the order of their names. While it waits for one of them, it holds the locks before it. So
// such calls do not wait for each other in a circle. try means that it does not wait.
func (t *together) inOrder(ctx context.Context, try bool) (*Locks, error) {
	var held []*Lock
	giveBack := func() {
		for _, lock := range held {
			lock.giveBack()
		}
		held = nil
	}
	defer giveBack() // also if the log or the TokenSource panics
	for patience := t.all[0].TTL; ; {
		var err error
		if held, err = t.next(ctx, held, try, patience); err == nil && len(held) < len(t.all) {
			continue
		}
		if err == nil && t.refresh(ctx, held) == nil {
			locks := newLocks(held)
			held = nil
			return locks, nil
		}
		giveBack()
		switch {
		case errors.Is(err, errImpatient):
			patience *= 2
		case err != nil:
			return nil, err
		case try:
			return nil, t.locker.refused(
				ctx, t.locker.refusal(event.OpAcquire, t.all[0].name, errTooLate, func(int) error { return nil }))
		}
	}
}

// next takes the locks of the names behind the held ones: of all, or of the names before the first that others hold. If
// others hold the very next name, it waits for that one.
func (t *together) next(ctx context.Context, held []*Lock, try bool, patience time.Duration) ([]*Lock, error) {
	rest := slices.Clone(t.all[len(held):])
	for i := range rest {
		rest[i].Renewed, rest[i].MaxHold = true, NoLimit // until all are held
	}
	var lost *attempt
	for n := len(rest); n > 0; n = lost.named {
		var locks []*Lock
		var err error
		switch locks, lost, err = t.round(ctx, rest[:n], nil); {
		case err != nil || locks != nil:
			return append(held, locks...), err
		case t.over(ctx, lost):
			return held, t.locker.refused(ctx, lost.refusal)
		}
	}
	lock, err := t.one(ctx, rest[0], try, patience)
	if err != nil {
		switch one := err.(type) { //nolint:errorlint // it is of this call, and nobody has wrapped it
		case *QuorumError:
			err = ofSeveral(one)
		case *overError:
			err = &overError{one.ended, ofSeveral(one.answers)}
		}
		return held, err
	}
	return append(held, lock), nil
}

// one takes the lock of one name. It waits for patience at most, and then returns errImpatient. try means that it does
// not wait.
func (t *together) one(ctx context.Context, req request, try bool, patience time.Duration) (*Lock, error) {
	first := &t.all[0]
	if err := first.nextToken(); err != nil {
		return nil, failed(event.OpAcquire, first.name, err)
	}
	req.token = first.token
	if try {
		return t.locker.attempt(ctx, &req)
	}
	limited, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	defer t.locker.engine.Clock.AfterFunc(patience, func() { giveUp(errImpatient) }).Stop()
	lock, err := t.locker.wait(limited, &req)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(limited), errImpatient) {
		return nil, errImpatient
	}
	return lock, err
}

// refresh extends the locks, so that all last for as long as if they had just been taken. It leaves a lock that has
// nine tenths of that validity. From then on the locks are renewed if the call wants that.
func (t *together) refresh(ctx context.Context, held []*Lock) error {
	errs := newLocks(held).each(func(lock *Lock) error {
		want := &lock.holder.Want
		if validity := want.TTL - t.locker.settings.Drift.Of(want.TTL) - want.Grace; lock.Remaining() >= validity*9/10 {
			return nil
		}
		return lock.Extend(ctx, want.TTL)
	})
	if err := first(errs); err != nil {
		return err
	}
	for i, lock := range held {
		lock.held.RenewFromNow(t.all[i].Renewed, t.all[i].MaxHold)
	}
	return nil
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
