package kind

import (
	"context"
	"math"
	"time"

	"github.com/quorumlock/quorumlock/chaos/internal/client"
	"github.com/quorumlock/quorumlock/chaos/internal/history"
	"github.com/quorumlock/quorumlock/redlock"
)

// lease is how workers take locks of the kinds that there are.
type lease struct {
	fenced  bool // holders write registers with their fence
	forced  bool // somebody calls ForceUnlock, and holders keep a lock for long
	kept    bool // holders keep a lock for most of its TTL, and do not renew it: a node that forgets it is found out
	read    bool // others read the same names under a lock that they share
	slots   bool // others take slots of the same names
	patient bool // all wait for as long as it takes, and locks that are left expire late: only who notices a release has them sooner
}

// checked are the registers that check fences.
var checked = [...]string{history.Redis, history.Postgres}

// turn takes a lock in one of the ways, relies on it for a while, and ends it in one of the ways.
func (l lease) turn(ctx context.Context, w *client.Worker, name string) {
	call := client.Call{Way: history.Waiting, TTL: w.TTL(), Renews: l.forced || w.OneIn(2)}
	if l.patient || l.forced || l.kept {
		call.TTL = w.Longest()
	}
	call.Renews = call.Renews && !l.kept
	if w.OneIn(3) {
		if h := w.Attach(ctx, name, client.Call{TTL: call.TTL, Renews: call.Renews, Slots: l.slotsOf(name)}); h != nil {
			l.hold(ctx, w, h, call)
			return
		}
	}
	if l.forced && w.OneIn(6) {
		w.Force(context.WithoutCancel(ctx), name)
		return
	}
	if w.OneIn(8) {
		call.Options = append(call.Options, redlock.Grace(call.TTL/8))
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	switch way := w.Dice.IntN(10); {
	case l.patient:
	case way < 3:
		call.Way = history.Trying
	case way < 5 || l.forced: // who waits for long would have the lock as soon as it is forced open
		call.Options = append(call.Options, redlock.MaxWait(time.Duration(w.Dice.Int64N(int64(time.Second)))))
	case way < 7:
		limited, cancel = context.WithTimeout(ctx, time.Duration(w.Dice.Int64N(int64(3*time.Second))))
		defer cancel()
	}
	if call.Way == history.Waiting && w.OneIn(4) {
		w.Do(limited, name, call, func(ctx context.Context, h *client.Hold) { l.rely(ctx, w, h, call) })
	} else if h := w.Acquire(limited, name, call); h != nil {
		l.hold(ctx, w, h, call)
	}
}

// hold relies on a lock, and ends it.
func (l lease) hold(ctx context.Context, w *client.Worker, h *client.Hold, call client.Call) {
	inner, cancel := h.Context(ctx)
	defer cancel()
	exclusive := h.Kind() == redlock.KindExclusive
	if exclusive {
		l.rely(inner, w, h, call)
	} else {
		l.share(inner, w, h, call)
	}
	if l.fenced && exclusive && w.OneIn(8) { // who was paused, and does not know it, writes when another has the lock
		defer w.Write(context.WithoutCancel(ctx), h, checked[w.Dice.IntN(len(checked))])
		defer w.Wait(ctx, 200*time.Millisecond)
	}
	left := w.OneIn(20) || l.patient && w.OneIn(6)
	if !exclusive {
		left = w.OneIn(60) // as a writer waits for the last of them
	}
	if !left {
		unlock := context.WithoutCancel(ctx)
		w.Unlock(unlock, h)
		return
	}
	switch w.Dice.IntN(6) {
	case 0: // it ends by itself, or with the process
		if !call.Renews {
			return
		}
		w.Unlock(ctx, h)
	default:
		w.Detach(context.WithoutCancel(ctx), h)
	}
}

// rely works under a lock for a while: mostly short, sometimes for longer than its TTL.
func (l lease) rely(ctx context.Context, w *client.Worker, h *client.Hold, call client.Call) {
	steps, step := 1+w.Dice.IntN(3), 10*time.Millisecond
	switch dice := w.Dice.IntN(100); {
	case l.forced && dice < 80:
		steps, step = math.MaxInt, 200*time.Millisecond // until somebody calls ForceUnlock
	case dice == 0 || l.kept:
		steps, step = 10, call.TTL/5
	case dice < 4:
		steps, step = 5, 100*time.Millisecond
	}
	for range steps {
		if !w.Prove(h) || ctx.Err() != nil {
			return
		}
		l.use(ctx, w, h, call)
		w.Wait(ctx, step)
		w.Prove(h)
	}
}

// use makes use of a lock that is held.
func (l lease) use(ctx context.Context, w *client.Worker, h *client.Hold, call client.Call) {
	register := history.Plain
	if l.fenced && !w.OneIn(3) {
		register = checked[w.Dice.IntN(len(checked))]
	}
	switch w.Dice.IntN(6) {
	case 0, 1:
		w.Write(context.WithoutCancel(ctx), h, register)
	case 2:
		w.Read(ctx, h.Name(), register, h.ID)
	case 3:
		if w.OneIn(3) {
			w.Extend(ctx, h, max(call.TTL, w.TTL())) // at least twice the Grace
		}
	case 4:
		if !w.OneIn(6) {
			return
		}
		l.again(ctx, w, h)
	}
}

// again takes a lock again that is held. Who has it for reading has to, and who has it for writing may, do so with Shared; who has a slot
// does so by Acquire.
func (l lease) again(ctx context.Context, w *client.Worker, h *client.Hold) {
	again := client.Call{Way: history.Reentrant, TTL: w.TTL(), Outer: h, Renews: w.OneIn(2)}
	again.Reads = h.Kind() == redlock.KindShared || l.read && w.OneIn(2)
	if h.Kind() == redlock.KindSlot {
		again.Slots = l.slotsOf(h.Name())
	}
	if inner := w.Acquire(ctx, h.Name(), again); inner != nil {
		w.Wait(ctx, 10*time.Millisecond)
		w.Prove(inner)
		w.Unlock(context.WithoutCancel(ctx), inner)
	}
}
